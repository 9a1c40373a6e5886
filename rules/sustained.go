package rules

import (
	"context"
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
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

// Seen says in which of two states a loss shows.
func Seen(atClock, sustained bool) SeenIn {
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

// NewSustainedTimes collects the times of the sustained phase.
func NewSustainedTimes(rows []results.Row) sustainedTimes {
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

// Pair compares two cases; nil if one of them did not run. scale × the second's time is the first's time
// without loss.
func (t sustainedTimes) Pair(row, against results.Case, scale float64) *Sustained {
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
	times := NewSustainedTimes(data.Sustained)
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
			f.Sustained.SeenIn = Seen(f.Status == Confirmed || f.Loss.Mid > bound, f.Sustained.Loss > bound)
		}
	}
}

// Worst is the case of the row with the largest loss.
func (f *Finding) Worst() results.Case { return results.Case{SeriesKey: f.Series, M: f.WorstM} }

func (t sustainedTimes) finding(f *Finding, s *results.Series) *Sustained {
	switch {
	case f.Cause == cause.MeasurementError:
		return nil // no loss
	case f.Against == nil && f.Rule == Roofline:
		row, ok := t[f.Worst().Real().Key()]
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
		scale = f.Worst().FLOPs() / f.Against.FLOPs()
	}
	return t.Pair(f.Worst(), *f.Against, scale)
}

// MarginLoss is the loss that a margin of time allows, as a share of the time.
func MarginLoss(margin float64) float64 { return stats.Lost(-math.Log1p(margin)) }
