package sweep

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// off holds the ratios of measured to predicted times. A library without instructions for a type may need ten
// times what its peak suggests, but little more if memory-bound.
type off map[offKey][]offAt

type offKey struct {
	kernel string
	dtype  kernels.DType
}

type offAt struct {
	m      int
	factor float64
}

// off depends only on the samples, so a resumed sweep plans the same.
func (p *part) off(samples []results.Sample) off {
	last := map[int]float64{} // by station
	for _, s := range samples {
		if i, ok := p.index[s.CaseID]; ok {
			last[i] = s.US / 1e6
		}
	}
	out := off{}
	for i, c := range p.cases { // in order: the first of equally near Ms counts
		if seconds, ok := last[i]; ok && seconds > 0 {
			key := offKey{c.Kernel, c.DType}
			out[key] = append(out[key], offAt{c.M, seconds / p.r.est.Launch(c)})
		}
	}
	return out
}

// factor is the ratio at the nearest M of the same kernel and data type, else 1.
func (o off) factor(c results.Case) float64 {
	best, factor := math.Inf(1), 1.
	for _, at := range o[offKey{c.Kernel, c.DType}] {
		if far := math.Abs(math.Log(float64(at.m) / float64(c.M))); far < best {
			best, factor = far, at.factor
		}
	}
	return factor
}
