package mma

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// WMMA is wmma.cu: tensor cores through the WMMA API.
type WMMA struct{}

type wmmaTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int
	perSM          int // resident blocks per multiprocessor
	turing         int // the same on 7.5, which stages slabs in registers
}

const (
	wmmaSlab  = 64 // bytes of K
	wmmaGroup = 8  // rows of tiles that are walked together
	wmmaChunk = 16 // bytes of a load
)

// Name implements [planning.Family].
func (WMMA) Name() string { return "wmma" }

// Describe implements [planning.Family].
func (WMMA) Describe(a planning.Arch) string {
	if a.CC < 80 {
		return "tensor cores through the WMMA API, slabs double-buffered by way of registers"
	}
	return "tensor cores through the WMMA API, slabs double-buffered by cp.async"
}

// Supports implements [planning.Family].
func (WMMA) Supports(a planning.Arch, p gemm.Problem) string {
	switch p.DType {
	case kernels.FP32:
		return "tensor cores have no fp32: use tf32"
	case kernels.FP8:
		return "the WMMA API has no fp8"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return planning.SizeReason(p.Task, wmmaTiles[2].m, wmmaTiles[2].n)
}

func (t wmmaTile) blocksPerSM(a planning.Arch) int {
	if a.CC < 80 {
		return t.turing
	}
	return t.perSM
}

func (t wmmaTile) tiling(a planning.Arch, p kernels.Task) kernels.Tiling {
	tiles := planning.DivideUp(p.M, t.m) * planning.DivideUp(p.N, t.n)
	return kernels.Tiling{Tile: [3]int{t.m, t.n, wmmaSlab / p.DType.Size()}, Waves: planning.Waves(a, tiles, t.blocksPerSM(a)), Split: 1}
}

// seconds returns the modeled time of a launch. It uses mma's resources and constants. Two slabs with a
// barrier overlap copies and products less than mma's stages, so the resources' times are added as squares.
func (t wmmaTile) seconds(a planning.Arch, p kernels.Task) float64 {
	m := models.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	rounds := planning.DivideUp(planning.DivideUp(p.M, t.m)*planning.DivideUp(p.N, t.n), a.SMs)
	perSM := t.blocksPerSM(a)
	resident := min(rounds, perSM)
	slabs := float64(planning.DivideUp(p.K*p.DType.Size(), wmmaSlab))
	loaded := float64((t.m + t.n) * wmmaSlab)
	read := float64((t.m*t.warpsN + t.n*t.warpsM) * wmmaSlab)
	all := float64(rounds) * slabs

	multiply := all * float64(t.m/16*t.n/8*wmmaSlab/32) * planning.TensorClocks(a, p.DType) / clock
	shared := all * (loaded + read) / m.SharedBytes / clock
	latency := all / float64(resident) * m.Latency / clock
	l2 := all * loaded / L2Bytes(a) / clock
	sum := 0.0
	for _, s := range []float64{multiply, shared, latency, l2, planning.MemorySeconds(a, p)} {
		sum += s * s
	}
	return math.Sqrt(sum) + (m.Launch+float64(planning.DivideUp(rounds, perSM)-1)*m.Edge)/clock
}

// Plan implements [planning.Family].
func (f WMMA) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	return planning.Fastest(f.Candidates(a, p))
}

// Candidates implements [planning.Chooser].
func (WMMA) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, t := range wmmaTiles {
		name := fmt.Sprintf("%dx%d", t.m, t.n)
		plans = append(plans, gemm.Plan{
			Label:   name,
			Tiling:  t.tiling(a, p.Task),
			Slots:   t.blocksPerSM(a) * a.SMs,
			Seconds: t.seconds(a, p.Task),
			Bind: func(at gemm.Addresses) []planning.Call {
				kernel := "ga_wmma_" + string(p.DType) + "_" + name
				return []planning.Call{gemm.TileCall(kernel, p, at, t.m, t.n, wmmaGroup, t.warpsM*t.warpsN*32, wmmaChunk)}
			},
		})
	}
	return plans
}
