package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules"
)

// BaselineSchema is the value of Baseline.Schema.
const BaselineSchema = "gemmaudit.fleet-baseline/1"

// Baseline is what a fleet was found to take: what one node, or the same fleet later, is compared with.
type Baseline struct {
	Schema  string          `json:"schema"`
	Created time.Time       `json:"created"` // when the last sample was taken
	Groups  []BaselineGroup `json:"groups"`
}

// BaselineGroup is cards of one model with the same software and limits.
type BaselineGroup struct {
	Model string `json:"model"`
	// Factors are the software and the limits; see [Group].
	Factors   []results.Factor `json:"factors"`
	Cards     int              `json:"cards"`
	Processes int              `json:"processes"`
	// ClockMHz is the common clock, 0 where clocks are not known.
	ClockMHz    float64       `json:"clock_mhz,omitempty"`
	SustainedOf results.Phase `json:"sustained_of"`
	// Common and Sustained are standard deviations of the level of all cases.
	Common    Components `json:"common"`
	Sustained Components `json:"sustained"`
	// Conditions are the medians over cards.
	Conditions Conditions     `json:"conditions"`
	Cases      []BaselineCase `json:"cases"`
	Members    []BaselineCard `json:"members"`
}

// BaselineCase is one case.
type BaselineCase struct {
	// Series is the case's series, without a device.
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	// US is the median over cards at the common clock in microseconds, Beta how it follows the clock; SustainedUS is the median of
	// sustained time, 0 where there is none.
	US          float64 `json:"us"`
	Beta        float64 `json:"beta"`
	SustainedUS float64 `json:"sustained_us,omitempty"`
	// Card and Process are standard deviations of log times, between cards and between processes on a card, nil where they are not known; they
	// hold what all cases of a card or a process have in common.
	Card             *float64 `json:"card"`
	Process          *float64 `json:"process"`
	SustainedCard    *float64 `json:"sustained_card"`
	SustainedProcess *float64 `json:"sustained_process"`
	// Memory says that memory binds there.
	Memory bool `json:"memory,omitempty"`
}

// BaselineCard is one card: its level over the group's.
type BaselineCard struct {
	Card   string `json:"card"`
	Host   string `json:"host"`
	Device string `json:"device"`
	// Common and Sustained are ratios of times, above 1 is slower; 0 where there is none.
	Common    float64 `json:"common"`
	Sustained float64 `json:"sustained"`
	Processes int     `json:"processes"`
}

// Thin are the models of which no card has several runs: the baseline does not tell by how much those differ, so that no card is
// drained by it.
func (b *Baseline) Thin() (models []string) {
	for i := range b.Groups {
		if g := &b.Groups[i]; g.Common.Process == nil && !slices.Contains(models, g.Model) {
			models = append(models, g.Model)
		}
	}
	return models
}

// mostBaselineBytes bounds the file of a baseline: 2000 cases and 10 000 cards are 3 MB.
const mostBaselineBytes = 64 << 20

// ReadBaseline reads what [Baseline.Write] wrote, and refuses what is out of bounds.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostBaselineBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostBaselineBytes {
		return nil, fmt.Errorf("the baseline has more than %d bytes", mostBaselineBytes)
	}
	if err := results.CheckJSON(string(text)); err != nil {
		return nil, fmt.Errorf("no baseline of a fleet: %w", err)
	}
	var b Baseline
	decoder := json.NewDecoder(bytes.NewReader(text))
	err = decoder.Decode(&b)
	switch {
	case err != nil && (b.Schema == "" || b.Schema == BaselineSchema):
		return nil, fmt.Errorf("no baseline of a fleet: %w", err)
	case b.Schema != BaselineSchema: // another of our files, in which fields have other meanings
		return nil, fmt.Errorf("no baseline of a fleet: schema is %.40q, expected %q", b.Schema, BaselineSchema)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("no baseline of a fleet: there is more behind it")
	}
	for i := range b.Groups {
		if err := b.Groups[i].check(); err != nil {
			return nil, fmt.Errorf("baseline of %.80q: %w", b.Groups[i].Model, err)
		}
		b.Groups[i].unknown()
	}
	return &b, nil
}

// The figures that a baseline is believed to tell: microseconds, deviations, ratios.
const leastUS, mostUS, mostDeviation, mostRatio = 1e-6, 1e15, 10, 1e6

// leastKnown is the least standard deviation that was ever estimated of log times: microseconds are no finer.
const leastKnown = 1e-7

// unknown takes a deviation of nothing for what it is: one that nobody could estimate.
func (g *BaselineGroup) unknown() {
	known := func(v **float64) {
		if *v != nil && **v < leastKnown {
			*v = nil
		}
	}
	known(&g.Common.Process)
	known(&g.Sustained.Process)
	for i := range g.Cases {
		known(&g.Cases[i].Process)
		known(&g.Cases[i].SustainedProcess)
	}
}

func (g *BaselineGroup) check() error {
	if !(g.ClockMHz >= 0 && g.ClockMHz <= 1e6) {
		return fmt.Errorf("clock_mhz is %v", g.ClockMHz)
	}
	if g.SustainedOf != results.PhaseSustained && g.SustainedOf != results.PhaseSweep {
		return fmt.Errorf("sustained_of is %.40q, expected %q or %q", g.SustainedOf, results.PhaseSweep, results.PhaseSustained)
	}
	if g.Cards < 0 || g.Processes < 0 {
		return fmt.Errorf("%d cards, %d processes", g.Cards, g.Processes)
	}
	deviation := func(name string, v float64) error {
		if !(v >= 0 && v <= mostDeviation) {
			return fmt.Errorf("%s is %v, expected 0 to %d", name, v, mostDeviation)
		}
		return nil
	}
	for _, c := range []Components{g.Common, g.Sustained} {
		for _, v := range []*float64{c.Host, c.Card, c.Process} {
			if v != nil {
				if err := deviation("a component", *v); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range g.Cases {
		if !(c.US >= leastUS && c.US <= mostUS) || !(c.SustainedUS == 0 || c.SustainedUS >= leastUS && c.SustainedUS <= mostUS) {
			return fmt.Errorf("%v m%d takes %v us, sustained %v", c.Series, c.M, c.US, c.SustainedUS)
		}
		if !(c.Beta >= 0 && c.Beta <= 1) {
			return fmt.Errorf("%v m%d: beta is %v, expected 0 to 1", c.Series, c.M, c.Beta)
		}
		for _, v := range []*float64{c.Card, c.Process, c.SustainedCard, c.SustainedProcess} {
			if v == nil {
				continue
			}
			if err := deviation(fmt.Sprintf("%v m%d: a deviation", c.Series, c.M), *v); err != nil {
				return err
			}
		}
	}
	for _, m := range g.Members {
		if !(m.Common >= 0 && m.Common <= mostRatio && m.Sustained >= 0 && m.Sustained <= mostRatio) || m.Processes < 0 {
			return fmt.Errorf("card %.80q: ratios %v and %v, %d processes", m.Card, m.Common, m.Sustained, m.Processes)
		}
	}
	return nil
}

// Write writes the baseline as JSON.
func (b *Baseline) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(b)
}

// Group is the group with which a card of so many factors is compared: of its model the one that differs in the
// fewest factors; nil where the baseline has none of the model.
func (b *Baseline) Group(model string, factors []results.Factor) *BaselineGroup {
	var best *BaselineGroup
	least := math.MaxInt
	for i := range b.Groups {
		if g := &b.Groups[i]; g.Model == model {
			if n := len(differing(g.Factors, factors)); n < least {
				best, least = g, n
			}
		}
	}
	return best
}

// differing lists the factors in which b differs from a.
func differing(a, b []results.Factor) []results.FactorDiff {
	var out []results.FactorDiff
	value := func(of []results.Factor, name string) string {
		for _, f := range of {
			if f.Name == name {
				return f.Value
			}
		}
		return ""
	}
	for _, f := range a {
		if v := value(b, f.Name); v != f.Value {
			out = append(out, results.FactorDiff{Name: f.Name, A: f.Value, B: v})
		}
	}
	for _, f := range b {
		if value(a, f.Name) == "" && f.Value != "" {
			out = append(out, results.FactorDiff{Name: f.Name, B: f.Value})
		}
	}
	return out
}

// Check is one card of one run held against a baseline.
type Check struct {
	Card   string `json:"card"`
	Host   string `json:"host"`
	Device string `json:"device"`
	Model  string `json:"model"`
	// Verdict is [Drain] for a card that is surely slower than [Settings.Drain], by a baseline of cards with several runs; [Watch] for one that is slower by
	// [Settings.Watch], [Unjudged] where the baseline has none of its cases.
	Verdict Verdict `json:"verdict"`
	Kind    Kind    `json:"kind,omitempty"`
	Reason  string  `json:"reason"`
	Cases   int     `json:"cases"`
	// Common and Sustained are the time over that of the baseline's cards, with bounds of 95 % confidence; Earlier is over that
	// of the same card there, nil where the baseline has it not.
	Common    rules.Interval  `json:"common"`
	Sustained rules.Interval  `json:"sustained"`
	Earlier   *rules.Interval `json:"earlier,omitempty"`
	// Confounds is what differs in software and limits from the baseline.
	Confounds  []results.FactorDiff `json:"confounds,omitempty"`
	Conditions Conditions           `json:"conditions"`
}

// checkLevel is the p-value from which on one card of one run is slow. It is asked of each node before each job, so that it is far
// below that of a fleet: of ten thousand nodes that are well one is named.
const checkLevel = 1e-4

// Judge holds each card of a run against the baseline, in the order of the run's devices.
func (b *Baseline) Judge(run runs.Run, s Settings) []Check {
	var out []Check
	for _, r := range reduce(run) {
		out = append(out, b.judge(r, s))
	}
	slices.SortStableFunc(out, func(x, y Check) int { return strings.Compare(x.Device, y.Device) })
	return out
}

func (b *Baseline) judge(r reduced, s Settings) Check {
	p := r.process
	c := Check{Card: p.card, Host: p.host, Device: p.device, Model: p.model, Verdict: Unjudged, Conditions: p.conditions}
	g := b.Group(p.model, p.factors)
	if g == nil {
		c.Reason = fmt.Sprintf("the baseline has no %s", p.model)
		return c
	}
	c.Confounds = differing(g.Factors, p.factors)
	x := g.compare(p, r.keys)
	c.Cases = len(x.common.all)
	if c.Cases == 0 {
		c.Reason = "the baseline has none of its cases"
		return c
	}
	common, commonP := g.stands(x.common.level(), g.Common, g.Cards, ofCommon)
	sustained, sustainedP := g.stands(x.sustained.level(), g.Sustained, g.Cards, ofSustained)
	c.Common, c.Sustained = common, sustained
	for _, m := range g.Members {
		if m.Card == p.card && m.Common > 0 {
			own, ownP := g.alone(x.common.level()-math.Log(m.Common), g.Common, m.Processes)
			c.Earlier, commonP = &own, math.Min(commonP, ownP)
		}
	}
	f := facts{common: common, sustained: sustained, memory: x.memory.level(), rest: x.rest.level(), peers: g.Cards, own: p.conditions, others: g.Conditions,
		limits: limitsOf(c.Confounds, p.limits), against: "the " + cardsText(g.Cards) + " of the baseline"}
	loss := common
	if sustainedP < commonP && sustained.Mid > common.Mid {
		loss = sustained
	}
	if c.Earlier != nil && c.Earlier.Lo > loss.Lo && c.Earlier.Mid > 1 {
		loss = *c.Earlier
	}
	c.Verdict = Fine
	if math.Min(commonP, sustainedP) <= checkLevel/2 && loss.Mid-1 >= s.Watch {
		c.Verdict = Watch
		if loss.Lo-1 >= s.Drain && len(softwareOf(c.Confounds, p.limits)) == 0 && g.Common.Process != nil {
			c.Verdict = Drain
		}
	}
	if c.Verdict == Fine {
		c.Reason = fmt.Sprintf("like %s", f.against)
		return c
	}
	c.Kind, c.Reason = f.tell(loss)
	if g.Common.Process == nil {
		c.Reason += "; not drained: the baseline has no card with several runs, so that it does not tell by how much runs of one card differ"
	}
	if d := softwareOf(c.Confounds, p.limits); len(d) > 0 {
		c.Reason += "; confounded: " + diffText(d)
	}
	return c
}

func cardsText(n int) string {
	if n == 1 {
		return "one card"
	}
	return fmt.Sprintf("%d cards", n)
}

// compared is what a process takes over a baseline.
type compared struct{ common, sustained, memory, rest ratios }

// ratios are logs of ratios over cases.
type ratios struct{ all []float64 }

// level is the middle of them; NaN for none.
func (r ratios) level() float64 { return middleHalf(slices.Clone(r.all)) }

// compare brings the cases of a process to the baseline's clock and holds them against its cases.
func (g *BaselineGroup) compare(p *process, keys []caseKey) compared {
	var out compared
	of := map[caseKey]*BaselineCase{}
	for i := range g.Cases {
		c := &g.Cases[i]
		of[caseKey{c.Series, c.M}] = c
	}
	for i := range p.cases {
		o := &p.cases[i]
		c := of[keys[i]]
		if c == nil {
			continue
		}
		y := float64(o.atClock)
		if o.clock > 0 && g.ClockMHz > 0 {
			y += c.Beta * (float64(o.clock) - math.Log(g.ClockMHz))
		}
		y -= math.Log(c.US)
		out.common.all = append(out.common.all, y)
		if c.Memory {
			out.memory.all = append(out.memory.all, y)
		} else {
			out.rest.all = append(out.rest.all, y)
		}
		seen := float64(o.seen)
		if g.SustainedOf == results.PhaseSustained {
			seen = float64(o.alone)
		}
		if seen == seen && c.SustainedUS > 0 {
			out.sustained.all = append(out.sustained.all, seen-math.Log(c.SustainedUS))
		}
	}
	return out
}

// deviation is the standard deviation of one process of one card among others, with degrees of freedom; what a baseline of few
// cards does not tell is what is usual.
func (c Components) deviation(before belief) (sd, freedom float64) {
	variance := 0.0
	if c.Host != nil {
		variance += *c.Host * *c.Host
	}
	squares, n := 0.0, 0.0
	if c.Card != nil && c.Cards > 1 {
		n = float64(c.Cards - 1)
		squares = *c.Card * *c.Card * n
	}
	card, freedom := before.steadied(squares, n)
	return math.Sqrt(variance + card + c.process()), freedom
}

// process is the variance between processes, what is usual where it is not known.
func (c Components) process() float64 {
	usual := float64(usualProcesses * usualProcesses)
	if c.Process == nil {
		return usual
	}
	return math.Max(*c.Process**c.Process, leastDeviation*leastDeviation)
}

// stands is how one level of a process stands among a baseline's cards.
func (g *BaselineGroup) stands(y float64, c Components, cards int, before belief) (rules.Interval, float64) {
	if y != y {
		return rules.Interval{}, 1
	}
	sd, freedom := c.deviation(before)
	p := upperP(y/(sd*math.Sqrt(1+1/math.Max(1, float64(cards)))), freedom)
	half := quantile(0.025, freedom) * math.Sqrt(c.process()+sd*sd/math.Max(1, float64(cards)))
	return rules.Interval{Lo: expo(y - half), Mid: expo(y), Hi: expo(y + half)}, p
}

// alone is how a level of a process stands beside those of the same card before.
func (g *BaselineGroup) alone(y float64, c Components, before int) (rules.Interval, float64) {
	freedom := float64(priorCards)
	if c.Process != nil {
		freedom += math.Max(0, float64(c.Processes-c.Cards))
	}
	se := math.Sqrt(c.process() * (1 + 1/math.Max(1, float64(before))))
	half := quantile(0.025, freedom) * se
	return rules.Interval{Lo: expo(y - half), Mid: expo(y), Hi: expo(y + half)}, upperP(y/se, freedom)
}
