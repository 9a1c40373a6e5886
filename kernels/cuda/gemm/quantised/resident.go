package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Constants of quantised_resident.cuh.
const (
	residentThreads    = 512
	residentWarpgroups = residentThreads / 128
	residentRows       = 64  // of weights in a unit
	residentBarriers   = 256 // bytes
	residentMostSteps  = 30  // of a part: even, and with one barrier more than steps
	residentEarly      = 4   // steps
)

// resident is the division of work of quantised_resident.cuh: blocks have equal parts of K and nearly equal
// numbers of row units.
type resident struct {
	tile
	bits      int
	steps     int // of K
	parts     int // of K: the blocks of a cluster
	share     int // of a part, in steps
	units     int // of rows
	rowBlocks int // that share them
	early     int // steps prefetched before the predecessor ends, besides those in flight
}

func (r resident) most() int { return planning.DivideUp(r.units, r.rowBlocks) }

// rounds returns the sequential units per warpgroup.
func (r resident) rounds() int { return planning.DivideUp(r.most(), residentWarpgroups) }

// unitSums returns the bytes of a unit's sums.
func (r resident) unitSums() int { return residentRows * r.tokens * 4 }

// parked returns the offset of the barriers. They follow the tokens of all steps, whose space the sums of all
// parts reuse.
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

// residents returns the divisions of work that may be best for p, or nil if it has too many rows or an odd
// number of steps.
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
		r.rowBlocks = planning.DivideUp(r.units, r.most()) // as few as keep the maximum load
		for r.early = 0; r.early <= residentEarly && r.shared() <= a.SharedMax; r.early += residentEarly {
			all = append(all, r)
		}
	}
	return all
}

// The time model, fitted to an H200.
const (
	// residentStepCycles is a multiprocessor's cost to convert a step of 4-bit weights.
	residentStepCycles = 450
	// residentStartSeconds is the cost of a launch without tokens, and residentTokenSeconds the cost per
	// token of first loads and last sums.
	residentStartSeconds, residentTokenSeconds = 0.3e-6, 0.084e-6
	// residentChainSeconds is a warpgroup's wait per step for the products it just started.
	residentChainSeconds = 0.18e-6
	// residentPartSeconds is the cost per block to exchange sums.
	residentPartSeconds = 0.35e-6
)

func (r resident) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6 * mostClockShare
	convert := float64(residentStepCycles)
	if r.bits == 8 {
		convert *= 1.4
	}
	steps := float64(r.share*r.most()) / 2 // of 128 rows
	times := []float64{steps * planning.Norm(stepOverlap, 8*float64(r.tokens), convert) / clock}
	weights := float64(support.RecordsBytes(p.Task))
	tokens := float64(r.rowBlocks*r.parts*r.share*support.RecordK*2) * float64(min(p.M, r.tokens))
	times = append(times, (weights+tokens)/(planning.L2PerClock(a)*clock*float64(a.SMs)))
	if a.Bandwidth > 0 {
		times = append(times, weights/(a.Bandwidth*memoryShare))
	}
	t := residentStartSeconds + residentTokenSeconds*float64(r.tokens) + residentChainSeconds*float64(r.rounds()*r.share) +
		planning.Norm(overlap, times...)
	if r.parts > 1 {
		t += residentPartSeconds * float64(r.parts)
	}
	return t
}

func (r resident) columns() int { return r.most() * residentRows }

// label is "64x448 resident early parts 4": rows and columns of C per block, and blocks along K.
func (r resident) label() string {
	return inParts(fmt.Sprintf("%dx%d resident%s", r.tokens, r.columns(), early(r.early)), r.parts)
}

func (r resident) plan(a planning.Arch, p Problem) gemm.Plan {
	plan := partsPlan(a, r.label(), r.seconds(a, p), r.rowBlocks, r.parts)
	// TMA needs rows aligned to 16 bytes.
	plan.Stages, plan.Tiling.Tile = r.share, [3]int{r.tokens, r.columns(), support.RecordK}
	return realigned(plan, a, p, r.call)
}

func (r resident) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	k := partsCall(symbol(p, "resident_", r.tile), r.shared(), residentThreads, r.rowBlocks, r.parts)
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: r.tokens, BoxCols: 64, Swizzle: 128,
	})
	k.Args.Pointer(at.B).Pointer(at.C).Int64(int64(p.LDC)).Int64(evictFirst).Int32(p.M, p.N, r.steps, r.share)
	k.Args.Int32(r.units/r.rowBlocks, r.units%r.rowBlocks, r.parked(), planning.OneIf(p.Aligned.C >= 4), r.early).Align(64)
	return k
}
