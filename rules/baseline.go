package rules

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// BaselineState is what a baseline, an earlier run, says of a finding.
type BaselineState string

// The states. A finding that has Grown is another one as far as gates go: it loses surely more than it did, or most
// of its rows were none of it.
const (
	BaselineNew   BaselineState = "new"
	BaselineKnown BaselineState = "known"
	BaselineGrown BaselineState = "grown"
)

// leastGrowth is how many rows a finding has to gain to have grown: ends move by a row when they are
// measured again.
const leastGrowth = 2

// Hold sets the Baseline of every finding by an audit of an earlier run. A finding is known when the baseline
// has one of the same rule and cause, of a series of the same identity, that overlaps it, unless it has
// grown: the lower bound of its loss is above the upper bound that the baseline has, or more than half of its rows,
// and two at least, lie in no such finding of the baseline. meta and of are those of the runs of a and base.
func (a *Audit) Hold(meta results.Meta, base *Audit, of results.Meta) {
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
			continue // it excuses nothing: single samples prove nothing
		}
		at := place{SeriesIdentity(of, f.Series), f.Rule}
		known[at] = append(known[at], f)
	}
	for _, s := range base.Series {
		shared[SeriesIdentity(of, s.Key)] = true
	}
	for _, s := range a.Series {
		if identity := SeriesIdentity(meta, s.Key); !shared[identity] {
			a.warn(s.Key.String(), "the baseline %s has not measured it: all of its findings are new", base.Run)
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
}

// overlap says whether two findings share an M. That one began near the other says nothing: two dips of one octave are two.
func overlap(a, b *Finding) bool { return a.FromM <= b.ToM && b.FromM <= a.ToM }

// sameCause says whether two causes may be one. An unknown cause contradicts none.
func sameCause(a, b Cause) bool { return a == b || a == Unknown || b == Unknown || a == "" || b == "" }

// losesMore says whether a finding surely loses more than any before. A loss without an interval, as of the article's method, is
// sure of nothing.
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

// reachesFarther says whether most rows of a finding lie outside of those before. s is its series, nil for a series that has no rows.
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

// BaselineText sums up in one line what the baseline says of the findings; empty without a baseline.
func (a *Audit) BaselineText() string {
	if a.Baseline == "" {
		return ""
	}
	n := map[BaselineState]int{}
	for _, f := range a.Findings {
		n[f.Baseline]++
	}
	return fmt.Sprintf("against the baseline %s: %d new, %d grown, %d known", a.Baseline, n[BaselineNew], n[BaselineGrown], n[BaselineKnown])
}
