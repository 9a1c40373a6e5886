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
func newPace(rows []track, control []bool, sentinels []block) *pace {
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
		for j, v := range r.y {
			if full[r.round[j]] {
				scratch = append(scratch, v)
			}
		}
		if len(scratch) < 3 {
			continue
		}
		centre := median(scratch)
		for j, v := range r.y {
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

// window is the blocks around a moment, kept sorted as it moves on.
type window struct{ sorted []float64 }

func (w *window) add(v float64) {
	i, _ := slices.BinarySearch(w.sorted, v)
	w.sorted = slices.Insert(w.sorted, i, v)
}

func (w *window) drop(v float64) {
	if i, ok := slices.BinarySearch(w.sorted, v); ok {
		w.sorted = slices.Delete(w.sorted, i, i+1)
	}
}

// middle is the median of the window, of which one block has no say when it is its own.
func (w *window) middle(own float64, has bool) float64 {
	skip := -1
	if has {
		skip, _ = slices.BinarySearch(w.sorted, own)
	}
	n := len(w.sorted)
	if skip >= 0 {
		n--
	}
	at := func(i int) float64 {
		if skip >= 0 && i >= skip {
			i++
		}
		return w.sorted[i]
	}
	return (at(n/2) + at((n-1)/2)) / 2
}

// moments are the seqs of all samples in the order of the run, each with its place.
type moment struct {
	seq      int64
	row, col int32
}

func moments(rows []track) []moment {
	n := 0
	for _, r := range rows {
		n += len(r.seq)
	}
	all := make([]moment, 0, n)
	for i, r := range rows {
		for j, seq := range r.seq {
			all = append(all, moment{seq, int32(i), int32(j)})
		}
	}
	slices.SortFunc(all, func(a, b moment) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// follow sets the x of all tracks to −pace, so that an adjusted time is that of a usual
// moment, and says whether the pace stands out of its own noise: where it does
// not, times are better left as they are. The pace around a block is the median of those
// nearest in time, half before and half after, without the block itself.
func (p *pace) follow(rows []track) bool {
	if p == nil {
		return false
	}
	const half = paceBlocks / 2
	values := make([]float64, 0, len(p.blocks))
	var w window
	from, to, at := 0, 0, 0 // the window is blocks[from:to], and blocks[at:] are not before the moment
	var sum, squares float64
	for _, m := range moments(rows) {
		for at < len(p.blocks) && p.blocks[at].seq < m.seq {
			at++
		}
		own := at < len(p.blocks) && p.blocks[at].seq == m.seq
		after := at
		if own {
			after++
		}
		first, last := at-half, after+half
		// At the ends of the run the other side gives more.
		if first < 0 {
			first, last = 0, last-first
		}
		if last > len(p.blocks) {
			first, last = max(0, first-(last-len(p.blocks))), len(p.blocks)
		}
		for ; to < last; to++ {
			w.add(p.blocks[to].off)
		}
		for ; from < first; from++ {
			w.drop(p.blocks[from].off)
		}
		for ; from > first; from-- {
			w.add(p.blocks[from-1].off)
		}
		v := w.middle(blockOff(p.blocks, at, own), own)
		rows[m.row].x[m.col] = -v
		values = append(values, v)
		sum += v
		squares += v * v
	}
	n := float64(len(values))
	if n == 0 {
		return false
	}
	variance := squares/n - sum/n*sum/n
	if variance*(1-paceShare) <= p.noise*p.noise {
		return false
	}
	usual := selectMedian(values)
	for _, r := range rows {
		for j := range r.x {
			r.x[j] += usual
		}
	}
	return true
}

// blockOff is the deviation of a block that is there.
func blockOff(blocks []block, at int, is bool) float64 {
	if !is {
		return 0
	}
	return blocks[at].off
}

// sentinelBlocks are the blocks of recurring cases at their usual clock, each beside its
// case's centre.
func sentinelBlocks(samples []results.Sample) []block {
	log := clockFit(samples)
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
