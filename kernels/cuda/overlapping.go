//go:build cuda

package cuda

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// overlapping is auto in stream launches, which may begin before the end of the one before, also where other kernels
// run in graphs: see [kernels.Overlapping].
type overlapping struct{ kernels.Kernel }

// withOverlapping adds auto with overlap to the kernels of an operation, if the GPU can overlap launches.
func (d *Device) withOverlapping(own []kernels.Kernel) []kernels.Kernel {
	at := slices.IndexFunc(own, func(k kernels.Kernel) bool { return k.Name() == "auto" })
	if at < 0 || !d.Arch().Overlaps() {
		return own
	}
	return slices.Insert(slices.Clone(own), at+1, kernels.Kernel(overlapping{own[at]}))
}

// Name implements [kernels.Kernel].
func (overlapping) Name() string { return kernels.Overlapping }

// Describe implements [kernels.Kernel].
func (overlapping) Describe() string {
	return "auto with launch overlap, in a stream: a launch may begin while the one before drains"
}

// Packs implements [kernels.Packer].
func (k overlapping) Packs(t kernels.Task) bool { return kernels.Packs(k.Kernel, t) }

// Bind implements [kernels.Kernel].
func (k overlapping) Bind(t kernels.Task, in kernels.Operand, w kernels.Weights, out kernels.Operand,
	further ...kernels.Operand) (kernels.Launch, error) {
	l, err := k.Kernel.Bind(t, in, w, out, further...)
	if own, ok := l.(*driver.Launch); ok && own != nil {
		own.InStream = true
	}
	return l, err
}

// overlaps reports whether launches of a block are those of [overlapping]. Copies may be among them.
func overlaps(block kernels.Block) bool {
	return slices.ContainsFunc(block.Launches, func(l kernels.Launch) bool {
		own, ok := l.(*driver.Launch)
		return ok && own != nil && own.InStream
	})
}
