package rules

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Sustainer measures cases as they run by themselves for long, at the clock that the device
// then settles at. Package sweep satisfies it.
type Sustainer interface {
	// Sustain runs each case by itself for span, half a second or more, and returns one
	// sample of phase sustained for each, in order: what a launch takes once the device
	// has settled, at which clock, power and energy. A case that failed has no launches
	// in its sample.
	Sustain(ctx context.Context, cases []results.Case, span time.Duration) ([]results.Sample, error)
}

// Sustained is what a slow case and what it is held against take when each runs by itself at
// the clock that the device then settles at: of a finding the worst row and its reference,
// of a remedy the direct product and the remedy.
type Sustained struct {
	// US and AgainstUS are the times of a launch in microseconds. A finding that is held
	// against a ceiling has the ceiling's time, and no more of it.
	US        float64 `json:"us"`
	AgainstUS float64 `json:"against_us"`
	// Loss is the share of the time that is lost, as [Finding.Loss] has it; of a remedy
	// the share that it saves.
	Loss float64 `json:"loss"`
	// The clocks are those of the two in MHz, 0 where the device doesn't tell.
	ClockMHz        float64 `json:"clock_mhz,omitempty"`
	AgainstClockMHz float64 `json:"against_clock_mhz,omitempty"`
	// The energies are those of a launch in millijoules, 0 where the device doesn't tell.
	EnergyMJ        float64 `json:"energy_mj,omitempty"`
	AgainstEnergyMJ float64 `json:"against_energy_mj,omitempty"`
	// SeenIn says where the loss is above the rule's own bound.
	SeenIn SeenIn `json:"seen_in"`
}

// SeenIn says in which of two states of the device something is lost.
type SeenIn string

// The states: at the common clock, and in sustained running.
const (
	SeenInBoth    SeenIn = "both"
	SeenAtClock   SeenIn = "common-clock-only"
	SeenSustained SeenIn = "sustained-only"
	SeenInNeither SeenIn = "neither"
)

// seenIn puts two answers into a word.
func seenIn(atClock, sustained bool) SeenIn {
	switch {
	case atClock && sustained:
		return SeenInBoth
	case atClock:
		return SeenAtClock
	case sustained:
		return SeenSustained
	}
	return SeenInNeither
}

// sustainedTimes are what cases take by themselves, by [results.Case.Key]: medians over all times that each
// of them ran.
type sustainedTimes map[results.CaseKey]results.Sample

func newSustainedTimes(rows []results.Row) sustainedTimes {
	out := sustainedTimes{}
	for _, r := range rows {
		var us, clock, energy []float64
		known := func(list *[]float64, v float64) {
			if v > 0 {
				*list = append(*list, v)
			}
		}
		for _, s := range r.Samples {
			if usable(&s) {
				us = append(us, s.US)
				known(&clock, s.ClockMHz)
				known(&energy, s.EnergyMJ)
			}
		}
		if len(us) > 0 {
			out[r.Case.Key()] = results.Sample{US: median(us), ClockMHz: median(clock), EnergyMJ: median(energy)}
		}
	}
	return out
}

// pair puts two cases side by side; nil where one of them did not run. scale is what the
// second's time is multiplied by to be the time in which the first would lose nothing.
func (t sustainedTimes) pair(row, against results.Case, scale float64) *Sustained {
	a, ok := t[row.Key()]
	b, both := t[against.Key()]
	if !ok || !both {
		return nil
	}
	return &Sustained{US: a.US, AgainstUS: b.US, Loss: 1 - scale*b.US/a.US,
		ClockMHz: a.ClockMHz, AgainstClockMHz: b.ClockMHz, EnergyMJ: a.EnergyMJ, AgainstEnergyMJ: b.EnergyMJ}
}

// AddSustained fills in, from the samples of cases that ran by themselves, what each finding takes
// then, and clears it where there are none. It can be called again when there are more.
func (a *Audit) AddSustained(data Data, cfg Config) {
	times := newSustainedTimes(data.Sustained)
	series := make(map[results.SeriesKey]*results.Series, len(data.Series))
	for i := range data.Series {
		series[data.Series[i].Key] = &data.Series[i]
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		f.Sustained = nil
		rule := entryOf(f.Rule)
		if rule.bound == nil {
			continue // kept by a version with other rules
		}
		if f.Sustained = times.finding(f, series[f.Series]); f.Sustained != nil {
			bound := rule.bound(cfg, *f)
			f.Sustained.SeenIn = seenIn(f.Status == Confirmed || f.Loss.Mid > bound, f.Sustained.Loss > bound)
		}
	}
}

// worst is the case of the worst row.
func (f *Finding) worst() results.Case { return results.Case{SeriesKey: f.Series, M: f.WorstM} }

// finding is what a finding takes when its case runs by itself; s is its series, nil where the run has none of it.
func (t sustainedTimes) finding(f *Finding, s *results.Series) *Sustained {
	switch {
	case f.Cause == MeasurementError:
		return nil // nothing is lost
	case f.Against == nil && f.Rule == Roofline:
		row, ok := t[f.worst().Key()]
		if s == nil || !ok || s.Peak.FLOPS <= 0 || s.Bandwidth.Rate <= 0 {
			return nil
		}
		least := math.Exp(attainable(*s, f.WorstM))
		return &Sustained{US: row.US, AgainstUS: least, Loss: 1 - least/row.US, ClockMHz: row.ClockMHz, EnergyMJ: row.EnergyMJ}
	case f.Against == nil:
		return nil
	}
	scale := 1.0
	if f.Rule == Monotonic {
		scale = f.worst().FLOPs() / f.Against.FLOPs()
	}
	return t.pair(f.worst(), *f.Against, scale)
}

// AddSustained is [Audit.AddSustained] for remedies.
func (r *SplitsResult) AddSustained(data Data, cfg Config) {
	times := newSustainedTimes(data.Sustained)
	bound := marginLoss(cfg.Remedy.Margin)
	add := func(key results.SeriesKey, r *Remedy) {
		direct := results.Case{SeriesKey: key, M: r.M}
		if r.Sustained = times.pair(direct, r.Case(direct), 1); r.Sustained != nil {
			pays := r.Pays || !r.Executed && 1-r.PredictedUS/r.DirectUS > bound
			r.Sustained.SeenIn = seenIn(pays, r.Sustained.Loss > bound)
		}
	}
	for _, rows := range [][]SplitRow{r.Splits, r.Rejected} {
		for i := range rows {
			add(rows[i].Series, &rows[i].Remedy)
		}
	}
	for _, s := range r.Stretches {
		for i := range s.Proofs {
			add(s.Series, &s.Proofs[i])
		}
	}
}

// marginLoss is the share of its time that a row loses to what is faster by margin.
func marginLoss(margin float64) float64 { return lost(-math.Log1p(margin)) }

// ToSustain lists what is worth running by themselves, the largest time at stake first: of each
// confirmed finding the worst row and what it is held against, of each remedy that pays the
// direct product and the remedy. Cases of one element belong together, and no element comes
// twice. Either argument may be nil.
func ToSustain(a *Audit, r *SplitsResult) [][]results.Case {
	type entry struct {
		cases []results.Case
		stake float64
	}
	var all []entry
	if a != nil {
		for _, f := range a.Findings {
			if f.Status != Confirmed || f.Cause == MeasurementError {
				continue
			}
			e := entry{[]results.Case{f.worst()}, f.StakeUS}
			if f.Against != nil {
				e.cases = append(e.cases, *f.Against)
			} else if f.Rule != Roofline {
				continue
			}
			all = append(all, e)
		}
	}
	if r != nil {
		add := func(key results.SeriesKey, r Remedy) {
			if r.Pays {
				direct := results.Case{SeriesKey: key, M: r.M}
				all = append(all, entry{[]results.Case{direct, r.Case(direct)}, r.StakeUS})
			}
		}
		for _, row := range r.Splits {
			add(row.Series, row.Remedy)
		}
		for _, s := range r.Stretches {
			for _, proof := range s.Proofs {
				add(s.Series, proof)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.stake, a.stake) })
	var out [][]results.Case
	seen := map[[2]results.CaseKey]bool{}
	for _, e := range all {
		var key [2]results.CaseKey // a row alone, or with what it is held against
		for i, c := range e.cases {
			key[i] = c.Key()
		}
		if !seen[key] {
			seen[key], out = true, append(out, e.cases)
		}
	}
	return out
}
