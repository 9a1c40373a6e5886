package problem

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Changes are the problems of two runs, matched by product, kernel and overlap of M.
type Changes struct {
	// New are problems of B that A lacks at sizes that it measured, Gone those of A that B lacks.
	New  []*Problem `json:"new"`
	Gone []*Problem `json:"gone"`
	// Same counts the problems of B that A has too.
	Same int `json:"same"`
}

// Side is one of two runs with its problems.
type Side struct {
	Data     infer.Data
	Problems []*Problem
}

// Compare matches the problems of run B with those of run A. A suspected problem only counts as Same.
func Compare(a, b Side) *Changes {
	c := &Changes{New: []*Problem{}, Gone: []*Problem{}}
	inA, inB := a.places(), b.places()
	for _, p := range b.Problems {
		switch {
		case inA[p.Place].has(p):
			c.Same++
		case p.Status != rules.Suspected && inA[p.Place].measured(p):
			c.New = append(c.New, p)
		}
	}
	for _, p := range a.Problems {
		if p.Status != rules.Suspected && !inB[p.Place].has(p) && inB[p.Place].measured(p) {
			c.Gone = append(c.Gone, p)
		}
	}
	return c
}

type spot struct {
	problems []*Problem
	series   []results.Series
}

// Problems are compared only within a place, so the cost is linear in the number of products.
func (s Side) places() map[Place]*spot {
	out := map[Place]*spot{}
	at := func(p Place) *spot {
		if out[p] == nil {
			out[p] = &spot{}
		}
		return out[p]
	}
	f := &finder{names: deviceNames(s.Data)}
	for _, series := range s.Data.Series {
		of := at(f.place(series.Key))
		of.series = append(of.series, series)
	}
	for _, p := range s.Problems {
		of := at(p.Place)
		of.problems = append(of.problems, p)
	}
	return out
}

func (s *spot) has(p *Problem) bool { return s != nil && slices.ContainsFunc(s.problems, p.Same) }

func (s *spot) measured(p *Problem) bool {
	return s != nil && slices.ContainsFunc(s.series, func(series results.Series) bool {
		return slices.Contains(p.Kernels, series.Key.Kernel) &&
			slices.ContainsFunc(series.Rows,
				func(r results.Row) bool { return p.FromM <= r.Case.M && r.Case.M <= p.ToM && len(r.Samples) > 0 })
	})
}
