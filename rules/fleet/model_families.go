package fleet

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

type family struct {
	name   string
	memory bool
	in     []bool
	cases  int
}

// families returns the sets of cases that may be slow together: memory-bound cases, kernels, types of a
// kernel, and series, without duplicates and sets of nearly all or too few cases.
func (m *model) families(common *surface) []family {
	var out []family
	add := func(name string, memory bool, in func(c int) bool) {
		f := family{name: name, memory: memory, in: make([]bool, len(m.cases))}
		for c := range m.cases {
			if f.in[c] = in(c); f.in[c] {
				f.cases++
			}
		}
		if f.cases < leastCases || len(m.cases)-f.cases < leastCases {
			return
		}
		for _, other := range out {
			if slices.Equal(other.in, f.in) {
				return
			}
		}
		out = append(out, f)
	}
	bound := m.memoryBound(common)
	add("cases in which memory binds", true, func(c int) bool { return bound[c] })
	for _, name := range []func(results.SeriesKey) string{
		func(k results.SeriesKey) string { return k.Kernel },
		func(k results.SeriesKey) string { return k.Kernel + " " + k.Operation.String() + " " + string(k.DType) },
		func(k results.SeriesKey) string { return k.TextOfAny() },
	} {
		var names []string
		of := make([]string, len(m.cases))
		for c, key := range m.cases {
			of[c] = name(key.series)
			if !slices.Contains(names, of[c]) && len(names) < mostFamilies {
				names = append(names, of[c])
			}
		}
		for _, n := range names {
			add(n, false, func(c int) bool { return of[c] == n })
		}
	}
	return out
}

const mostFamilies = 64

// A case is memory-bound if it is nearer to the model's highest byte rate than to its highest arithmetic rate
// for the data type.
func (m *model) memoryBound(s *surface) []bool {
	bytes, flops := nans(len(m.cases)), nans(len(m.cases))
	most, mostFlops := math.Inf(-1), map[string]float64{}
	for c, key := range m.cases {
		for g := range s.centre {
			if us := s.centre[g][c]; us == us {
				bytes[c] = math.Log(key.series.Bytes(key.m)) - us
				flops[c] = math.Log(key.series.FLOPs(key.m)) - us
				break
			}
		}
		if bytes[c] == bytes[c] {
			most = math.Max(most, bytes[c])
			kind := string(key.series.DType)
			if top, ok := mostFlops[kind]; !ok || flops[c] > top {
				mostFlops[kind] = flops[c]
			}
		}
	}
	out := make([]bool, len(m.cases))
	for c, key := range m.cases {
		out[c] = bytes[c]-most > flops[c]-mostFlops[string(key.series.DType)]
	}
	return out
}
