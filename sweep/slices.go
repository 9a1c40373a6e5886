package sweep

import (
	"cmp"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Two processes use a device in turns, and a switch costs a block that is discarded. A slice is the time for
// which one of them keeps the device. Within 20 ms, the clock and temperature of both stay nearly the same.
const slice = 20 * time.Millisecond

// process names the process that computes a case: see [kernels.ProcessOf]. It is empty for unknown kernels,
// which fail later.
func (b *rig) process(c results.Case) string {
	k, err := b.kernel(c)
	if err != nil {
		return ""
	}
	return kernels.ProcessOf(k)
}

// shared reports whether another process computes some of the device's kernels.
func shared(d kernels.Device) bool {
	for _, o := range kernels.Operations() {
		for _, k := range d.Kernels(o) {
			if kernels.ProcessOf(k) != "" {
				return true
			}
		}
	}
	return false
}

// turnsOf deals the order of a round into slices of one process each. The order within a process stays. All
// processes have slices through the whole round, in proportion to their times. Sets of weights stay together;
// a nil group is one set. The seed decides which process begins.
func turnsOf(seed uint64, round int, order, group []int, process func(i int) string, expected func(i int) time.Duration) []int {
	src := source(seed, streamProcesses, uint64(round))
	out := make([]int, 0, len(order))
	for first := 0; first < len(order); {
		end := len(order)
		if group != nil {
			end = first + 1
			for end < len(order) && group[order[end]] == group[order[first]] {
				end++
			}
		}
		of := map[string][]int{}
		var names []string
		for _, i := range order[first:end] {
			name := process(i)
			if of[name] == nil {
				names = append(names, name)
			}
			of[name] = append(of[name], i)
		}
		if len(names) < 2 {
			out = append(out, order[first:end]...)
			first = end
			continue
		}
		slices.Sort(names)
		shuffle(src, names)
		var parts []dealt
		for rank, name := range names {
			parts = append(parts, deal(of[name], expected, float64(rank+1)/float64(len(names)+1))...)
		}
		slices.SortStableFunc(parts, func(a, b dealt) int { return cmp.Compare(a.at, b.at) })
		for _, p := range parts {
			out = append(out, p.cases...)
		}
		first = end
	}
	return out
}

// dealt is a slice of one process; at is its place in the round, from 0 to 1.
type dealt struct {
	cases []int
	at    float64
}

// deal cuts the cases of a process into slices. A slice's place is the given share of the way from its begin to
// its end, so processes with equal times take turns.
func deal(cases []int, expected func(i int) time.Duration, share float64) []dealt {
	var out []dealt
	var begin, end time.Duration // of the last slice
	first := 0
	cut := func(next int) {
		out = append(out, dealt{cases[first:next], float64(begin) + share*float64(end-begin)})
		first, begin = next, end
	}
	for at, i := range cases {
		t := max(1, expected(i))
		if at > first && end+t-begin > slice {
			cut(at)
		}
		end += t
	}
	cut(len(cases))
	for i := range out {
		out[i].at /= float64(end)
	}
	return out
}
