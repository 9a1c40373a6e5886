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
	// noise is the standard error of the running location.
	noise float64
	low   bool // the location is the low quantile, else the median
}

// span is over how many blocks the pace is taken.
func (p *pace) span() int {
	if p.low {
		return lowPaceBlocks
	}
	return paceBlocks
}

// newPace collects the blocks of one device that tell its pace. rows are the
// adjusted log-times, control marks rows that are measured in every round.
//
// Rounds for which rows were chosen are different. Their rows are the ones that
// looked slow before, or fast, and would look otherwise by that alone: of them
// only the control rows and the sentinels tell the pace. And a row's
// centre is taken over the full rounds: over all, it would follow the chosen rounds where
// they are the majority and hide what they have in common.
func newPace(rows []track, control []bool, sentinels []block, s Scatter) *pace {
	full := fullRounds(rows)
	// The places of a row's blocks and deviations among all.
	blocks, scales := make([]int, len(rows)+1), make([]int, len(rows)+1)
	for i, r := range rows {
		n := 0
		for _, round := range r.round {
			if full.has(round) {
				n++
			}
		}
		blocks[i+1], scales[i+1] = blocks[i], scales[i]
		if n < 3 {
			continue
		}
		if scales[i+1] += len(r.y); control[i] {
			n = len(r.y)
		}
		blocks[i+1] += n
	}
	p := &pace{low: s.low(), blocks: make([]block, blocks[len(rows)], blocks[len(rows)]+len(sentinels))}
	deviations := make([]float64, scales[len(rows)])
	inBlocks(len(rows), func(from, to int) {
		var scratch []float64
		w := lowWeights{}
		for i := from; i < to; i++ {
			r, of, off := rows[i], p.blocks[blocks[i]:blocks[i+1]], deviations[scales[i]:scales[i+1]]
			if len(off) == 0 {
				continue
			}
			scratch = scratch[:0]
			for j, v := range r.y {
				if full.has(r.round[j]) {
					scratch = append(scratch, v)
				}
			}
			var centre float64
			if p.low {
				slices.Sort(scratch)
				centre, _ = w.at(scratch)
			} else {
				centre = spoiledMedian(scratch)
			}
			for j, v := range r.y {
				if full.has(r.round[j]) || control[i] {
					of[0], of = block{r.seq[j], v - centre}, of[1:]
				}
				off[j] = math.Abs(v - centre)
			}
		}
	})
	p.blocks = append(p.blocks, sentinels...)
	sortBySeq(p.blocks, func(b *block) int64 { return b.seq })
	if len(p.blocks) < 4*p.span() {
		return nil
	}
	p.noise = medianFactor * 1.4826 * selectMedian(deviations) / math.Sqrt(float64(p.span()))
	return p
}

// roundSet is a set of rounds: those below denseRounds by number, others by name.
type roundSet struct {
	dense  []bool
	sparse map[int]bool
}

// denseRounds is up to which round rounds are counted in a list.
const denseRounds = 1 << 16

func (s *roundSet) has(round int) bool {
	if round >= 0 && round < len(s.dense) {
		return s.dense[round]
	}
	return s.sparse[round]
}

// fullRounds are the rounds that have nearly as many samples as the largest.
func fullRounds(rows []track) *roundSet {
	var dense []int
	sparse, most := map[int]int{}, 0
	for _, r := range rows {
		for _, round := range r.round {
			if round < 0 || round >= denseRounds {
				sparse[round]++
				most = max(most, sparse[round])
				continue
			}
			if round >= len(dense) {
				dense = append(dense, make([]int, round+1-len(dense))...)
			}
			dense[round]++
			most = max(most, dense[round])
		}
	}
	full := func(n int) bool { return n > 0 && float64(n) >= fullRound*float64(most) }
	s := &roundSet{dense: make([]bool, len(dense)), sparse: map[int]bool{}}
	for round, n := range dense {
		s.dense[round] = full(n)
	}
	for round, n := range sparse {
		s.sparse[round] = full(n)
	}
	return s
}

// sortBySeq puts v in the order of seq. Seqs that are nearly consecutive, as those of a run
// are, tell each element its place.
func sortBySeq[T any](v []T, seq func(*T) int64) {
	if from := places(v, seq); from != nil {
		permute(v, from)
		return
	}
	slices.SortFunc(v, func(a, b T) int { return cmp.Compare(seq(&a), seq(&b)) })
}

// places lists in order of seq where the elements are, counted from 1; nil where seqs are too
// far apart to be counted, or not distinct.
func places[T any](v []T, seq func(*T) int64) []int32 {
	if len(v) == 0 || len(v) > math.MaxInt32-1 {
		return nil
	}
	first, last := seq(&v[0]), seq(&v[0])
	for i := range v {
		at := seq(&v[i])
		first, last = min(first, at), max(last, at)
	}
	if first < 0 || last-first >= 4*int64(len(v)) {
		return nil
	}
	at := make([]int32, last-first+1)
	for i := range v {
		place := &at[seq(&v[i])-first]
		if *place != 0 {
			return nil
		}
		*place = int32(i) + 1
	}
	return slices.DeleteFunc(at, func(i int32) bool { return i == 0 })
}

// permute moves to each place the element that from names, counted from 1, and clears from.
func permute[T any](v []T, from []int32) {
	for k := range v {
		if from[k] == 0 {
			continue // it has been moved
		}
		first, to := v[k], k
		for {
			source := int(from[to]) - 1
			from[to] = 0
			if source == k {
				v[to] = first
				break
			}
			v[to], to = v[source], source
		}
	}
}

// window is the blocks around a moment, kept sorted as it moves on. It is short: to walk
// along it takes less than to search it.
type window struct{ sorted []float64 }

func (w *window) add(v float64) {
	s := append(w.sorted, v)
	i := len(s) - 1
	for ; i > 0 && s[i-1] > v; i-- {
		s[i] = s[i-1]
	}
	s[i] = v
	w.sorted = s
}

func (w *window) drop(v float64) {
	s := w.sorted
	for i := range s {
		if s[i] == v {
			copy(s[i:], s[i+1:])
			w.sorted = s[:len(s)-1]
			return
		}
	}
}

// location is the median of the window, or its low quantile, of which one block has no say when it is its own.
func (w *window) location(low bool, own float64, has bool) float64 {
	n := len(w.sorted)
	if has {
		n--
	}
	at := func(i int) float64 {
		if has && w.sorted[i] >= own {
			i++
		}
		return w.sorted[i]
	}
	if low {
		return at(int(lowShare * float64(n)))
	}
	return (at(n/2) + at((n-1)/2)) / 2
}

// moment is the place of a sample.
type moment struct{ row, col int32 }

// moments are the places of all samples in the order of the run.
func moments(rows []track) []moment {
	n := 0
	for _, r := range rows {
		n += len(r.seq)
	}
	all := make([]moment, 0, n)
	for i, r := range rows {
		for j := range r.seq {
			all = append(all, moment{int32(i), int32(j)})
		}
	}
	sortBySeq(all, func(m *moment) int64 { return rows[m.row].seq[m.col] })
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
	all := moments(rows)
	values := make([]float64, len(all))
	const stretch = 1 << 16
	each((len(all)+stretch-1)/stretch, func(k int) {
		first := k * stretch
		last := min(first+stretch, len(all))
		p.around(rows, all[first:last], values[first:last])
	})
	var sum, squares float64
	for _, v := range values {
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
	inBlocks(len(rows), func(from, to int) {
		for _, r := range rows[from:to] {
			for j := range r.x {
				r.x[j] += usual
			}
		}
	})
	return true
}

// around finds the pace at consecutive moments and sets the tracks' x to what it is below
// zero.
func (p *pace) around(rows []track, all []moment, values []float64) {
	if len(all) == 0 {
		return
	}
	half := p.span() / 2
	var w window
	at, _ := slices.BinarySearchFunc(p.blocks, rows[all[0].row].seq[all[0].col], func(b block, seq int64) int { return cmp.Compare(b.seq, seq) })
	// The window is blocks[from:to], and blocks[at:] are not before the moment.
	from, to := at, at
	for i, m := range all {
		seq := rows[m.row].seq[m.col]
		for at < len(p.blocks) && p.blocks[at].seq < seq {
			at++
		}
		own := at < len(p.blocks) && p.blocks[at].seq == seq
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
		v := w.location(p.low, blockOff(p.blocks, at, own), own)
		rows[m.row].x[m.col] = -v
		values[i] = v
	}
}

// at is the pace around the moment of a block that is among those of the pace.
func (p *pace) at(seq int64) float64 {
	one := track{x: []float64{0}, seq: []int64{seq}}
	p.around([]track{one}, []moment{{}}, []float64{0})
	return -one.x[0]
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
func sentinelBlocks(samples []results.Sample, scatter Scatter) []block {
	log := clockFit(samples)
	byCase := map[int64][]float64{}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], log(s))
	}
	centre := map[int64]float64{}
	w := lowWeights{}
	for id, v := range byCase {
		if scatter.low() {
			centre[id], _, _ = w.unsorted(v, nil)
		} else {
			centre[id] = median(v)
		}
	}
	out := make([]block, 0, len(samples))
	for _, s := range samples {
		out = append(out, block{s.Seq, log(s) - centre[s.CaseID]})
	}
	return out
}
