package sweep

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

// Earlier sentinels come first, then the kernel with the most cases, then the best times.
func TestSentinelCandidates(t *testing.T) {
	est := NewPredictor(nil)
	var cases []results.Case
	add := func(kernel string, m int) {
		c := simCase(m)
		c.ID, c.Kernel = int64(len(cases)+1), kernel
		cases = append(cases, c)
	}
	add("few", 1520)
	add("many", 1)
	add("many", 1500)
	add("many", 30000)
	add("few", 7)
	for _, c := range []struct {
		served map[int64][]int
		want   []int
	}{
		{nil, []int{1500, 30000, 1, 1520, 7}},
		{map[int64][]int{5: {0, 1}}, []int{7, 1500, 30000, 1, 1520}},
	} {
		for i, got := range sentinelCandidates(cases, est, c.served) {
			if got.M != c.want[i] {
				t.Errorf("served %v: candidate %d is m%d, want m%d", c.served, i, got.M, c.want[i])
			}
		}
	}
}
