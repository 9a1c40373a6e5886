package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// blasScales are the cublasLtMatmulMatrixScale_t of B and A; 0 for operands without vectors or blocks of scales.
type blasScales struct{ b, a int }

const (
	scaleOuter = 3 // of each row or column
	scale128   = 4 // of 128 elements along K
	scaleBlock = 5 // of 128 × 128 elements
)

// scaledProduct is the product of a normalized task with scales for activations. Its weights lie as they are stored.
func scaledProduct(t kernels.Task) blasProduct {
	p := blasProductOf(t, t.K, true)
	p.scales = scalesOf(t)
	return p
}

// scalesOf returns the scales of a task, zero if the library has none like them.
func scalesOf(t kernels.Task) blasScales {
	f := t.Weights
	switch {
	case f.GroupN == 1 && f.GroupK == t.K:
		return blasScales{scaleOuter, scaleOuter}
	case f.GroupK == 128 && f.GroupN == 128:
		return blasScales{scaleBlock, scale128}
	case f.GroupK == 128 && f.GroupN == 1:
		return blasScales{scale128, scale128}
	}
	return blasScales{}
}

// scaledSince is the first version with such scales on compute capability 9.0.
var scaledSince = [2]int{12, 9}

// scaledRefusal returns why a version of the library on a GPU does not take a normalized task with scales, or "".
func scaledRefusal(t kernels.Task, major, minor, cc int) string {
	of, _ := t.ActivationScales()
	switch scales := scalesOf(t); {
	case scales == (blasScales{}):
		return fmt.Sprintf("it has scales of 128, of blocks of 128 × 128, and of whole rows, not %v", t.Weights)
	case cc < 90:
		return fmt.Sprintf("fp8 with such scales needs compute capability 9.0, this GPU has %d.%d", cc/10, cc%10)
	case major < scaledSince[0] || major == scaledSince[0] && minor < scaledSince[1]:
		return fmt.Sprintf("fp8 with such scales needs version %d.%d, this is %d.%d", scaledSince[0], scaledSince[1], major, minor)
	case scales.a == scale128 && t.M%scaleStep != 0:
		return fmt.Sprintf("it takes the scales of A at a distance of M, and M as a multiple of %d: pad %d to %d", scaleStep, t.M,
			up(t.M, scaleStep))
	case scales.a == scale128 && of.LD != t.M:
		return fmt.Sprintf("it takes the scales of A at a distance of M, %d, not %d", t.M, of.LD)
	case scales.b == scale128 && t.N%scaleStep != 0:
		return fmt.Sprintf("it takes the scales of B at a distance of N, and N as a multiple of %d", scaleStep)
	}
	return ""
}

// scaleStep divides the distances of scales: 16 bytes.
const scaleStep = 4

func up(n, to int) int { return (n + to - 1) / to * to }

// laidScales returns the scales of raw weights as the library takes them, and whether they lie so: of blocks in rows along K
// at a multiple of 16 bytes, of 128 elements in rows along N.
func laidScales(t kernels.Task, raw []float32) (laid []float32, same bool) {
	f := t.Weights
	groups, rows := (t.K+f.GroupK-1)/f.GroupK, (t.N+f.GroupN-1)/f.GroupN
	switch scalesOf(t).b {
	case scaleOuter:
		return raw, true
	case scaleBlock:
		ld := up(groups, scaleStep)
		if ld == groups {
			return raw, true
		}
		laid = make([]float32, rows*ld)
		for n := range rows {
			copy(laid[n*ld:], raw[n*groups:][:groups])
		}
		return laid, false
	}
	laid = make([]float32, len(raw))
	for n := range rows {
		for g := range groups {
			laid[g*rows+n] = raw[n*groups+g]
		}
	}
	return laid, groups == 1
}
