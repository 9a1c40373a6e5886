// Package baseline recognizes series and findings of an earlier run.
package baseline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

// leastGrowth is how many rows a finding must gain to count as grown. The ends of a finding move by one row
// between measurements.
const leastGrowth = 2

// Hold sets the Baseline of every finding of a from base, an audit of an earlier run. A finding is known if the baseline
// has an overlapping one of the same rule, cause and series identity. It has grown if the lower bound of its
// loss is above the baseline's upper bound, or if most of its rows, and at least two, lie outside the
// baseline's findings. meta and of belong to the runs of a and base.
// It returns the number of series that the baseline has too.
func Hold(a *rules.Audit, meta results.Meta, base *rules.Audit, of results.Meta) (common int) {
	a.Baseline = base.Run
	type place struct {
		identity string
		rule     rules.Rule
	}
	known := map[place][]*rules.Finding{}
	shared := map[string]bool{}
	for i := range base.Findings {
		f := &base.Findings[i]
		if f.Status == rules.Suspected {
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
			a.Warnings = append(a.Warnings, rules.Warning{Subject: s.Key.String(),
				Text: fmt.Sprintf("not in the baseline %s: all findings are new", base.Run)})
		}
	}
	series := make(map[results.SeriesKey]*rules.SeriesAudit, len(a.Series))
	for i := range a.Series {
		series[a.Series[i].Key] = &a.Series[i]
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		var before []*rules.Finding
		for _, b := range known[place{SeriesIdentity(meta, f.Series), f.Rule}] {
			if overlap(f, b) && sameCause(f.Cause, b.Cause) {
				before = append(before, b)
			}
		}
		switch {
		case len(before) == 0:
			f.Baseline = rules.BaselineNew
		case losesMore(f, before), reachesFarther(f, before, series[f.Series]):
			f.Baseline = rules.BaselineGrown
		default:
			f.Baseline = rules.BaselineKnown
		}
	}
	return common
}

// overlap reports whether two findings share an M. Nearby findings don't overlap: one octave can have two
// dips.
func overlap(a, b *rules.Finding) bool { return a.FromM <= b.ToM && b.FromM <= a.ToM }

// sameCause reports whether two causes can be the same. An unknown cause matches any.
func sameCause(a, b cause.Kind) bool {
	return a == b || a == cause.Unknown || b == cause.Unknown || a == "" || b == ""
}

// losesMore reports whether a finding surely loses more than each earlier one. It is false for a loss without
// an interval, as the article's method gives.
func losesMore(f *rules.Finding, before []*rules.Finding) bool {
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

func reachesFarther(f *rules.Finding, before []*rules.Finding, s *rules.SeriesAudit) bool {
	if s == nil {
		return false
	}
	rows, outside := 0, 0
	for _, r := range rowsBetween(s, f.FromM, f.ToM) {
		rows++
		if !slices.ContainsFunc(before, func(b *rules.Finding) bool { return b.FromM <= r.M && r.M <= b.ToM }) {
			outside++
		}
	}
	return outside >= leastGrowth && 2*outside > rows
}

// Text summarizes in one line how the findings compare with the baseline; empty without a baseline.
func Text(a *rules.Audit) string {
	if a.Baseline == "" {
		return ""
	}
	n := map[rules.BaselineState]int{}
	for _, f := range a.Findings {
		n[f.Baseline]++
	}
	return fmt.Sprintf("compared with the baseline %s: %d new, %d grown, %d known", a.Baseline, n[rules.BaselineNew],
		n[rules.BaselineGrown],
		n[rules.BaselineKnown])
}

// rowsBetween are the rows of s from one M to another, both included. Rows are in order of M.
func rowsBetween(s *rules.SeriesAudit, from, to int) []rules.RowVerdict {
	at := func(m int) int {
		i, _ := slices.BinarySearchFunc(s.Rows, m, func(r rules.RowVerdict, m int) int { return cmp.Compare(r.M, m) })
		return i
	}
	first := at(from)
	return s.Rows[first:max(first, at(to+1))]
}
