package cpu

import "github.com/gemmaudit/gemmaudit/kernels"

// planner is a kernel of ours; its launches are planned from the problem alone.
type planner interface {
	kernels.Kernel
	// tiling returns how a launch divides a supported, normalized problem.
	tiling(p kernels.Task) kernels.Tiling
}

// OpenBLAS is missing: its interface does not report choices.
var (
	_ kernels.ChoiceTeller = (*auto)(nil)
	_ kernels.ChoiceTeller = (*blocked)(nil)
	_ kernels.ChoiceTeller = amx{}
	_ kernels.ChoiceTeller = naive{}
	_ kernels.ChoiceTeller = (*onednn)(nil)
)

func plannedChoice(k planner, p kernels.Task) (kernels.Choice, error) {
	if err := k.Supports(p); err != nil {
		return kernels.Choice{}, err
	}
	p, err := p.Normalized()
	if err != nil {
		return kernels.Choice{}, err
	}
	return kernels.Choice{Tiling: k.tiling(p)}, nil
}
