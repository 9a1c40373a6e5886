package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// paceBlocks is over how many blocks nearest in time the pace of the machine is
	// taken, half before and half after: the clock of a card under its power limit
	// keeps half of a deviation for some 60 blocks of a millisecond.
	paceBlocks = 16
	// paceShare is the share of the variance of the running median that must be the
	// machine's, not the median's own noise, for times to be adjusted by it.
	paceShare = 0.25
)

// block is one timed block in the order of the run: how far, in logs, it came out
// above its row's centre. Only blocks that tell the pace are listed.
type block struct {
	seq int64
	off float64
}

// pace is how slow the machine was at the moments of a run: the running median of
// what the blocks nearest in time had in common, in logs of time.
type pace struct {
	blocks []block
	// noise is the standard error of the running median.
	noise float64
}

// newPace collects the blocks of one device that tell its pace. rows are the
// adjusted log-times, control marks rows that are measured in every round.
//
// Rounds for which rows were chosen are different. Their rows are the ones that
// looked slow before, or fast, and would look otherwise by that alone: of them
// only the control rows and the sentinels tell the pace. And a row's
// centre is taken over the full rounds: over all, it would follow the chosen rounds where
// they are the majority and hide what they have in common.
func newPace(rows []track, y [][]float64, control []bool, sentinels []block) *pace {
	count, most := map[int]int{}, 0
	for _, r := range rows {
		for _, round := range r.round {
			count[round]++
			most = max(most, count[round])
		}
	}
	full := map[int]bool{}
	for round, n := range count {
		full[round] = float64(n) >= fullRound*float64(most)
	}
	p := &pace{}
	var scratch, scales []float64
	for i, r := range rows {
		scratch = scratch[:0]
		for j, v := range y[i] {
			if full[r.round[j]] {
				scratch = append(scratch, v)
			}
		}
		if len(scratch) < 3 {
			continue
		}
		centre := median(scratch)
		for j, v := range y[i] {
			if full[r.round[j]] || control[i] {
				p.blocks = append(p.blocks, block{r.seq[j], v - centre})
			}
			scales = append(scales, math.Abs(v-centre))
		}
	}
	p.blocks = append(p.blocks, sentinels...)
	slices.SortFunc(p.blocks, func(a, b block) int { return cmp.Compare(a.seq, b.seq) })
	if len(p.blocks) < 4*paceBlocks {
		return nil
	}
	p.noise = medianFactor * 1.4826 * selectMedian(scales) / math.Sqrt(paceBlocks)
	return p
}

// at is the pace around a block, which itself has no say.
func (p *pace) at(seq int64, scratch []float64) (float64, []float64) {
	i, found := slices.BinarySearchFunc(p.blocks, seq, func(b block, seq int64) int { return cmp.Compare(b.seq, seq) })
	after := i
	if found {
		after++
	}
	const half = paceBlocks / 2
	from, to := max(0, i-half), min(len(p.blocks), after+half)
	// At the ends of the run the other side gives more.
	if short := half - (i - from); short > 0 {
		to = min(len(p.blocks), to+short)
	}
	if short := half - (to - after); short > 0 {
		from = max(0, from-short)
	}
	scratch = scratch[:0]
	for k := from; k < to; k++ {
		if k < i || k >= after {
			scratch = append(scratch, p.blocks[k].off)
		}
	}
	slices.Sort(scratch)
	n := len(scratch)
	return (scratch[n/2] + scratch[(n-1)/2]) / 2, scratch
}

// follow sets the x of all tracks to −pace, so that an adjusted time is that of a usual
// moment, and says whether the pace stands out of its own noise: where it does
// not, times are better left as they are.
func (p *pace) follow(rows []track) bool {
	if p == nil {
		return false
	}
	var all []float64
	scratch := make([]float64, 0, paceBlocks)
	for _, r := range rows {
		for j, seq := range r.seq {
			var v float64
			v, scratch = p.at(seq, scratch)
			r.x[j] = -v
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return false
	}
	var sum, squares float64
	for _, v := range all {
		sum += v
		squares += v * v
	}
	n := float64(len(all))
	variance := squares/n - sum/n*sum/n
	if variance*(1-paceShare) <= p.noise*p.noise {
		return false
	}
	usual := selectMedian(all)
	for _, r := range rows {
		for j := range r.x {
			r.x[j] += usual
		}
	}
	return true
}

// sentinelBlocks are the blocks of recurring cases, each beside its case's centre.
func sentinelBlocks(samples []results.Sample, log func(results.Sample) float64) []block {
	byCase := map[int64][]float64{}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], log(s))
	}
	centre := map[int64]float64{}
	for id, v := range byCase {
		centre[id] = median(v)
	}
	out := make([]block, 0, len(samples))
	for _, s := range samples {
		out = append(out, block{s.Seq, log(s) - centre[s.CaseID]})
	}
	return out
}
