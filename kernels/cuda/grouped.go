//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// groupedKernels lists a loop over the groups for each kernel of products.
func (d *Device) groupedKernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, g := range d.gemms {
		out = append(out, &kernels.GroupLoop{
			Of: g,
			Part: func(raw kernels.Buffer, bytes int64) (kernels.Buffer, error) {
				whole, ok := raw.(*driver.Buffer)
				if !ok || whole == nil {
					return nil, fmt.Errorf("the weights are in a %T, not in a buffer of %s", raw, d.Spec().ID)
				}
				return whole.From(bytes)
			},
			Join: func(t kernels.Task, launches []kernels.Launch, _ ...any) (kernels.Launch, error) {
				l, err := d.Join(launches) // the launches keep their operands
				if err != nil {
					return nil, fmt.Errorf("%v: %w", t, err)
				}
				return l, nil
			},
			Most: driver.MostJoined / mostOfGroup,
		})
	}
	return out
}

// mostOfGroup is the most kernels of a group's product: of a split and its sum.
const mostOfGroup = 2
