package fleet

import (
	"bytes"
	"cmp"
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
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// BaselineSchema is the value of Baseline.Schema.
const BaselineSchema = "gemmaudit.fleet-baseline/1"

// Baseline holds a fleet's times, with which a node or the later fleet is compared.
type Baseline struct {
	Schema  string          `json:"schema"`
	Created time.Time       `json:"created"` // time of the last sample
	Groups  []BaselineGroup `json:"groups"`
}

// BaselineGroup is cards of one model with the same software and limits.
type BaselineGroup struct {
	Model string `json:"model"`
	// Factors are the software and the limits; see [Group].
	Factors   []results.Factor `json:"factors"`
	Cards     int              `json:"cards"`
	Processes int              `json:"processes"`
	// ClockMHz is the common clock, 0 if clocks are unknown.
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
	// US is the median over cards in microseconds at the common clock, and Beta its clock elasticity.
	// SustainedUS is for sustained time, 0 if unknown.
	US          float64 `json:"us"`
	Beta        float64 `json:"beta"`
	SustainedUS float64 `json:"sustained_us,omitempty"`
	// Card and Process are standard deviations of log times between cards and between processes on a card,
	// including common variation; nil if unknown.
	Card             *float64 `json:"card"`
	Process          *float64 `json:"process"`
	SustainedCard    *float64 `json:"sustained_card"`
	SustainedProcess *float64 `json:"sustained_process"`
	// Memory is true if the case is memory-bound.
	Memory bool `json:"memory,omitempty"`
}

// BaselineCard is one card: its level over the group's.
type BaselineCard struct {
	Card   string `json:"card"`
	Host   string `json:"host"`
	Device string `json:"device"`
	// Common and Sustained are ratios of times, above 1 is slower; 0 if there is none.
	Common    float64 `json:"common"`
	Sustained float64 `json:"sustained"`
	Processes int     `json:"processes"`
}

// Thin lists the models without a card with several runs. Their variation between runs is unknown, and no
// card is drained.
func (b *Baseline) Thin() (models []string) {
	for i := range b.Groups {
		if g := &b.Groups[i]; g.Common.Process == nil && !slices.Contains(models, g.Model) {
			models = append(models, g.Model)
		}
	}
	return models
}

// 2000 cases and 10 000 cards are 3 MB.
const mostBaselineBytes = 64 << 20

// ReadBaseline reads the output of [Baseline.Write], and rejects values out of bounds.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostBaselineBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostBaselineBytes {
		return nil, fmt.Errorf("the baseline has more than %d bytes", mostBaselineBytes)
	}
	if err := results.CheckJSON(string(text)); err != nil {
		return nil, fmt.Errorf("not a fleet baseline: %w", err)
	}
	var b Baseline
	decoder := json.NewDecoder(bytes.NewReader(text))
	err = decoder.Decode(&b)
	switch {
	case err != nil && (b.Schema == "" || b.Schema == BaselineSchema):
		return nil, fmt.Errorf("not a fleet baseline: %w", err)
	case b.Schema != BaselineSchema: // another of our files, whose fields have other meanings
		return nil, fmt.Errorf("not a fleet baseline: schema is %.40q, expected %q", b.Schema, BaselineSchema)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("not a fleet baseline: trailing data")
	}
	for i := range b.Groups {
		if err := b.Groups[i].check(); err != nil {
			return nil, fmt.Errorf("baseline of %.80q: %w", b.Groups[i].Model, err)
		}
		b.Groups[i].unknown()
	}
	return &b, nil
}

// Bounds of the figures of a baseline: deviations, ratios.
const mostDeviation, mostRatio = 10, 1e6

// leastKnown is the smallest plausible standard deviation of log times, given the resolution of microseconds.
const leastKnown = 1e-7

// unknown clears process deviations near zero, which were not estimated.
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
	deviations := func(name string, all ...*float64) error {
		for _, v := range all {
			if v != nil && !(*v >= 0 && *v <= mostDeviation) {
				return fmt.Errorf("%s is %v, expected 0 to %d", name, *v, mostDeviation)
			}
		}
		return nil
	}
	for _, c := range []Components{g.Common, g.Sustained} {
		if err := deviations("a component", c.Host, c.Card, c.Process); err != nil {
			return err
		}
	}
	for _, c := range g.Cases {
		usable := func(us float64) bool { return us >= results.LeastUS && us <= results.MostUS }
		if !usable(c.US) || c.SustainedUS != 0 && !usable(c.SustainedUS) {
			return fmt.Errorf("%v m%d takes %v us, sustained %v", c.Series, c.M, c.US, c.SustainedUS)
		}
		if !(c.Beta >= 0 && c.Beta <= 1) {
			return fmt.Errorf("%v m%d: beta is %v, expected 0 to 1", c.Series, c.M, c.Beta)
		}
		name := fmt.Sprintf("%v m%d: a deviation", c.Series, c.M)
		if err := deviations(name, c.Card, c.Process, c.SustainedCard, c.SustainedProcess); err != nil {
			return err
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

// Group returns the group of a model that differs from factors in the fewest entries, or nil if the baseline
// lacks the model.
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

func differing(a, b []results.Factor) []results.FactorDiff {
	var out []results.FactorDiff
	ofA, ofB := map[string]string{}, map[string]string{}
	for _, f := range b {
		ofB[f.Name] = cmp.Or(ofB[f.Name], f.Value)
	}
	for _, f := range a {
		ofA[f.Name] = cmp.Or(ofA[f.Name], f.Value)
		if v := ofB[f.Name]; v != f.Value {
			out = append(out, results.FactorDiff{Name: f.Name, A: f.Value, B: v})
		}
	}
	for _, f := range b {
		if ofA[f.Name] == "" && f.Value != "" {
			out = append(out, results.FactorDiff{Name: f.Name, B: f.Value})
		}
	}
	return out
}

// Check compares one card of one run with a baseline.
type Check struct {
	Card   string `json:"card"`
	Host   string `json:"host"`
	Device string `json:"device"`
	Model  string `json:"model"`
	// Verdict is [Drain] for a card surely slower than [Settings.Drain], and [Watch] for one slower by
	// [Settings.Watch]. [Unjudged] means that the baseline lacks its cases, [Undecided] that noise is too
	// high, or that a card to drain is compared with cards of one run each.
	Verdict Verdict `json:"verdict"`
	Kind    Kind    `json:"kind,omitempty"`
	Reason  string  `json:"reason"`
	Cases   int     `json:"cases"`
	// Common and Sustained are the time relative to the baseline's cards, with bounds of 95 % confidence.
	// Earlier is relative to the same card, nil if absent.
	Common    stats.Interval  `json:"common"`
	Sustained stats.Interval  `json:"sustained"`
	Earlier   *stats.Interval `json:"earlier,omitempty"`
	// Confounds lists differences in software and limits from the baseline.
	Confounds  []results.FactorDiff `json:"confounds,omitempty"`
	Conditions Conditions           `json:"conditions"`
}

// checkLevel is the p-value below which a card is slow. A check runs on each node before each job, so it is
// far below a fleet's: one false positive per ten thousand nodes.
const checkLevel = 1e-4

// A baseline must be able to detect a loss of mostBlind for a card to be fine.
const mostBlind = 0.12

// Judge compares each card of a run with the baseline, in the order of the run's devices.
func (b *Baseline) Judge(run runs.Run, s Settings) []Check {
	var out []Check
	for _, r := range reduce(run) {
		out = append(out, b.judge(run, r, s))
	}
	slices.SortStableFunc(out, func(x, y Check) int { return strings.Compare(x.Device, y.Device) })
	return out
}

func (b *Baseline) judge(run runs.Run, r reduced, s Settings) Check {
	p := r.process
	c := Check{Card: p.card, Host: p.host, Device: p.device, Model: p.model, Verdict: Unjudged, Conditions: p.conditions}
	g := b.Group(p.model, p.factors)
	if g == nil {
		c.Reason = fmt.Sprintf("the baseline has no %s", p.model)
		return c
	}
	c.Confounds = differing(g.Factors, p.factors)
	x := g.compare(p, r.keys)
	c.Cases = len(x.common)
	if c.Cases == 0 {
		c.Reason = "the baseline has none of its cases"
		return c
	}
	limits, software := divided(c.Confounds, p.limits)
	confounded := len(software) > 0
	v := g.verdict(p.card, x.common.level(), x.sustained.level(), confounded, s)
	c.Verdict, c.Common, c.Sustained, c.Earlier = v.verdict, v.common, v.sustained, v.earlier
	common, seen := r.speeds(run, x.over)
	if g.SustainedOf == results.PhaseSustained {
		seen = speeds{}
	}
	faster := g.verdict(p.card, x.common.level()-common.faster, x.sustained.level()-seen.faster, confounded, s)
	slower := g.verdict(p.card, x.common.level()+common.slower, x.sustained.level()+seen.slower, confounded, s)
	against := "the " + cardsText(g.Cards) + " of the baseline"
	switch {
	case v.verdict == Drain && faster.verdict != Drain, v.verdict == Watch && faster.verdict == Fine,
		v.verdict == Fine && slower.verdict == Drain:
		c.Verdict = Undecided
		c.Reason = fmt.Sprintf("changed its speed by %s during the check: at its fastest it is %s than %s, at its slowest %s",
			shareText(common.both(seen).apart()), slowerText(faster.loss), against, slowerText(slower.loss))
		return c
	case v.verdict == Fine && g.blind() > mostBlind:
		c.Verdict = Undecided
		c.Reason = fmt.Sprintf("is not distinguishable from %s, whose runs vary so much that only a card %s slower would stand out: "+
			"measure the fleet again without other load",
			against, shareText(g.blind()))
		return c
	case v.verdict == Fine:
		c.Reason = "like " + against
		return c
	}
	f := facts{common: c.Common, sustained: c.Sustained, memory: x.memory.level(), rest: x.rest.level(), peers: g.Cards, own: p.conditions,
		others: g.Conditions,
		limits: limits, against: against}
	c.Kind, c.Reason = f.tell(v.loss)
	unproven := v.verdict == Watch && v.surely(s)
	if unproven {
		c.Verdict = Undecided
	}
	switch {
	case confounded:
		c.Reason += "; confounded: " + diffText(software)
		if unproven {
			c.Reason += "; write a baseline of this software to decide"
		}
	case unproven:
		c.Reason += "; not drained: the baseline has no card with several runs, so run-to-run variation is unknown"
	}
	return c
}

type placed struct {
	verdict           Verdict
	common, sustained stats.Interval
	earlier           *stats.Interval
	loss              stats.Interval // the one that the verdict uses
}

// surely reports whether the loss is large enough to drain the card.
func (v placed) surely(s Settings) bool { return v.loss.Lo-1 >= s.Drain }

func (g *BaselineGroup) verdict(card string, common, sustained float64, confounded bool, s Settings) (v placed) {
	var commonP, sustainedP float64
	v.common, commonP = g.stands(common, g.Common, g.Cards, ofCommon)
	v.sustained, sustainedP = g.stands(sustained, g.Sustained, g.Cards, ofSustained)
	for _, m := range g.Members {
		if m.Card == card && m.Common > 0 {
			y := common - math.Log(m.Common)
			se, freedom := g.Common.between(1, m.Processes)
			own := ratio(y, se, freedom)
			v.earlier, commonP = &own, math.Min(commonP, stats.UpperP(y/se, freedom))
		}
	}
	v.loss = v.common
	if sustainedP < commonP && v.sustained.Mid > v.common.Mid {
		v.loss = v.sustained
	}
	if v.earlier != nil && v.earlier.Lo > v.loss.Lo && v.earlier.Mid > 1 {
		v.loss = *v.earlier
	}
	switch {
	case math.Min(commonP, sustainedP) > checkLevel/2 || v.loss.Mid-1 < s.Watch:
		v.verdict = Fine
	case v.surely(s) && !confounded && g.Common.Process != nil:
		v.verdict = Drain
	default:
		v.verdict = Watch
	}
	return v
}

// blind is the smallest loss, as a share, that stands out among the baseline's cards.
func (g *BaselineGroup) blind() float64 {
	sd, freedom := g.Common.deviation(ofCommon)
	return math.Expm1(stats.UpperT(checkLevel/2, freedom) * sd * math.Sqrt(1+1/math.Max(1, float64(g.Cards))))
}

func cardsText(n int) string {
	if n == 1 {
		return "one card"
	}
	return fmt.Sprintf("%d cards", n)
}

type compared struct {
	common, sustained, memory, rest levels
	// over holds log ratios by the process's cases, NaN for cases that the baseline lacks.
	over []float64
}

type levels []float64

func (l levels) level() float64 { return steadyMiddle(slices.Clone(l)) }

// compare converts a process's cases to the baseline's clock.
func (g *BaselineGroup) compare(p *process, keys []caseKey) compared {
	var out compared
	of := map[caseKey]*BaselineCase{}
	for i := range g.Cases {
		c := &g.Cases[i]
		of[caseKey{c.Series, c.M}] = c
	}
	out.over = nans(len(p.cases))
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
		out.over[i] = y
		out.common = append(out.common, y)
		if c.Memory {
			out.memory = append(out.memory, y)
		} else {
			out.rest = append(out.rest, y)
		}
		seen := float64(o.seen)
		if g.SustainedOf == results.PhaseSustained {
			seen = float64(o.alone)
		}
		if seen == seen && c.SustainedUS > 0 {
			out.sustained = append(out.sustained, seen-math.Log(c.SustainedUS))
		}
	}
	return out
}

// deviation is the standard deviation of one process of one card, with degrees of freedom. The usual value
// supplements a small baseline.
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

// process is the variance between processes, or the usual one if unknown.
func (c Components) process() float64 {
	usual := float64(usualProcesses * usualProcesses)
	if c.Process == nil {
		return usual
	}
	return math.Max(*c.Process**c.Process, leastDeviation*leastDeviation)
}

// stands compares the level of a process with a baseline's cards.
func (g *BaselineGroup) stands(y float64, c Components, cards int, before belief) (stats.Interval, float64) {
	if y != y {
		return stats.Interval{}, 1
	}
	sd, freedom := c.deviation(before)
	p := stats.UpperP(y/(sd*math.Sqrt(1+1/math.Max(1, float64(cards)))), freedom)
	return ratio(y, math.Sqrt(c.process()+sd*sd/math.Max(1, float64(cards))), freedom), p
}

// between is the standard error of the difference of two means of processes on one card.
func (c Components) between(now, before int) (se, freedom float64) {
	freedom = priorCards
	if c.Process != nil {
		freedom += math.Max(0, float64(c.Processes-c.Cards))
	}
	return math.Sqrt(c.process() * (1/float64(now) + 1/math.Max(1, float64(before)))), freedom
}
