package main

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// As long as a sentinel has no more samples than its latest median takes, that is
// the median of all, which says nothing of a drift.
func TestDriftIsUnknownAtFirst(t *testing.T) {
	m := meter{drift: map[int64]float64{}}
	m.Drift(sweep.Drift{Case: results.Case{ID: 1}, Samples: sweep.SentinelWindow})
	if d := m.worstDrift(); !math.IsNaN(d) {
		t.Errorf("drift %v after as many samples as one window", d)
	}
	m.Drift(sweep.Drift{Case: results.Case{ID: 1}, Samples: sweep.SentinelWindow + 1, Change: -0.2})
	m.Drift(sweep.Drift{Case: results.Case{ID: 2}, Samples: sweep.SentinelWindow + 1, Change: 0.1})
	if d := m.worstDrift(); d != -0.2 {
		t.Errorf("drift %v, want that of the sentinel that changed most", d)
	}
}
