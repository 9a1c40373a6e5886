package main

import (
	"math"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// A sentinel with too few samples has the median of all as its latest, so its drift is unknown.
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

// The time left must include the time between blocks, and use the additional rounds' own pace.
func TestTimeLeftIsWallTime(t *testing.T) {
	var f phase
	at := func(done, planned int, elapsed time.Duration) time.Duration {
		return f.left(sweep.Progress{Done: done, Planned: planned, Elapsed: elapsed, Left: time.Millisecond, Busy: .01})
	}
	for _, c := range []struct {
		done, planned int
		elapsed, want time.Duration
	}{
		{1, 100, 2 * time.Second, 0}, // pace not known yet
		{20, 100, 40 * time.Second, 160 * time.Second},
		{100, 100, 200 * time.Second, 0},
		{101, 201, 201 * time.Second, 0}, // additional rounds
		{151, 201, 251 * time.Second, 49 * time.Second},
		{250, 201, 260 * time.Second, 0}, // more than planned
	} {
		if got := at(c.done, c.planned, c.elapsed).Round(time.Second); got != c.want {
			t.Errorf("%d of %d after %s: %s left, want %s", c.done, c.planned, c.elapsed, got, c.want)
		}
	}
	// A resumed sweep has samples from earlier starts.
	f = phase{}
	at(501, 1000, time.Second)
	if got := at(550, 1000, 50*time.Second); got != 450*time.Second {
		t.Errorf("%s left of a resumed sweep", got)
	}
}
