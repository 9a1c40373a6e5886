package infer

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// paceBlocks is the window of the machine's pace in blocks, half before and half after. The clock of a
	// card at its power limit keeps half of a deviation for some 60 blocks of a millisecond.
	paceBlocks = 16
	// paceShare is the least share of the running median's variance that must come from the machine, not from
	// noise, for times to be adjusted by it.
	paceShare = 0.25
)

// block is one timed block in the order of the run, with its log deviation from its row's center. Only blocks
// that measure the pace are listed.
type block struct {
	seq int64
	off float64
}

// pace is the slowness of the machine over a run: the running median of the deviations of the blocks nearest
// in time, in logs of time.
type pace struct {
	blocks []block
	noise  float64
	low    bool // the location is the low quantile, else the median
}

func (p *pace) span() int {
	if p.low {
		return lowPaceBlocks
	}
	return paceBlocks
}

// newPace collects the blocks of one device that measure its pace. rows are the adjusted log times, control
// marks rows that are measured in every round.
//
// Rounds with chosen rows are different. Their rows looked slow or fast before, and would look different
// again by selection alone, so only their control rows and sentinels measure the pace. A row's center is
// taken over the full rounds only. Over all rounds, it could follow a majority of chosen rounds and hide
// their pace.
func newPace(rows []track, control []bool, sentinels []block, s Scatter) *pace {
	full := fullRounds(rows)
	// Offsets of each row's blocks and deviations in the common arrays.
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
	p := &pace{low: s.Low(), blocks: make([]block, blocks[len(rows)], blocks[len(rows)]+len(sentinels))}
	deviations := make([]float64, scales[len(rows)])
	stats.InBlocks(len(rows), func(from, to int) {
		var scratch []float64
		w := stats.LowQuantile{}
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
				centre, _ = w.At(scratch)
			} else {
				centre = stats.MedianInPlace(scratch)
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
	p.noise = stats.MedianFactor * stats.MADFactor * stats.UpperMedianInPlace(deviations) / math.Sqrt(float64(p.span()))
	return p
}

// roundSet is a set of rounds: a list below denseRounds, a map above.
type roundSet struct {
	dense  []bool
	sparse map[int]bool
}

const denseRounds = 1 << 16

func (s *roundSet) has(round int) bool {
	if round >= 0 && round < len(s.dense) {
		return s.dense[round]
	}
	return s.sparse[round]
}

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

// sortBySeq sorts v by seq, in linear time if the seqs are nearly consecutive, as a run's are.
func sortBySeq[T any](v []T, seq func(*T) int64) {
	if from := places(v, seq); from != nil {
		permute(v, from)
		return
	}
	slices.SortFunc(v, func(a, b T) int { return cmp.Compare(seq(&a), seq(&b)) })
}

// places lists the indexes of the elements in order of seq, counted from 1; nil if seqs are too sparse for
// that, or not distinct.
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

// permute moves to each place the element that from gives, counted from 1, and clears from.
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

// window is the blocks around a moment, kept sorted as it moves. It is short, so a linear scan is faster than
// a search.
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

// location is the median of the window, or its low quantile, without the block itself if has is true.
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
		return at(int(stats.LowShare * float64(n)))
	}
	return (at(n/2) + at((n-1)/2)) / 2
}

type moment struct{ row, col int32 }

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

// follow sets the x of all tracks to −pace, so an adjusted time is the time at a usual moment. paced reports
// whether the pace is significant; otherwise times are not adjusted. The pace around a block is the median of
// the blocks nearest in time, half before and half after, without the block itself.
func (p *pace) follow(rows []track) (level stats.Estimate, paced bool) {
	if p == nil {
		return level, false
	}
	all := moments(rows)
	values := make([]float64, len(all))
	const stretch = 1 << 16
	stats.Each((len(all)+stretch-1)/stretch, func(k int) {
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
		return level, false
	}
	variance := squares/n - sum/n*sum/n
	if variance*(1-paceShare) <= p.noise*p.noise {
		return level, false
	}
	level = paceLevel(values)
	usual := stats.UpperMedianInPlace(values)
	stats.InBlocks(len(rows), func(from, to int) {
		for _, r := range rows[from:to] {
			for j := range r.x {
				r.x[j] += usual
			}
		}
	})
	return level, true
}

func (p *pace) around(rows []track, all []moment, values []float64) {
	if len(all) == 0 {
		return
	}
	half := p.span() / 2
	var w window
	at, _ := slices.BinarySearchFunc(p.blocks, rows[all[0].row].seq[all[0].col],
		func(b block, seq int64) int { return cmp.Compare(b.seq, seq) })
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
		// At the ends of the run the other side contributes more.
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

func (p *pace) at(seq int64) float64 {
	one := track{x: []float64{0}, seq: []int64{seq}}
	p.around([]track{one}, []moment{{}}, []float64{0})
	return -one.x[0]
}

func blockOff(blocks []block, at int, is bool) float64 {
	if !is {
		return 0
	}
	return blocks[at].off
}

// sentinelBlocks are the blocks of recurring cases at their usual clock, relative to each case's center.
func sentinelBlocks(samples []results.Sample, scatter Scatter) []block {
	log := clockFit(samples)
	byCase := map[int64][]float64{}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], log(s))
	}
	centre := map[int64]float64{}
	w := stats.LowQuantile{}
	for id, v := range byCase {
		if scatter.Low() {
			centre[id], _, _ = w.Unsorted(v, nil)
		} else {
			centre[id] = stats.Median(v)
		}
	}
	out := make([]block, 0, len(samples))
	for _, s := range samples {
		out = append(out, block{s.Seq, log(s) - centre[s.CaseID]})
	}
	return out
}
