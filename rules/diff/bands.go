package diff

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Band compares two kernels of one run over one data type and one range of M.
type Band struct {
	DType kernels.DType `json:"dtype"`
	FromM int           `json:"from_m"`
	ToM   int           `json:"to_m,omitempty"` // 0 without an end
	Cases int           `json:"cases"`
	// Ratio is the geometric mean of B's time over A's.
	Ratio float64 `json:"ratio"`
	// Least is the case whose ratio has the lowest upper bound, Most the one with the highest lower bound.
	Least Case `json:"least"`
	Most  Case `json:"most"`
}

// bandStarts separate the ways kernels behave: bound by latency, by memory, and by tensor cores.
var bandStarts = []int{1, 17, 512}

// bandsOf summarizes cases by data type and range of M, skipping empty ranges.
func bandsOf(cases []Case) []Band {
	var all []Band
	for _, d := range kernels.DTypes() {
		for i, from := range bandStarts {
			to := math.MaxInt
			if i+1 < len(bandStarts) {
				to = bandStarts[i+1] - 1
			}
			of := slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return c.Series.DType != d || c.M < from || c.M > to })
			if len(of) == 0 {
				continue
			}
			b := Band{DType: d, FromM: from, Cases: len(of), Least: of[0], Most: of[0]}
			if to < math.MaxInt {
				b.ToM = to
			}
			logs := 0.0
			for _, c := range of {
				logs += math.Log(c.Ratio.Mid)
				if c.Ratio.Hi < b.Least.Ratio.Hi {
					b.Least = c
				}
				if c.Ratio.Lo > b.Most.Ratio.Lo {
					b.Most = c
				}
			}
			b.Ratio = math.Exp(logs / float64(len(of)))
			all = append(all, b)
		}
	}
	return all
}
