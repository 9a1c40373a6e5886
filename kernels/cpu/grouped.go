package cpu

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// groupedKernels lists a loop over the groups for each kernel of products. Each product runs on all threads.
func (d *Device) groupedKernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, g := range d.gemms {
		if _, ok := g.(kernels.ActivationRounder); ok {
			continue // the check of grouped products allows no rounding of activations
		}
		out = append(out, &kernels.GroupLoop{
			Of: g, Extras: kernels.QuantizedWeights | kernels.ScaledWeights,
			Part: func(raw kernels.Buffer, bytes int64) (kernels.Buffer, error) {
				whole, ok := raw.(*Buffer)
				if !ok || whole == nil {
					return nil, fmt.Errorf("the weights are in a %T, not in a buffer of %s", raw, d.spec.ID)
				}
				return whole.from(bytes)
			},
			Join: func(t kernels.Task, launches []kernels.Launch, keep ...any) (kernels.Launch, error) {
				return inSequence(g.Name(), t, launches, keep...)
			},
		})
	}
	return out
}
