// Package reach compares our kernels with the vendor's libraries. It has the list of products, the sample
// file, and the table of speedups. It needs no GPU; BenchmarkReach in kernels/cuda measures.
//
// # Products
//
// Four named shapes from a model of 7 billion parameters run at every M to 64, by 8 to 1024, by 64 to 8192,
// and at 16384 and 32768. Drawn shapes have N and K uniform in 512 … 16384 by 64, each at 24 M that are
// log-uniform in 1 … 32768, odd ones included. Both sets run in bf16 and fp16. The named shapes also run in
// int8 and fp8, at M from 1024 to 16384. The seed of the draw is the date of the commit, so kernels can't be
// tuned to it.
//
// # Comparison
//
// Our kernels read weights with K contiguous; weights in the other layout are converted once. One time of
// ours is therefore compared with the library's times in both layouts. The peer is the faster of cublasGemmEx
// and the first choice of cuBLASLt's heuristic for each product; for 8 bits it is cuBLASLt. Peers with
// different arithmetic, and other launch modes of ours, have separate rows, which do not count toward goals.
package reach

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Set is the origin of a shape.
type Set string

// The sets of shapes.
const (
	Named Set = "named"
	Drawn Set = "drawn"
)

// Series is a kernel or library and its launch mode.
type Series string

// The series of a product. Weights are stored as [N,K] unless the name has another layout.
const (
	Auto      Series = "auto"
	Serial    Series = "auto, no overlap" // each launch begins after the previous one ends
	Blas      Series = "cublas"
	BlasKN    Series = "cublas kn"
	BlasLt    Series = "cublaslt"
	BlasLtKN  Series = "cublaslt kn"
	BlasLtFP8 Series = "cublaslt, fast accumulation" // partial sums stay in the tensor core, as with our wgmma
)

// Product is one product; all its series are measured together.
type Product struct {
	DType kernels.DType `json:"dtype"`
	N     int           `json:"n"`
	K     int           `json:"k"`
	M     int           `json:"m"`
	Set   Set           `json:"set"`
}

// String returns a product's name: "bf16 m64 n4096 k4096".
func (p Product) String() string { return fmt.Sprintf("%s m%d n%d k%d", p.DType, p.M, p.N, p.K) }

// FLOPs counts an addition and a multiplication as two operations.
func (p Product) FLOPs() float64 { return 2 * float64(p.M) * float64(p.N) * float64(p.K) }

// bytes returns the minimum memory traffic.
func (p Product) bytes() float64 {
	m, n, k := float64(p.M), float64(p.N), float64(p.K)
	return (m*k+n*k)*float64(p.DType.Size()) + m*n*float64(p.DType.Output().Size())
}

const (
	drawnShapes = 60
	drawnMs     = 24 // of each shape
	leastSide   = 512
	mostSide    = 16384
	sideStep    = 64
	mostM       = 32768
	// serialBelow is the M below which launches without overlap are measured. Longer launches gain little
	// from overlap.
	serialBelow = 512
)

var namedShapes = [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}}

func namedMs() []int {
	var ms []int
	for _, part := range []struct{ from, to, by int }{{1, 64, 1}, {72, 1024, 8}, {1088, 8192, 64}, {16384, mostM, 16384}} {
		for m := part.from; m <= part.to; m += part.by {
			ms = append(ms, m)
		}
	}
	return ms
}

// Products lists all products in a fixed order.
func Products(seed uint64) []Product {
	var all []Product
	halves := []kernels.DType{kernels.BF16, kernels.FP16}
	add := func(set Set, types []kernels.DType, shape [2]int, ms []int) {
		for _, t := range types {
			for _, m := range ms {
				all = append(all, Product{DType: t, N: shape[0], K: shape[1], M: m, Set: set})
			}
		}
	}
	named := namedMs()
	var large []int // of 8 bits
	for _, m := range named {
		if m >= 1024 && m <= 16384 {
			large = append(large, m)
		}
	}
	for _, shape := range namedShapes {
		add(Named, halves, shape, named)
		add(Named, []kernels.DType{kernels.INT8, kernels.FP8}, shape, large)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	side := func() int { return leastSide + sideStep*rng.IntN((mostSide-leastSide)/sideStep+1) }
	seen := slices.Clone(namedShapes)
	for len(seen) < len(namedShapes)+drawnShapes {
		shape := [2]int{side(), side()}
		if slices.Contains(seen, shape) {
			continue
		}
		seen = append(seen, shape)
		var ms []int
		for len(ms) < drawnMs {
			m := int(math.Exp(rng.Float64() * math.Log(mostM+1)))
			if !slices.Contains(ms, m) {
				ms = append(ms, m)
			}
		}
		slices.Sort(ms)
		add(Drawn, halves, shape, ms)
	}
	return all
}

// Job is a product and its measured series.
type Job struct {
	Product
	Series []Series
}

// decisive returns the series that goals apply to.
func decisive(t kernels.DType) []Series {
	switch t {
	case kernels.INT8:
		return []Series{Auto, BlasLt}
	case kernels.FP8:
		return []Series{Auto, BlasLtFP8}
	}
	return []Series{Auto, Blas, BlasLt}
}

// printed returns the informational series.
func printed(p Product) []Series {
	switch {
	case p.DType == kernels.INT8:
		return nil
	case p.DType == kernels.FP8:
		return []Series{BlasLt}
	case p.M < serialBelow:
		return []Series{BlasKN, BlasLtKN, Serial}
	}
	return []Series{BlasKN, BlasLtKN}
}
