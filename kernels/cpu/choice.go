package cpu

import "github.com/gemmaudit/gemmaudit/kernels"

// planner is a kernel of ours; its launches are planned from the problem alone.
type planner interface {
	kernels.Kernel
	// tiling returns how a launch divides a supported, normalized problem.
	tiling(p kernels.Task) kernels.Tiling
}

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
