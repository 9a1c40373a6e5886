package fleet

import (
	"fmt"
	"math"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// By how much a card's state has to differ from its peers' to be why it is slow.
const (
	warmer       = 5.0  // °C
	lowerClock   = 0.01 // a share
	lowerPower   = 0.03
	moreThrottle = 0.1 // of the samples
)

// facts are what is known of a card that is slow.
type facts struct {
	common, sustained rules.Interval // over its peers
	// memory and rest are logs: its level where memory binds and elsewhere; NaN where there are no such cases.
	memory, rest float64
	family       string // the family in which alone it is slow, empty for none
	link         bool
	peers        int
	own, others  Conditions
	limits       []results.FactorDiff // what differs in limits from its peers'
	against      string               // in the place of peers of the same fleet, what the card is held against
}

// tell says in which way a card is slow, and in a sentence why that is said.
func (f facts) tell(loss rules.Interval) (Kind, string) {
	peers := fmt.Sprintf("%d peers", f.peers)
	if f.peers == 1 {
		peers = "its peer"
	}
	if f.against != "" {
		peers = f.against
	}
	amount := slowerText(loss)
	if f.link {
		return Link, fmt.Sprintf("copies from its host are %s than those of %s", amount, peers)
	}
	if f.family != "" {
		return Kernel, fmt.Sprintf("%s than %s at the common clock in %s, and not elsewhere", amount, peers, f.family)
	}
	common, sustained := math.Log(f.common.Mid), math.Log(f.sustained.Mid)
	if f.sustained.Mid > 0 && sustained-math.Max(0, common) > math.Max(0, common) {
		kind, why := f.clock()
		return kind, fmt.Sprintf("%s than %s in sustained time: %s", amount, peers, why)
	}
	if f.memory == f.memory && f.rest == f.rest && f.memory > 0 && f.rest < f.memory/2 {
		return Memory, fmt.Sprintf("%s than %s where memory binds, %s elsewhere%s", amount, peers, shareText(math.Expm1(f.rest)), f.bandwidth())
	}
	return AllCases, fmt.Sprintf("%s than %s at the common clock, in all cases alike", amount, peers)
}

// clock says why a clock is lower.
func (f facts) clock() (Kind, string) {
	o, p := f.own, f.others
	var words []string
	lower := o.ClockMHz > 0 && p.ClockMHz > 0 && o.ClockMHz < p.ClockMHz*(1-lowerClock)
	if o.ClockMHz > 0 && p.ClockMHz > 0 {
		words = append(words, fmt.Sprintf("its clock is %.0f MHz, theirs %.0f", o.ClockMHz, p.ClockMHz))
	} else {
		words = append(words, "its clock is not known")
	}
	hot, ofPower := o.share(kernels.HeatThrottle)-p.share(kernels.HeatThrottle), o.share(kernels.PowerThrottle)-p.share(kernels.PowerThrottle)
	limit := ""
	for _, d := range f.limits {
		if d.Name == kernels.PowerLimit {
			limit = fmt.Sprintf("%s is %s, theirs %s", d.Name, known(d.B), known(d.A))
		}
	}
	temperature := fmt.Sprintf("%.0f °C against %.0f", o.TempC, p.TempC)
	power := fmt.Sprintf("%.0f W against %.0f", o.PowerW, p.PowerW)
	switch {
	case limit != "":
		return Power, strings.Join(append(words, limit), "; ")
	case hot >= moreThrottle && hot >= ofPower:
		words = append(words, fmt.Sprintf("too hot in %s of its samples", shareText(o.share(kernels.HeatThrottle))))
		if o.TempC > 0 && p.TempC > 0 {
			words = append(words, temperature)
		}
		return Thermal, strings.Join(words, "; ")
	case ofPower >= moreThrottle:
		words = append(words, fmt.Sprintf("held back by power in %s of its samples, its peers in %s", shareText(o.share(kernels.PowerThrottle)), shareText(p.share(kernels.PowerThrottle))))
		if o.PowerW > 0 && p.PowerW > 0 {
			words = append(words, power)
		}
		return Power, strings.Join(words, "; ")
	case lower && o.TempC > 0 && p.TempC > 0 && o.TempC-p.TempC >= warmer:
		return Thermal, strings.Join(append(words, temperature), "; ")
	case lower && o.share(kernels.PowerThrottle) > 0.5 && o.PowerW > 0 && o.PowerW < p.PowerW*(1-lowerPower):
		return Power, strings.Join(append(words, power), "; ")
	}
	return Clock, strings.Join(words, "; ")
}

// bandwidth says what was measured of memory, where it is lower.
func (f facts) bandwidth() string {
	if o, p := f.own.ReadBandwidth, f.others.ReadBandwidth; o > 0 && p > 0 && o < p*(1-lowerClock) {
		return fmt.Sprintf("; it reads %.2f TB/s, they %.2f", o/1e12, p/1e12)
	}
	return ""
}

// share is the share of samples with a reason of one kind: at most all of them.
func (c Conditions) share(kind kernels.ThrottleKind) float64 {
	sum := 0.0
	for reason, share := range c.Reasons {
		if reason.Kind() == kind {
			sum += share
		}
	}
	return math.Min(1, sum)
}

// limitsOf and softwareOf divide what differs into limits, which somebody may change about a card, and software.
func limitsOf(all []results.FactorDiff, limits map[string]bool) (out []results.FactorDiff) {
	for _, d := range all {
		if limits[d.Name] {
			out = append(out, d)
		}
	}
	return out
}

func softwareOf(all []results.FactorDiff, limits map[string]bool) (out []results.FactorDiff) {
	for _, d := range all {
		if !limits[d.Name] {
			out = append(out, d)
		}
	}
	return out
}

func diffText(all []results.FactorDiff) string {
	words := make([]string, 0, len(all))
	for _, d := range all {
		words = append(words, fmt.Sprintf("%s %s, theirs %s", d.Name, known(d.B), known(d.A)))
	}
	return strings.Join(words, "; ")
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// slowerText words a ratio with its bounds: "2.1 % [1.6, 2.6] slower".
func slowerText(i rules.Interval) string {
	word := "slower"
	if i.Mid < 1 {
		word = "faster"
		i = rules.Interval{Lo: 2 - i.Hi, Mid: 2 - i.Mid, Hi: 2 - i.Lo}
	}
	return fmt.Sprintf("%.1f %% [%.1f, %.1f] %s", 100*(i.Mid-1), 100*(i.Lo-1), 100*(i.Hi-1), word)
}

// shareText words a share: "12 %".
func shareText(v float64) string {
	if math.Abs(v) < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
