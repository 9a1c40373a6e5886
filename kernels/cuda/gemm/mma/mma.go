// Package mma plans products on tensor cores by mma.sync, and through the WMMA API, on every GPU
// that has them.
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

// Family is mma.cu: ldmatrix and mma.sync, with cp.async stages on every GPU from Ampere on, and on
// Turing with two that registers bring in.
type Family struct{}

// Name is the name by which the kernel is selected.
func (Family) Name() string { return "mma" }

// Describe is one line for people.
func (Family) Describe(a planning.Arch) string {
	stages := "cp.async stages"
	if a.CC < 80 {
		stages = "two stages by way of registers"
	}
	return fmt.Sprintf("mma.sync on tensor cores, %d tiles, %s, swizzled shared memory, split-K", len(mmaTiles(a)), stages)
}

// Supports returns why p can't run on a, empty when it can.
func (Family) Supports(a planning.Arch, p gemm.Problem) string {
	if p.DType == kernels.FP32 {
		return "tensor cores don't multiply fp32; their format of it is tf32"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > planning.LargestExtent/p.DType.Size() {
		return fmt.Sprintf("a row of K %d has more than %d bytes", p.K, planning.LargestExtent)
	}
	return planning.SizeReason(p.Problem, 128, 256)
}

// mmaTile is one tile shape that mma.cu was built in.
type mmaTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int // by which warps they are divided
	row            int // bytes of K in a stage
	stages         int
	perSM          int // blocks that an SM runs at a time
}

// mmaTiles are the tiles in the image that a GPU loads, which differ by the shared
// memory of an SM. PTX, for GPUs to come, has those for the least.
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

// symbol is the kernel of a type.
func (t mmaTile) symbol(d kernels.DType) string {
	return fmt.Sprintf("ga_mma_%s_%dx%d_s%d", d, t.m, t.n, t.stages)
}

func (t mmaTile) threads() int    { return t.warpsM * t.warpsN * 32 }
func (t mmaTile) stageBytes() int { return (t.m + t.n) * t.row }
func (t mmaTile) shared() int     { return t.stages * t.stageBytes() }

// mmaSplits are the numbers of ranges that K is tried to be divided into.
var mmaSplits = []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64}

// mmaChoice is a tile and a division of K.
type mmaChoice struct {
	mmaTile
	tilesM, tilesN int
	splits, steps  int // ranges of K, and steps of a range
}

func (c mmaChoice) blocks() int { return c.tilesM * c.tilesN * c.splits }

// choices are every tile with every useful division of K.
func (Family) choices(a planning.Arch, p kernels.Problem) []mmaChoice {
	var out []mmaChoice
	for _, t := range mmaTiles(a) {
		tilesM, tilesN := planning.DivideUp(p.M, t.m), planning.DivideUp(p.N, t.n)
		if int64(tilesM)*int64(tilesN) > math.MaxInt32 {
			continue
		}
		all := planning.DivideUp(p.K*p.DType.Size(), t.row)
		for _, s := range mmaSplits {
			// Further ranges would wait for an SM, or have too little to do.
			if s > 1 && (tilesM*tilesN*s > 2*a.SMs*t.perSM || all < 2*s) {
				break
			}
			c := mmaChoice{mmaTile: t, tilesM: tilesM, tilesN: tilesN, steps: planning.DivideUp(all, s)}
			c.splits = planning.DivideUp(all, c.steps)
			out = append(out, c)
		}
	}
	return out
}

// choose is the choice of least expected time.
func (f Family) choose(a planning.Arch, p kernels.Problem) (best mmaChoice, seconds float64) {
	seconds = math.Inf(1)
	for _, c := range f.choices(a, p) {
		if this := c.seconds(a, p); this < seconds {
			best, seconds = c, this
		}
	}
	return best, seconds
}

// model is the constants of mma.cu's and wmma.cu's times. Between architectures only the
// rates of tensor cores and of L2 differ.
type model struct {
	// Clock is the part of the highest clock that a card holds under this load, and
	// Memory the part of its bandwidth that is reached.
	Clock  float64 `constant:"clock" unit:"1"`
	Memory float64 `constant:"memory" unit:"1"`
	// SharedBytes is what the shared memory of an SM moves in a clock, and
	// ReduceBytes what one SM alone gets of L2.
	SharedBytes float64 `constant:"shared_bytes" unit:"B/cycle"`
	ReduceBytes float64 `constant:"reduce_bytes" unit:"B/cycle"`
	// Latency is the time from cp.async to data, under load; on 7.5 from a load to its data.
	Latency float64 `constant:"latency" unit:"cycles"`
	// Launch is a launch inside of a graph. Edge is what a block takes to fill its
	// stages and to store its tile, for which the next wave waits. Reduce is what it
	// takes to find out which block is last.
	Launch float64 `constant:"launch" unit:"cycles"`
	Edge   float64 `constant:"edge" unit:"cycles"`
	Reduce float64 `constant:"reduce" unit:"cycles"`
	// Overlap is the p of the p-norm of the resources' times: they overlap, but the
	// nearer two are to each other, the less (equal ones by all but 15 %).
	Overlap float64 `constant:"overlap" unit:"1"`
}

var models = calibration.Of[model]("mma")

// unitClocks is the clocks for which a block multiplies 32 bytes of K. From 9.0 on, where
// mma.sync has no fp8, mma.cu multiplies it as twice as many fp16, which each warp first
// makes of its fragments, while others of the same scheduler may multiply: those of the
// resident blocks of the SM.
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

// L2Bytes is what the L2 of a GPU delivers in a clock, for each SM.
func L2Bytes(a planning.Arch) float64 {
	switch {
	case a.CC >= 90 && a.CC < 120:
		return 56
	case a.CC == 80:
		return 40
	}
	return 20
}

// seconds is what the model expects of one launch. Five resources are each in use for
// some time: tensor cores, shared memory and the latency of copies on the SM with the
// most blocks, L2, and memory.
func (c mmaChoice) seconds(a planning.Arch, p kernels.Problem) float64 {
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
		memory = p.Shape.Bytes(p.DType) / (a.Bandwidth * m.Memory)
	}
	t := planning.Norm(m.Overlap, multiply, shared, latency, l2, memory) + (m.Launch+float64(planning.DivideUp(rounds, c.perSM)-1)*m.Edge)/clock
	if c.splits > 1 {
		// The last block writes its sum and reads those of all.
		t += (m.Reduce + float64((c.splits+1)*c.m*c.n*4)/m.ReduceBytes) / clock
	}
	return t
}

// group is how many tile rows are walked together: as many as make the area that runs
// at a time as high as it is wide, so that it needs the least of A and B.
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

// tiling is what the label says, in numbers.
func (c mmaChoice) tiling(a planning.Arch, d kernels.DType) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{c.m, c.n, c.row / d.Size()}, Waves: planning.Waves(a, c.blocks(), c.perSM), Split: c.splits}
}

// Plan decides how p, which is supported, runs on a.
func (f Family) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	c, seconds := f.choose(a, p.Problem)
	return c.plan(a, p, seconds)
}

// Candidates are the plans of all choices.
func (f Family) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, c := range f.choices(a, p.Problem) {
		plans = append(plans, c.plan(a, p, c.seconds(a, p.Problem)))
	}
	return plans
}

// plan is the launch of a choice, which takes seconds.
func (c mmaChoice) plan(a planning.Arch, p gemm.Problem, seconds float64) gemm.Plan {
	size := int64(p.DType.Size())
	rowBytes := int64(support.PackedLDB(p.DType, p.K)) * size
	// cp.async takes 16 bytes at a time: A with other rows is copied first.
	rows := gemm.Realign(p.Problem, p.Aligned.A < 16 || int64(p.K)*size != rowBytes)
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
			Kernel: c.symbol(p.DType),
			Grid:   planning.Dim3{X: c.blocks()},
			Block:  planning.Dim3{X: c.threads()},
			Shared: c.shared(),
		}
		k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Pointer(at.Scratch).Pointer(at.Flags)
		k.Args.Int64(int64(lda) * size).Int64(int64(at.LDB) * size).Int64(int64(p.LDC))
		k.Args.Int32(p.M, p.N, int(rowBytes), c.tilesM, c.tilesN, c.group(a), c.splits, c.steps, planning.OneIf(p.Aligned.C >= 16))
		return append(calls, k)
	}
	return plan
}
