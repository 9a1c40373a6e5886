package kernels

// Choice is what a kernel would launch for a problem, told without running it. What is not
// known is zero.
type Choice struct {
	// Label names the kernel exactly as [Launch].Label would, once the launch has run.
	Label string `json:"label"`
	// Tiling is what [TilingTeller] would tell of the launch.
	Tiling
	// Stages is how many steps along K are in flight at the same time.
	Stages int `json:"stages,omitempty"`
	// Cluster is the shape of a cluster in blocks of the launch's grid: zeros for none.
	Cluster [3]int `json:"cluster,omitzero"`
	// Slots is how many tiles the device computes at the same time.
	Slots float64 `json:"slots,omitempty"`
	// Grid is the shape of the launch in blocks.
	Grid [3]int `json:"grid,omitzero"`
}

// Untold is the error of an implementation that has no way of saying what it would run.
type Untold struct{ Kernel string }

func (e *Untold) Error() string {
	return "kernel " + e.Kernel + " has no interface that tells what it would run"
}

// ChoiceOf is what an implementation would run for a task. The error is an [*Unsupported]
// where the task is not supported, an [*Untold] where the implementation can't be asked, and
// else says why nothing can be told.
func ChoiceOf(i Implementation, t Task) (Choice, error) {
	p, ok := i.(product)
	if !ok {
		return Choice{}, &Untold{i.Name()}
	}
	teller, ok := p.Gemm.(ChoiceTeller)
	if !ok || t.Products > 0 {
		return Choice{}, &Untold{i.Name()}
	}
	if t.Weights != (WeightFormat{}) || t.Output != "" || t.Accumulator != "" {
		return Choice{}, p.Supports(t)
	}
	return teller.Choice(t.problem())
}
