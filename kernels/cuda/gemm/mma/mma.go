// Package mma plans products on tensor cores by mma.sync, and by the WMMA API, on every GPU with tensor
// cores.
package mma

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Family is mma.cu: ldmatrix and mma.sync, with cp.async stages from Ampere on, and two stages through
// registers on Turing.
type Family struct{}

// Name implements [planning.Family].
func (Family) Name() string { return "mma" }

// Describe implements [planning.Family].
func (Family) Describe(a planning.Arch) string {
	stages := "cp.async stages"
	if a.CC < 80 {
		stages = "two stages by way of registers"
	}
	return fmt.Sprintf("mma.sync on tensor cores, %d tiles, %s, swizzled shared memory, split-K", len(mmaTiles(a)), stages)
}

// Supports implements [planning.Family].
func (Family) Supports(a planning.Arch, p gemm.Problem) string {
	switch {
	case p.DType == kernels.FP32:
		return "tensor cores don't multiply fp32; their format of it is tf32"
	case p.Epilogue != 0 && (a.CC < 80 || p.DType.Size() != 2):
		return "its kernels with epilogues are for fp16 and bf16, from compute capability 8.0 on"
	case p.Epilogue.IsGated():
		return "a thread has the sums of a gate or of what it multiplies, not of both"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > planning.LargestExtent/p.DType.Size() {
		return fmt.Sprintf("a row of K %d has more than %d bytes", p.K, planning.LargestExtent)
	}
	return planning.SizeReason(p.Task, 128, 256)
}

type mmaTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int // the warps that share them
	row            int // bytes of K in a stage
	stages         int
	perSM          int // resident blocks per SM
}

// mmaTiles returns the tiles in the image for a GPU, which depend on the shared memory of an SM. PTX, for
// future GPUs, has the smallest ones.
func mmaTiles(a planning.Arch) []mmaTile {
	switch a.CC {
	case 75:
		return mmaTiles75
	case 80:
		return mmaTiles80
	case 90:
		return mmaTiles90
	}
	return mmaTilesSmall
}

func (t mmaTile) symbol(p kernels.Task) string {
	epilogue := ""
	if p.Epilogue != 0 {
		epilogue = "epilogue_"
	}
	return fmt.Sprintf("ga_mma_%s%s_%dx%d_s%d", epilogue, p.DType, t.m, t.n, t.stages)
}

func (t mmaTile) threads() int    { return t.warpsM * t.warpsN * 32 }
func (t mmaTile) stageBytes() int { return (t.m + t.n) * t.row }
func (t mmaTile) shared() int     { return t.stages * t.stageBytes() }

var mmaSplits = []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64}

type mmaChoice struct {
	mmaTile
	tilesM, tilesN int
	splits, steps  int // ranges of K, and steps of a range
}

func (c mmaChoice) blocks() int { return c.tilesM * c.tilesN * c.splits }

func (Family) choices(a planning.Arch, p kernels.Task) []mmaChoice {
	var out []mmaChoice
	tiles := mmaTiles(a)
	if p.Epilogue != 0 {
		tiles = mmaTilesEpilogue // for all GPUs
	}
	for _, t := range tiles {
		tilesM, tilesN := planning.DivideUp(p.M, t.m), planning.DivideUp(p.N, t.n)
		if int64(tilesM)*int64(tilesN) > math.MaxInt32 {
			continue
		}
		all := planning.DivideUp(p.K*p.DType.Size(), t.row)
		for _, s := range mmaSplits {
			// More ranges would wait for an SM, or have too little work.
			if s > 1 && (tilesM*tilesN*s > 2*a.SMs*t.perSM || all < 2*s) {
				break
			}
			c := mmaChoice{mmaTile: t, tilesM: tilesM, tilesN: tilesN, steps: planning.DivideUp(all, s)}
			c.splits = planning.DivideUp(all, c.steps)
			if n := len(out); n == 0 || out[n-1] != c { // another number of ranges may round to the same
				out = append(out, c)
			}
		}
	}
	return out
}

func (f Family) choose(a planning.Arch, p kernels.Task) (best mmaChoice, seconds float64) {
	seconds = math.Inf(1)
	for _, c := range f.choices(a, p) {
		if this := c.seconds(a, p); this < seconds {
			best, seconds = c, this
		}
	}
	return best, seconds
}

// model has the constants of mma.cu's and wmma.cu's time models. Between architectures only the rates of
// tensor cores and L2 differ.
type model struct {
	// Clock is the fraction of the highest clock under this load, and Memory the reached fraction of
	// bandwidth.
	Clock  float64 `constant:"clock" unit:"1"`
	Memory float64 `constant:"memory" unit:"1"`
	// SharedBytes is the shared-memory bandwidth of an SM, and ReduceBytes the L2 bandwidth of a lone SM.
	SharedBytes float64 `constant:"shared_bytes" unit:"B/cycle"`
	ReduceBytes float64 `constant:"reduce_bytes" unit:"B/cycle"`
	// Latency is the time from cp.async to its data under load; on 7.5 from a load to its data.
	Latency float64 `constant:"latency" unit:"cycles"`
	// Launch is the cost of a launch in a graph. Edge is a block's cost to fill its stages and store its
	// tile, for which the next wave waits. Reduce is the cost to find the last block.
	Launch float64 `constant:"launch" unit:"cycles"`
	Edge   float64 `constant:"edge" unit:"cycles"`
	Reduce float64 `constant:"reduce" unit:"cycles"`
	// Overlap is the p of the p-norm of the resources' times. They overlap less the closer they are; equal
	// times overlap all but 15 %.
	Overlap float64 `constant:"overlap" unit:"1"`
}

var models = calibration.Of[model]("mma")

// unitClocks returns a block's multiply clocks for 32 bytes of K. From 9.0 on, mma.sync lacks fp8, and mma.cu
// multiplies twice as many fp16. Each warp converts its fragments first, while other resident warps of its
// scheduler may multiply.
func (c mmaChoice) unitClocks(a planning.Arch, d kernels.DType, resident int) float64 {
	clocks := float64(c.m/16*c.n/8) * planning.TensorClocks(a, d)
	if d == kernels.FP8 && a.CC >= 90 {
		const clocksWiden = 2
		widened := 2 * (c.m/c.warpsM/16*4 + c.n/c.warpsN/8*2) // registers of a warp
		schedulerWarps := c.warpsM * c.warpsN * resident / 4
		clocks = 2*clocks + clocksWiden*float64(widened)/float64(schedulerWarps)
	}
	return clocks
}

// L2Bytes returns the L2 bandwidth per SM in bytes per clock.
func L2Bytes(a planning.Arch) float64 {
	switch {
	case a.CC >= 90 && a.CC < 120:
		return 56
	case a.CC == 80:
		return 40
	}
	return 20
}

// seconds returns the modeled time of a launch from five resources: tensor cores, shared memory and copy
// latency on the busiest SM, L2, and memory.
func (c mmaChoice) seconds(a planning.Arch, p kernels.Task) float64 {
	m := models.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	rounds := planning.DivideUp(c.blocks(), a.SMs)
	resident := min(rounds, c.perSM)
	units := float64(c.steps * c.row / 32) // of a block, 32 bytes of K each
	loaded := units * float64((c.m+c.n)*32)
	read := units * float64((c.m*c.warpsN+c.n*c.warpsM)*32)
	perSM := float64(rounds)

	multiply := perSM * units * c.unitClocks(a, p.DType, resident) / clock
	shared := perSM * (loaded + read) / m.SharedBytes / clock
	latency := perSM * loaded / float64(resident*(c.stages-1)*c.stageBytes()) * m.Latency / clock
	l2 := float64(c.blocks()) / float64(a.SMs) * loaded / L2Bytes(a) / clock
	memory := 0.0
	if a.Bandwidth > 0 {
		memory = p.Shape().Bytes(p.DType) / (a.Bandwidth * m.Memory)
	}
	t := planning.Norm(m.Overlap, multiply, shared, latency, l2,
		memory) + (m.Launch+float64(planning.DivideUp(rounds, c.perSM)-1)*m.Edge)/clock
	if c.splits > 1 {
		// The last block writes its sum and reads the others.
		t += (m.Reduce + float64((c.splits+1)*c.m*c.n*4)/m.ReduceBytes) / clock
	}
	return t
}

// group returns the tile rows walked together. The resident area is then about square, which minimizes
// traffic of A and B.
func (c mmaChoice) group(a planning.Arch) int {
	high := math.Sqrt(float64(a.SMs*c.perSM) * float64(c.n) / float64(c.m))
	return min(c.tilesM, max(1, int(math.Round(high))))
}

// label is "128x256x32 stages 4 splits 2": outputs and K of a stage.
func (c mmaChoice) label(d kernels.DType) string {
	s := fmt.Sprintf("%dx%dx%d stages %d", c.m, c.n, c.row/d.Size(), c.stages)
	if c.splits > 1 {
		s += fmt.Sprintf(" splits %d", c.splits)
	}
	return s
}

func (c mmaChoice) tiling(a planning.Arch, d kernels.DType) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{c.m, c.n, c.row / d.Size()}, Waves: planning.Waves(a, c.blocks(), c.perSM), Split: c.splits}
}

// Plan implements [planning.Family].
func (f Family) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	c, seconds := f.choose(a, p.Task)
	return c.plan(a, p, seconds)
}

// Candidates implements [planning.Chooser].
func (f Family) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, c := range f.choices(a, p.Task) {
		plans = append(plans, c.plan(a, p, c.seconds(a, p.Task)))
	}
	return plans
}

func (c mmaChoice) plan(a planning.Arch, p gemm.Problem, seconds float64) gemm.Plan {
	size := int64(p.DType.Size())
	rowBytes := int64(support.PackedLDB(p.DType, p.K)) * size
	// cp.async copies 16 bytes; an A with unaligned rows is copied first.
	rows := gemm.Realign(p.Task, p.Aligned.A < 16 || int64(p.K)*size != rowBytes)
	seconds += rows.Seconds(a)
	plan := gemm.Plan{
		Label: c.label(p.DType), Tiling: c.tiling(a, p.DType), Stages: c.stages, Slots: c.perSM * a.SMs,
		Seconds: seconds, Scratch: rows.Copied,
	}
	if c.splits > 1 {
		plan.Scratch += int64(c.blocks()) * int64(c.m*c.n*4)
		plan.Flags = int64(c.tilesM*c.tilesN) * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		k := planning.Call{
			Kernel: c.symbol(p.Task),
			Grid:   planning.Dim3{X: c.blocks()},
			Block:  planning.Dim3{X: c.threads()},
			Shared: c.shared(),
		}
		k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Pointer(at.Scratch).Pointer(at.Flags)
		k.Args.Int64(int64(lda) * size).Int64(int64(at.LDB) * size).Int64(int64(p.LDC))
		k.Args.Int32(p.M, p.N, int(rowBytes), c.tilesM, c.tilesN, c.group(a), c.splits, c.steps, planning.OneIf(p.Aligned.C >= 16))
		if p.Epilogue != 0 {
			support.AppendEpilogue(&k.Args, p.Epilogue, at.Bias, at.Residual, p.N*p.DType.Size())
		}
		return append(calls, k)
	}
	return plan
}
