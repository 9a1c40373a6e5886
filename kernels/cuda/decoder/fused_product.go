package decoder

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/gemv"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// fusedAddresses are the device addresses of a fused product's operands, 0 if absent.
type fusedAddresses struct {
	b, a, x, weight, c uint64
	ldb                int // in elements
	pitch              int // bytes from a row of A to the next, 0 if there is one
}

// fusedSums is the bytes of a warp's sums in gemv.cuh. fusedMargin is the bytes that a norm needs in addition
// to them and its row.
const fusedSums, fusedMargin = gemv.Most * (gemv.Rows + 4) * 4, 32 + 16

// Constants of fused_ring.cu.
const (
	ringWarps = 8
	ringStep  = ringWarps * 512 // bytes of a row that its warps read at once
	ringSteps = 2               // of a row in a stage, at most
	ringBatch = 64              // pairs of rows whose sums are kept
	ringExtra = ringBatch*2*ringWarps*4 + ringWarps*4
	// ringBytes is the size of a ring. Two blocks per multiprocessor on an H200 have 21 MB in flight; 64 KiB
	// is as fast, 48 KiB is slower, and more delays the norms and sums of neighboring blocks. ringLeast is
	// the minimum number of stages.
	ringBytes, ringLeast = 80 << 10, 4
	// ringBlocks is the number of blocks per multiprocessor.
	ringBlocks = 2
)

type ring struct {
	stages int
	// A block lets dependents start when early fetches remain. It is all of them, because blocks of the next
	// kernel need the room of a finished one.
	early int
	// blocks per multiprocessor
	blocks int
}

func fusedReason(a planning.Arch, p kernels.FusedProduct) string {
	switch p.DType {
	case kernels.FP32, kernels.FP16, kernels.BF16:
	default:
		return fmt.Sprintf("fused products are of fp32, fp16 and bf16, not %s", p.DType)
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > (math.MaxInt32-4096)/p.DType.Size() {
		return fmt.Sprintf("a row of K %d is beyond 2 GiB", p.K)
	}
	if need := fusedShared(p, 4); p.Norm && need > a.SharedMax {
		return fmt.Sprintf("a norm of K %d takes %d bytes of shared memory, a block has %d", p.K, need, a.SharedMax)
	}
	return ""
}

func checkEpsilon(epsilon float64) error {
	if epsilon >= 0 {
		return nil
	}
	return fmt.Errorf("epsilon is %v: expected at least 0", epsilon)
}

// notFused wraps [fusedReason] for a message that already names the product.
type notFused struct{ *kernels.Unsupported }

func (e notFused) Error() string { return e.Reason }

func (e notFused) Unwrap() error { return e.Unsupported }

func fusedShared(p kernels.FusedProduct, warps int) int {
	shared := warps * fusedSums
	if p.Norm {
		shared += fusedMargin + support.PackedLDB(p.DType, p.K)*p.DType.Size()
	}
	return shared
}

// A tile of a gated unit has eight gate rows and their eight up rows.
func fusedTiles(p kernels.FusedProduct) int {
	if p.Gated {
		return planning.DivideUp(p.N/2, gemv.Rows/2)
	}
	return planning.DivideUp(p.N, gemv.Rows)
}

// ringFor configures fused_ring.cu for p; ok is false if it does not support p.
func ringFor(a planning.Arch, p kernels.FusedProduct) (r ring, ok bool) {
	if a.CC != 90 || p.DType.Size() != 2 {
		return ring{}, false
	}
	row := planning.DivideUp(support.PackedLDB(p.DType, p.K)*p.DType.Size(), ringStep) * ringStep
	r = ring{stages: ringBytes / (2 * min(row, ringSteps*ringStep)), early: math.MaxInt32, blocks: ringBlocks}
	for share := (a.SharedMax+1024)/r.blocks - 1024; r.stages >= ringLeast && ringShared(p, r.stages) > share; r.stages-- {
	}
	return r, r.stages >= ringLeast
}

func ringShared(p kernels.FusedProduct, stages int) int {
	row := planning.DivideUp(support.PackedLDB(p.DType, p.K)*p.DType.Size(), ringStep) * ringStep
	return stages*(2*min(row, ringSteps*ringStep)+16) + row + ringExtra
}

func ringPairs(p kernels.FusedProduct) int { return planning.DivideUp(p.N, 2) }

func (r ring) call(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) planning.Call {
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_fused_ring_%s", p.DType),
		Grid:   planning.Dim3{X: min(r.blocks*a.SMs, ringPairs(p))}, Block: planning.Dim3{X: 32 * (ringWarps + 1)},
		Shared: ringShared(p, r.stages), Overlap: true,
	}
	k.Args = fusedArgs(p, at, r)
	return k
}

// fusedWarps returns the warps per tile of fused_product.cu: eight, or fewer if K is short or the row is too
// long for shared memory.
func fusedWarps(a planning.Arch, p kernels.FusedProduct) int {
	steps := planning.DivideUp(p.K*p.DType.Size(), gemv.Step)
	for _, warps := range []int{8, 6} {
		if steps >= warps && fusedShared(p, warps) <= a.SharedMax {
			return warps
		}
	}
	return 4
}

func fusedCall(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) planning.Call {
	warps := fusedWarps(a, p)
	norm := ""
	if p.Norm {
		norm = "norm_"
	}
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_fused_%s%s", norm, p.DType),
		Grid:   planning.Dim3{X: fusedTiles(p)}, Block: planning.Dim3{X: 32 * warps},
		Shared: fusedShared(p, warps), Overlap: a.Overlaps(),
	}
	k.Args = fusedArgs(p, at, ring{})
	return k
}

func fusedArgs(p kernels.FusedProduct, at fusedAddresses, r ring) planning.Args {
	half := 0
	if p.Gated {
		half = p.N / 2
	}
	aligned := at.a%16 == 0 && at.pitch%16 == 0
	if p.Norm {
		aligned = at.x%16 == 0 && at.weight%uint64(4*p.DType.Size()) == 0 && p.K%4 == 0
	}
	var out planning.Args
	out.Pointer(at.b).Pointer(at.a).Pointer(at.x).Pointer(at.weight).Pointer(at.c).Int64(int64(at.ldb))
	out.Int32(int(int32(math.Float32bits(float32(p.Epsilon)))))
	out.Int32(p.N, p.K, half, planning.OneIf(aligned), r.stages, r.early)
	return out
}

func fusedPlan(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (c planning.Call, label string) {
	if r, ok := ringFor(a, p); ok {
		return r.call(a, p, at), fmt.Sprintf("ring of %d stages", r.stages)
	}
	return fusedCall(a, p, at), fmt.Sprintf("%d warps", fusedWarps(a, p))
}
