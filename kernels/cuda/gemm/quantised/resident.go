package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// What quantised_resident.cuh fixes.
const (
	residentThreads    = 512
	residentWarpgroups = residentThreads / 128
	residentRows       = 64  // of weights in a unit
	residentBarriers   = 256 // bytes
	residentMostSteps  = 30  // of a part: even, and a barrier for each and one more fit
	residentEarly      = 4   // steps
)

// resident is how the work of quantised_resident.cuh is dealt out: every block has as long a part of K
// and nearly as many units of rows.
type resident struct {
	tile
	bits      int
	steps     int // of K
	parts     int // of K: the blocks of a cluster
	share     int // of the steps of a part
	units     int // of rows
	rowBlocks int // that share them
	early     int // steps that are asked for ahead of the predecessor's end, besides those on the way
}

// most is how many units a block may have.
func (r resident) most() int { return planning.DivideUp(r.units, r.rowBlocks) }

// rounds is how many units a warpgroup has one after the other.
func (r resident) rounds() int { return planning.DivideUp(r.most(), residentWarpgroups) }

// unitSums is how many bytes the sums of a unit take.
func (r resident) unitSums() int { return residentRows * r.tokens * 4 }

// parked is where barriers begin: behind the tokens of all steps, which give way to the sums of all
// parts.
func (r resident) parked() int {
	tokens := r.share * support.RecordK * 2 * r.tokens
	if r.parts == 1 {
		return tokens
	}
	return max(tokens, planning.DivideUp(r.most()*r.unitSums()/narrowSums, r.parts)*r.parts*narrowSums)
}

func (r resident) shared() int {
	bytes := r.parked() + residentBarriers
	if r.parts > 1 {
		bytes += (r.rounds() - 1) * residentWarpgroups * r.unitSums()
	}
	return bytes
}

// residents are the divisions of the work that may be best for p; none where it has too many rows or
// an odd number of steps.
func residents(a planning.Arch, p Problem) []resident {
	r := resident{bits: p.Weights.Bits}
	for _, t := range residentTiles {
		if r.tokens == 0 && p.M <= t.tokens {
			r.tile = t
		}
	}
	r.steps, _ = support.Records(p.N, p.K)
	if !byWgmma(a) || r.tokens == 0 || r.steps%2 != 0 {
		return nil
	}
	r.units = planning.DivideUp(p.N, residentRows)
	var all []resident
	for r.parts = 1; r.parts <= 8; r.parts *= 2 {
		r.share = planning.DivideUp(r.steps, 2*r.parts) * 2
		if r.share > residentMostSteps || (r.parts-1)*r.share >= r.steps {
			continue
		}
		r.rowBlocks = min(r.units, clusters(a, r.parts))
		r.rowBlocks = planning.DivideUp(r.units, r.most()) // as few as have no more to do
		for r.early = 0; r.early <= residentEarly && r.shared() <= a.SharedMax; r.early += residentEarly {
			all = append(all, r)
		}
	}
	return all
}

// The model of times, fitted to an H200's.
const (
	// residentStepCycles is what a multiprocessor takes to make operands of a step of weights of 4 bits.
	residentStepCycles = 450
	// residentStartSeconds is a launch of no tokens, and residentTokenSeconds what each adds to its first
	// loads and last sums.
	residentStartSeconds, residentTokenSeconds = 0.3e-6, 0.084e-6
	// residentChainSeconds is what a warpgroup waits in a step for what it has just started.
	residentChainSeconds = 0.18e-6
	// residentPartSeconds is what blocks take to send each other sums, for each of them.
	residentPartSeconds = 0.35e-6
)

// seconds is what the model expects of one launch.
func (r resident) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6 * mostClockShare
	convert := float64(residentStepCycles)
	if r.bits == 8 {
		convert *= 1.4
	}
	steps := float64(r.share*r.most()) / 2 // of 128 rows
	times := []float64{steps * planning.Norm(stepOverlap, 8*float64(r.tokens), convert) / clock}
	weights := float64(support.RecordsBytes(p.quantised()))
	tokens := float64(r.rowBlocks*r.parts*r.share*support.RecordK*2) * float64(min(p.M, r.tokens))
	times = append(times, (weights+tokens)/(planning.L2PerClock(a)*clock*float64(a.SMs)))
	if a.Bandwidth > 0 {
		times = append(times, weights/(a.Bandwidth*memoryShare))
	}
	t := residentStartSeconds + residentTokenSeconds*float64(r.tokens) + residentChainSeconds*float64(r.rounds()*r.share) + planning.Norm(overlap, times...)
	if r.parts > 1 {
		t += residentPartSeconds * float64(r.parts)
	}
	return t
}

func (r resident) columns() int { return r.most() * residentRows }

// label is "64x448 resident early parts 4": rows and columns of C that a block has, and blocks along K.
func (r resident) label() string {
	return inParts(fmt.Sprintf("%dx%d resident%s", r.tokens, r.columns(), early(r.early)), r.parts)
}

// plan is that of a problem with operands so aligned.
func (r resident) plan(a planning.Arch, p Problem) gemm.Plan {
	slots := max(1, a.SMs/r.parts)
	// TMA takes rows that are 16 bytes aligned.
	return realigned(gemm.Plan{
		Label: r.label(), Stages: r.share, Slots: slots, Seconds: r.seconds(a, p),
		Tiling: kernels.Tiling{
			Tile:  [3]int{r.tokens, r.columns(), support.RecordK},
			Waves: float64(r.rowBlocks) / float64(slots), Split: r.parts,
			Orientation: kernels.OrientationTransposed,
		},
	}, a, p, r.call)
}

// call launches quantised_resident.cuh: struct ResidentParams there.
func (r resident) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	k := planning.Call{
		Kernel: symbol(p, "resident_", r.tile), Shared: r.shared(), Overlap: true,
		Grid: planning.Dim3{X: r.rowBlocks, Y: r.parts}, Block: planning.Dim3{X: residentThreads},
	}
	if r.parts > 1 {
		k.Cluster = planning.Dim3{X: 1, Y: r.parts}
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: r.tokens, BoxCols: 64, Swizzle: 128,
	})
	k.Args.Pointer(at.B).Pointer(at.C).Int64(int64(p.LDC)).Int64(evictFirst).Int32(p.M, p.N, r.steps, r.share)
	k.Args.Int32(r.units/r.rowBlocks, r.units%r.rowBlocks, r.parked(), planning.OneIf(p.Aligned.C >= 4), r.early).Align(64)
	return k
}
