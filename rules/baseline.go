package rules

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

// BaselineState is the state of a finding relative to a baseline, which is an earlier run.
type BaselineState string

// The states. Gates treat a Grown finding as new: its loss surely increased, or most of its rows were not in
// the baseline's finding.
const (
	BaselineNew   BaselineState = "new"
	BaselineKnown BaselineState = "known"
	BaselineGrown BaselineState = "grown"
)

// leastGrowth is how many rows a finding must gain to count as grown. The ends of a finding move by one row
// between measurements.
const leastGrowth = 2

// Hold sets the Baseline of every finding from an audit of an earlier run. A finding is known if the baseline
// has an overlapping one of the same rule, cause and series identity. It has grown if the lower bound of its
// loss is above the baseline's upper bound, or if most of its rows, and at least two, lie outside the
// baseline's findings. meta and of belong to the runs of a and base.
// It returns the number of series that the baseline has too.
func (a *Audit) Hold(meta results.Meta, base *Audit, of results.Meta) (common int) {
	a.Baseline = base.Run
	type place struct {
		identity string
		rule     Rule
	}
	known := map[place][]*Finding{}
	shared := map[string]bool{}
	for i := range base.Findings {
		f := &base.Findings[i]
		if f.Status == Suspected {
			continue // an unconfirmed finding excuses nothing
		}
		at := place{SeriesIdentity(of, f.Series), f.Rule}
		known[at] = append(known[at], f)
	}
	for _, s := range base.Series {
		shared[SeriesIdentity(of, s.Key)] = true
	}
	for _, s := range a.Series {
		if shared[SeriesIdentity(meta, s.Key)] {
			common++
		} else {
			a.warn(s.Key.String(), "not in the baseline %s: all findings are new", base.Run)
		}
	}
	series := make(map[results.SeriesKey]*SeriesAudit, len(a.Series))
	for i := range a.Series {
		series[a.Series[i].Key] = &a.Series[i]
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		var before []*Finding
		for _, b := range known[place{SeriesIdentity(meta, f.Series), f.Rule}] {
			if overlap(f, b) && sameCause(f.Cause, b.Cause) {
				before = append(before, b)
			}
		}
		switch {
		case len(before) == 0:
			f.Baseline = BaselineNew
		case losesMore(f, before), reachesFarther(f, before, series[f.Series]):
			f.Baseline = BaselineGrown
		default:
			f.Baseline = BaselineKnown
		}
	}
	return common
}

// overlap reports whether two findings share an M. Nearby findings don't overlap: one octave can have two
// dips.
func overlap(a, b *Finding) bool { return a.FromM <= b.ToM && b.FromM <= a.ToM }

// sameCause reports whether two causes can be the same. An unknown cause matches any.
func sameCause(a, b cause.Kind) bool {
	return a == b || a == cause.Unknown || b == cause.Unknown || a == "" || b == ""
}

// losesMore reports whether a finding surely loses more than each earlier one. It is false for a loss without
// an interval, as the article's method gives.
func losesMore(f *Finding, before []*Finding) bool {
	if f.Loss.Lo == f.Loss.Hi {
		return false
	}
	for _, b := range before {
		if f.Loss.Lo <= b.Loss.Hi {
			return false
		}
	}
	return true
}

func reachesFarther(f *Finding, before []*Finding, s *SeriesAudit) bool {
	if s == nil {
		return false
	}
	rows, outside := 0, 0
	for _, r := range s.rowsBetween(f.FromM, f.ToM) {
		rows++
		if !slices.ContainsFunc(before, func(b *Finding) bool { return b.FromM <= r.M && r.M <= b.ToM }) {
			outside++
		}
	}
	return outside >= leastGrowth && 2*outside > rows
}

// BaselineText summarizes in one line how the findings compare with the baseline; empty without a baseline.
func (a *Audit) BaselineText() string {
	if a.Baseline == "" {
		return ""
	}
	n := map[BaselineState]int{}
	for _, f := range a.Findings {
		n[f.Baseline]++
	}
	return fmt.Sprintf("compared with the baseline %s: %d new, %d grown, %d known", a.Baseline, n[BaselineNew], n[BaselineGrown],
		n[BaselineKnown])
}
