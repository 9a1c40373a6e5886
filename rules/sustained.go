package rules

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Sustainer measures cases that run alone for a long time, at the clock that the device settles at. Package
// sweep implements it.
type Sustainer interface {
	// Sustain runs each case alone for span, half a second or more. It returns one sample of phase sustained
	// per case, in order: the time of a launch once the device has settled, its clock, power and energy. A
	// case that failed has no launches in its sample.
	Sustain(ctx context.Context, cases []results.Case, span time.Duration) ([]results.Sample, error)
}

// Sustained compares a slow case with its reference, each running alone at the clock that the device settles
// at: the worst row of a finding and its reference, or a direct product and its remedy.
type Sustained struct {
	// US and AgainstUS are the times of a launch in microseconds. For a ceiling only its time is known.
	US        float64 `json:"us"`
	AgainstUS float64 `json:"against_us"`
	// Loss is the share of the time that is lost, as in [Finding.Loss]; for a remedy the share that it saves.
	Loss float64 `json:"loss"`
	// ClockMHz and AgainstClockMHz are in MHz, 0 if the device doesn't report them.
	ClockMHz        float64 `json:"clock_mhz,omitempty"`
	AgainstClockMHz float64 `json:"against_clock_mhz,omitempty"`
	// EnergyMJ and AgainstEnergyMJ are per launch in millijoules, 0 if the device doesn't report them.
	EnergyMJ        float64 `json:"energy_mj,omitempty"`
	AgainstEnergyMJ float64 `json:"against_energy_mj,omitempty"`
	// SeenIn is the states whose loss is above the rule's own bound.
	SeenIn SeenIn `json:"seen_in"`
}

// SeenIn is the set of device states with a loss.
type SeenIn string

// The states: at the common clock, and in sustained running.
const (
	SeenInBoth    SeenIn = "both"
	SeenAtClock   SeenIn = "common-clock-only"
	SeenSustained SeenIn = "sustained-only"
	SeenInNeither SeenIn = "neither"
)

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
			if s.Usable() {
				us = append(us, s.US)
				known(&clock, s.ClockMHz)
				known(&energy, s.EnergyMJ)
			}
		}
		if len(us) > 0 {
			out[r.Case.Key()] = results.Sample{US: stats.Median(us), ClockMHz: stats.Median(clock), EnergyMJ: stats.Median(energy)}
		}
	}
	return out
}

// pair compares two cases; nil if one of them did not run. scale × the second's time is the first's time
// without loss.
func (t sustainedTimes) pair(row, against results.Case, scale float64) *Sustained {
	a, ok := t[row.Real().Key()]
	b, both := t[against.Real().Key()]
	if !ok || !both {
		return nil
	}
	return &Sustained{US: a.US, AgainstUS: b.US, Loss: 1 - scale*b.US/a.US,
		ClockMHz: a.ClockMHz, AgainstClockMHz: b.ClockMHz, EnergyMJ: a.EnergyMJ, AgainstEnergyMJ: b.EnergyMJ}
}

// AddSustained sets the Sustained of each finding from the samples of the sustained phase, and otherwise
// clears it. Call it again after adding samples.
func (a *Audit) AddSustained(data infer.Data, cfg Config) {
	data = data.Along(cfg.Basis())
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

func (f *Finding) worst() results.Case { return results.Case{SeriesKey: f.Series, M: f.WorstM} }

func (t sustainedTimes) finding(f *Finding, s *results.Series) *Sustained {
	switch {
	case f.Cause == MeasurementError:
		return nil // no loss
	case f.Against == nil && f.Rule == Roofline:
		row, ok := t[f.worst().Real().Key()]
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
func (r *SplitsResult) AddSustained(data infer.Data, cfg Config) {
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

func marginLoss(margin float64) float64 { return stats.Lost(-math.Log1p(margin)) }

// ToSustain lists the cases worth running alone, the largest time at stake first: the worst row of each
// confirmed finding and its reference, and each direct product and its remedy that pays. Cases of one element
// belong together; elements are unique. Either argument may be nil.
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
			e := entry{[]results.Case{f.worst().Real()}, f.StakeUS}
			if f.Against != nil {
				e.cases = append(e.cases, f.Against.Real())
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
				all = append(all, entry{[]results.Case{direct.Real(), r.Case(direct).Real()}, r.StakeUS})
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
		var key [2]results.CaseKey // a row, with its reference if it has one
		for i, c := range e.cases {
			key[i] = c.Key()
		}
		if !seen[key] {
			seen[key], out = true, append(out, e.cases)
		}
	}
	return out
}
