package fleet

import (
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/rules"
)

// A change of one card's level is looked for beside what the fleet tells of processes: package history has one case's history alone to tell its
// noise from, and takes ten runs.
const (
	// leastRuns is how many runs of a card a change takes, leastScatter how many degrees of freedom what is known of processes.
	leastRuns, leastScatter = 4, 6
	// changeLevel is the level of the test, over all runs at which a card may have changed.
	changeLevel = 0.001
)

// change is the last change of a card's level.
type change struct {
	at        int // index into the card's processes: the first of the new level
	log, se   float64
	p, df     float64
	sustained bool
}

// lastChange finds the run from which on the levels of one card are others: the division of its runs in two that the scatter of processes
// allows least. Nil for none.
func lastChange(y []float64, process, freedom float64) *change {
	n := len(y)
	if n < leastRuns || freedom < leastScatter {
		return nil
	}
	var best *change
	for k := 1; k < n; k++ {
		// The middle of the runs before stands a stray among them.
		before, after := median(y[:k]), median(y[k:])
		se := process * math.Sqrt(spreadOfMedian(k)+spreadOfMedian(n-k))
		p := 2 * upperP(math.Abs(after-before)/se, freedom) * float64(n-1)
		if p <= changeLevel && (best == nil || p < best.p) {
			best = &change{at: k, log: after - before, se: se, p: p, df: freedom}
		}
	}
	return best
}

// spreadOfMedian is the variance of the median of n values, over theirs.
func spreadOfMedian(n int) float64 {
	if n <= 2 {
		return 1 / float64(n)
	}
	return math.Pi / 2 / float64(n)
}

// findChanges looks for changes of each card, and takes the runs before the last one out of what stands for the card.
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

// told is the change as it is reported.
func (a *answers) told(card int) *Change {
	x := a.changes[card]
	if x == nil {
		return nil
	}
	runs := a.cards[card].processes
	first := a.processes[runs[x.at]]
	half := quantile(0.025, x.df) * x.se
	return &Change{Run: first.path, Time: when(first.from), Runs: len(runs) - x.at, Sustained: x.sustained,
		Ratio: rules.Interval{Lo: expo(x.log - half), Mid: expo(x.log), Hi: expo(x.log + half)}}
}

// when is a time in microseconds since 1970, zero where it is not known.
func when(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro).UTC()
}
