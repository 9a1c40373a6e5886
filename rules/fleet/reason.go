package fleet

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// The minimum differences of a card's state from its peers' that explain a slow card.
const (
	warmer       = 5.0  // °C
	lowerClock   = 0.01 // a share
	lowerPower   = 0.03
	moreThrottle = 0.1 // of the samples
)

type facts struct {
	common, sustained stats.Interval // over its peers
	// memory and rest are log levels in memory-bound and other cases; NaN without such cases.
	memory, rest float64
	family       string // the only slow family, or ""
	link         bool
	peers        int
	own, others  Conditions
	limits       []results.FactorDiff
	against      string // the reference, if not peers of the same fleet
}

// tell returns the kind of a slow card, and a sentence with the reason.
func (f facts) tell(loss stats.Interval) (Kind, string) {
	peers := cmp.Or(f.against, "its peer")
	if f.against == "" && f.peers != 1 {
		peers = fmt.Sprintf("%d peers", f.peers)
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
		return Memory,
			fmt.Sprintf("%s than %s in memory-bound cases, %s elsewhere%s", amount, peers, shareText(math.Expm1(f.rest)), f.bandwidth())
	}
	return AllCases, fmt.Sprintf("%s than %s at the common clock, similarly in all cases", amount, peers)
}

func (f facts) clock() (Kind, string) {
	o, p := f.own, f.others
	var words []string
	lower := o.ClockMHz > 0 && p.ClockMHz > 0 && o.ClockMHz < p.ClockMHz*(1-lowerClock)
	if o.ClockMHz > 0 && p.ClockMHz > 0 {
		words = append(words, fmt.Sprintf("its clock is %.0f MHz, theirs %.0f", o.ClockMHz, p.ClockMHz))
	} else {
		words = append(words, "its clock is unknown")
	}
	hot, ofPower := o.share(kernels.HeatThrottle)-p.share(kernels.HeatThrottle),
		o.share(kernels.PowerThrottle)-p.share(kernels.PowerThrottle)
	limit := ""
	for _, d := range f.limits {
		if d.Name == kernels.PowerLimit {
			limit = fmt.Sprintf("%s is %s, theirs %s", d.Name, cmp.Or(d.B, "unknown"), cmp.Or(d.A, "unknown"))
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
		words = append(words, fmt.Sprintf("at the power limit in %s of its samples, its peers in %s",
			shareText(o.share(kernels.PowerThrottle)), shareText(p.share(kernels.PowerThrottle))))
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

func (f facts) bandwidth() string {
	if o, p := f.own.ReadBandwidth, f.others.ReadBandwidth; o > 0 && p > 0 && o < p*(1-lowerClock) {
		return fmt.Sprintf("; it reads %.2f TB/s, they %.2f", o/1e12, p/1e12)
	}
	return ""
}

// share is the share of samples with a throttle reason of one kind, at most 1.
func (c Conditions) share(kind kernels.ThrottleKind) float64 {
	sum := 0.0
	for reason, share := range c.Reasons {
		if reason.Kind() == kind {
			sum += share
		}
	}
	return math.Min(1, sum)
}

// divided splits differences into limits, which users may change on a card, and software.
func divided(all []results.FactorDiff, isLimit map[string]bool) (limits, software []results.FactorDiff) {
	for _, d := range all {
		if isLimit[d.Name] {
			limits = append(limits, d)
		} else {
			software = append(software, d)
		}
	}
	return limits, software
}

func diffText(all []results.FactorDiff) string {
	words := make([]string, 0, len(all))
	for _, d := range all {
		words = append(words, fmt.Sprintf("%s %s, theirs %s", d.Name, cmp.Or(d.B, "unknown"), cmp.Or(d.A, "unknown")))
	}
	return strings.Join(words, "; ")
}

// slowerText formats a ratio with its bounds: "2.1 % [1.6, 2.6] slower".
func slowerText(i stats.Interval) string {
	word := "slower"
	if i.Mid < 1 {
		word = "faster"
		i = stats.Interval{Lo: 2 - i.Hi, Mid: 2 - i.Mid, Hi: 2 - i.Lo}
	}
	return fmt.Sprintf("%.1f %% [%.1f, %.1f] %s", 100*(i.Mid-1), 100*(i.Lo-1), 100*(i.Hi-1), word)
}

func shareText(v float64) string {
	if math.Abs(v) < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
