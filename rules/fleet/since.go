package fleet

import (
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A change of one card is tested against the fleet's variation of processes. Package history estimates noise
// from one case's history, which takes ten runs.
const (
	// leastScatter is the minimum degrees of freedom of the variation between processes.
	leastRuns, leastScatter = 4, 6
	// changeLevel is the level of the test, over all runs at which a card may have changed.
	changeLevel = 0.001
)

type change struct {
	at        int // index into the card's processes: the first of the new level
	log, se   float64
	p, df     float64
	sustained bool
}

// lastChange finds the first run of a card's new level, or nil, by the most significant split of the runs in
// two.
func lastChange(y []float64, process, freedom float64) *change {
	n := len(y)
	if n < leastRuns || freedom < leastScatter {
		return nil
	}
	var best *change
	for k := 1; k < n; k++ {
		before, after := median(y[:k]), median(y[k:])
		se := process * math.Sqrt(spreadOfMedian(k)+spreadOfMedian(n-k))
		p := 2 * stats.UpperP(math.Abs(after-before)/se, freedom) * float64(n-1)
		if p <= changeLevel && (best == nil || p < best.p) {
			best = &change{at: k, log: after - before, se: se, p: p, df: freedom}
		}
	}
	return best
}

// spreadOfMedian is the variance of the median of n values relative to theirs.
func spreadOfMedian(n int) float64 {
	if n <= 2 {
		return 1 / float64(n)
	}
	return math.Pi / 2 / float64(n)
}

// findChanges excludes the runs before a card's last change from its level.
func (a *answers) findChanges() bool {
	any := false
	for c := range a.cards {
		for _, of := range []struct {
			sustained bool
			e         *effects
		}{{false, a.whole.common}, {true, a.whole.sustained}} {
			parts := of.e.parts
			if parts.Process == nil {
				continue
			}
			var y []float64
			var at []int
			for i, p := range a.cards[c].processes {
				if r := of.e.rest[p]; r == r {
					y, at = append(y, r), append(at, i)
				}
			}
			found := lastChange(y, math.Max(*parts.Process, leastDeviation), float64(parts.Processes-parts.Cards))
			if found == nil || a.changes[c] != nil && a.changes[c].p <= found.p {
				continue
			}
			found.at, found.sustained = at[found.at], of.sustained
			a.changes[c] = found
		}
		if found := a.changes[c]; found != nil {
			for _, p := range a.cards[c].processes[:found.at] {
				a.used[p] = false
			}
			any = true
		}
	}
	return any
}

func (a *answers) told(card int) *Change {
	x := a.changes[card]
	if x == nil {
		return nil
	}
	runs := a.cards[card].processes
	first := a.processes[runs[x.at]]
	return &Change{Run: first.path, Time: when(first.from), Runs: len(runs) - x.at, Sustained: x.sustained, Ratio: ratio(x.log, x.se, x.df)}
}

func when(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}
