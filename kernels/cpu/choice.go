package cpu

import "github.com/gemmaudit/gemmaudit/kernels"

// planner is one of our kernels, which plan a launch from the problem alone.
type planner interface {
	kernels.Gemm
	// tiling is how the launch of a normalized problem, which is supported, divides its work.
	tiling(p kernels.Problem) kernels.Tiling
}

// The libraries but OpenBLAS, which has no interface that tells, say what they would run.
var (
	_ kernels.ChoiceTeller = (*auto)(nil)
	_ kernels.ChoiceTeller = (*blocked)(nil)
	_ kernels.ChoiceTeller = amx{}
	_ kernels.ChoiceTeller = naive{}
	_ kernels.ChoiceTeller = (*onednn)(nil)
)

// plannedChoice is the choice of a kernel of ours. Its launches carry no label but auto's.
func plannedChoice(k planner, p kernels.Problem) (kernels.Choice, error) {
	if err := k.Supports(p); err != nil {
		return kernels.Choice{}, err
	}
	p, err := p.Normalized()
	if err != nil {
		return kernels.Choice{}, err
	}
	return kernels.Choice{Tiling: k.tiling(p)}, nil
}
