package cuda

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// wmma is wmma.cu: tensor cores through the WMMA API.
type wmma struct{}

// wmmaTile is one tile shape that wmma.cu was built in.
type wmmaTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int
	perSM          int // blocks that a multiprocessor runs at a time
	turing         int // the same on 7.5, which stages slabs in registers
}

var wmmaTiles = []wmmaTile{
	{m: 128, n: 128, warpsM: 2, warpsN: 4, perSM: 2, turing: 1},
	{m: 64, n: 64, warpsM: 2, warpsN: 2, perSM: 3, turing: 3},
	{m: 16, n: 64, warpsM: 1, warpsN: 4, perSM: 6, turing: 4},
}

const (
	wmmaSlab  = 64 // bytes of K
	wmmaGroup = 8  // rows of tiles that are walked together
	wmmaChunk = 16 // bytes of a load
)

func (wmma) Name() string { return "wmma" }

func (wmma) Describe(a arch) string {
	if a.cc < 80 {
		return "tensor cores through the WMMA API, slabs double-buffered by way of registers"
	}
	return "tensor cores through the WMMA API, slabs double-buffered by cp.async"
}

func (wmma) Supports(a arch, p gemmProblem) string {
	switch p.DType {
	case kernels.FP32:
		return "tensor cores have no fp32: tf32 is what they make of it"
	case kernels.FP8:
		return "the WMMA API has no fp8"
	}
	if reason := typeReason(a, p.DType); reason != "" {
		return reason
	}
	return sizeReason(p.Problem, wmmaTiles[2].m, wmmaTiles[2].n)
}

// seconds is what the model expects of one launch with these tiles. The resources are
// those of mma's model, with the same constants; what differs is that two slabs, with a
// barrier between them, overlap copying and multiplying less than mma's stages do: the
// times of the resources are added as squares.
func (t wmmaTile) seconds(a arch, p kernels.Problem) float64 {
	clock := a.clockMHz * 1e6 * mmaClock
	rounds := divideUp(divideUp(p.M, t.m)*divideUp(p.N, t.n), a.sms)
	perSM := t.perSM
	if a.cc < 80 {
		perSM = t.turing
	}
	resident := min(rounds, perSM)
	slabs := float64(divideUp(p.K*p.DType.Size(), wmmaSlab))
	loaded := float64((t.m + t.n) * wmmaSlab)
	read := float64((t.m*t.warpsN + t.n*t.warpsM) * wmmaSlab)
	all := float64(rounds) * slabs

	multiply := all * float64(t.m/16*t.n/8*wmmaSlab/32) * mmaClocks(a, p.DType) / clock
	shared := all * (loaded + read) / mmaSharedBytes / clock
	latency := all / float64(resident) * mmaLatency
	l2 := all * loaded / mmaL2Bytes(a) / clock
	sum := 0.0
	for _, s := range []float64{multiply, shared, latency, l2, memorySeconds(a, p)} {
		sum += s * s
	}
	return mmaLaunch + math.Sqrt(sum) + float64(divideUp(rounds, perSM)-1)*mmaEdge
}

func (f wmma) Plan(a arch, p gemmProblem) gemmPlan {
	return fastest(f.Candidates(a, p))
}

// candidates are the plans of all tiles.
func (wmma) Candidates(a arch, p gemmProblem) []gemmPlan {
	var plans []gemmPlan
	for _, t := range wmmaTiles {
		name := fmt.Sprintf("%dx%d", t.m, t.n)
		plans = append(plans, gemmPlan{
			label:   name,
			seconds: t.seconds(a, p.Problem),
			bind: func(at addresses) []call {
				kernel := "ga_wmma_" + string(p.DType) + "_" + name
				return []call{tileCall(kernel, p, at, t.m, t.n, wmmaGroup, t.warpsM*t.warpsN*32, wmmaChunk)}
			},
		})
	}
	return plans
}
