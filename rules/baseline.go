package rules

import (
	"fmt"

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
	identities := make([]string, len(base.Findings))
	shared := map[string]bool{}
	for i := range base.Findings {
		identities[i] = SeriesIdentity(of, base.Findings[i].Series)
	}
	for _, s := range base.Series {
		shared[SeriesIdentity(of, s.Key)] = true
	}
	for _, s := range a.Series {
		if identity := SeriesIdentity(meta, s.Key); !shared[identity] {
			a.warn(s.Key.String(), "the baseline %s has not measured it: all of its findings are new", base.Run)
		}
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		identity := SeriesIdentity(meta, f.Series)
		var before []Finding
		for k, b := range base.Findings {
			if identities[k] == identity && b.Rule == f.Rule && overlap(*f, b) && sameCause(f.Cause, b.Cause) {
				before = append(before, b)
			}
		}
		switch {
		case len(before) == 0:
			f.Baseline = BaselineNew
		case losesMore(*f, before), a.reachesFarther(*f, before):
			f.Baseline = BaselineGrown
		default:
			f.Baseline = BaselineKnown
		}
	}
}

// overlap says whether two findings share an M. That one began near the other says nothing: two dips of one octave are two.
func overlap(a, b Finding) bool { return a.FromM <= b.ToM && b.FromM <= a.ToM }

// sameCause says whether two causes may be one. An unknown cause contradicts none.
func sameCause(a, b Cause) bool { return a == b || a == Unknown || b == Unknown || a == "" || b == "" }

// losesMore says whether a finding surely loses more than any before. A loss without an interval, as of the article's method, is
// sure of nothing.
func losesMore(f Finding, before []Finding) bool {
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

// reachesFarther says whether most rows of a finding lie outside of those before.
func (a *Audit) reachesFarther(f Finding, before []Finding) bool {
	rows, outside := 0, 0
	for _, s := range a.Series {
		if s.Key != f.Series {
			continue
		}
		for _, r := range s.Rows {
			if r.M < f.FromM || r.M > f.ToM {
				continue
			}
			rows++
			inside := false
			for _, b := range before {
				inside = inside || b.FromM <= r.M && r.M <= b.ToM
			}
			if !inside {
				outside++
			}
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
