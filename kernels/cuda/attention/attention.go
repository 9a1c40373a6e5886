// Package attention plans attention and binds it on a device. It has kernels for one decode row, for many
// rows on tensor cores, and a plain one for everything else.
package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Problem is the part of [kernels.Attention] that plans depend on: everything but addresses.
type Problem struct {
	rows     int
	heads    kernels.Heads
	DType    kernels.DType
	window   int // 0 for none
	scale    float64
	LDQ      int
	length   int // upper bound of the last row's position, plus one
	capacity int // of the cache
	// aligned is the largest power of two, at most 16, that divides the byte addresses of queries, keys,
	// values and output and the row stride of queries.
	aligned int
}

// Addresses are the device addresses of an attention's operands.
type Addresses struct {
	q, keys, values, out, position uint64
	scratch, Flags                 uint64
}

type (
	attentionFamily = planning.Family[Problem, Addresses]
	attentionPlan   = planning.Plan[Addresses]
)

var attentionFamilies = []attentionFamily{Decode{}, flash{}, naive{}}

// Families returns the kernels of the ladder, the best first.
func Families() []planning.Family[Problem, Addresses] { return slices.Clone(attentionFamilies) }

// NewProblem checks the sizes of an attention; the error names the first invalid one.
func NewProblem(o kernels.Attention) (Problem, error) {
	p := Problem{
		rows: o.Rows, heads: o.Heads, DType: o.DType, window: o.Window, scale: o.Scale,
		LDQ: o.LDQ, length: o.Length, capacity: o.Cache.Capacity, aligned: 16,
	}
	if err := o.Heads.Validate(); err != nil {
		return p, err
	}
	width := float64(o.Heads.Query) * float64(o.Heads.Dim)
	switch {
	case o.Rows < 1:
		return p, fmt.Errorf("rows: %d, expected at least 1", o.Rows)
	case o.DType != kernels.FP32 && o.DType != kernels.FP16 && o.DType != kernels.BF16:
		return p, fmt.Errorf("dtype: %q, expected fp32, fp16 or bf16", o.DType)
	case o.Window < 0:
		return p, fmt.Errorf("window: %d, expected 0 for none or at least 1", o.Window)
	case !(o.Scale > 0) || float32(o.Scale) == 0 || math.IsInf(float64(float32(o.Scale)), 0):
		return p, fmt.Errorf("scale: %v, expected a positive number that fp32 holds", o.Scale)
	case float64(o.LDQ) < width:
		return p, fmt.Errorf("ldq: %d, expected at least the queries' %.0f columns", o.LDQ, width)
	case o.Length < o.Rows:
		return p, fmt.Errorf("length: %d, expected at least the %d rows", o.Length, o.Rows)
	case o.Cache.Capacity < 1 || o.Cache.Capacity%kernels.CacheGranule != 0:
		return p, fmt.Errorf("cache: capacity %d, expected a multiple of %d", o.Cache.Capacity, kernels.CacheGranule)
	case max(o.Rows, o.Length, o.LDQ, o.Cache.Capacity) > planning.LargestExtent || width > planning.LargestExtent:
		return p, fmt.Errorf("an extent is beyond %d", planning.LargestExtent)
	}
	if need := o.Rows + p.before(); need > o.Cache.Capacity {
		return p, fmt.Errorf("cache: capacity %d, expected at least %d: %d rows and the %d positions before them that the first one sees",
			o.Cache.Capacity, need, o.Rows, p.before())
	}
	return p, nil
}

// before returns how many earlier positions the first row attends to, at most.
func (p Problem) before() int {
	n := p.length - p.rows
	if p.window > 0 {
		n = min(n, p.window-1)
	}
	return n
}

// width returns how many keys a row attends to, at most.
func (p Problem) width() int {
	if p.window > 0 {
		return min(p.length, p.window)
	}
	return p.length
}

// pairs returns the number of pairs of a row and a key in one head, as far as the host knows the position.
func (p Problem) pairs() float64 {
	first, last := float64(p.length-p.rows+1), float64(p.length) // keys per row without a window
	w := float64(p.width())
	if w >= last {
		return (first + last) / 2 * float64(p.rows)
	}
	if w <= first {
		return w * float64(p.rows)
	}
	return (first+w-1)/2*(w-first) + w*(last-w+1)
}

// flops counts operations: two products of Dim for each pair of a row and a key.
func (p Problem) flops() float64 {
	return 4 * p.pairs() * float64(p.heads.Query) * float64(p.heads.Dim)
}

// bytes returns the minimum traffic: queries, output and the visible cache, once each.
func (p Problem) bytes() float64 {
	seen := float64(p.rows + p.before())
	return float64(p.DType.Size()) * float64(p.heads.Dim) * (2*float64(p.rows)*float64(p.heads.Query) + 2*seen*float64(p.heads.KV))
}

func (p Problem) memorySeconds(a planning.Arch) float64 {
	if a.Bandwidth <= 0 {
		return 0
	}
	return p.bytes() / (a.Bandwidth * models.For(a.CC, a.SMs, a.Bandwidth).Memory)
}

type model struct {
	// Memory is the reachable fraction of data-sheet bandwidth.
	Memory float64 `constant:"memory" unit:"1"`
}

var models = calibration.Of[model]("attention")
