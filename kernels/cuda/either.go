//go:build cuda

package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// either computes each task with one of several kernels.
type either struct {
	name, about string
	// of returns the kernel of a task. Prepare and Bind of a task are to ask the same one.
	of func(kernels.Task) kernels.Kernel
}

var _ kernels.Packer = either{}

// Name implements [kernels.Kernel].
func (k either) Name() string { return k.name }

// Describe implements [kernels.Kernel].
func (k either) Describe() string { return k.about }

// Supports implements [kernels.Kernel].
func (k either) Supports(t kernels.Task) error { return k.of(t).Supports(t) }

// Packs implements [kernels.Packer].
func (k either) Packs(t kernels.Task) bool { return kernels.Packs(k.of(t), t) }

// Prepare implements [kernels.Kernel].
func (k either) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	return k.of(t).Prepare(t, raw)
}

// Bind implements [kernels.Kernel].
func (k either) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	more ...kernels.Operand) (kernels.Launch, error) {
	return k.of(t).Bind(t, a, w, c, more...)
}

// Choice implements [kernels.Kernel].
func (k either) Choice(t kernels.Task) (kernels.Choice, error) { return k.of(t).Choice(t) }
