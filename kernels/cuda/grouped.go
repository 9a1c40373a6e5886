//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// groupedKernels lists a loop over the groups for each kernel of products, for each of a library also one in several streams,
// and cuBLAS's call for all groups.
func (d *Device) groupedKernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, g := range d.gemms {
		out = append(out, d.groupLoop(g, d.Join))
		if lanes := d.lanes[g.Name()]; lanes != nil {
			streams := d.groupLoop(g, d.Fork)
			streams.As, streams.Lanes = kernels.VariantName(g.Name(), "streams"), lanes
			out = append(out, streams)
		}
		if k := cublas.Grouped(g); k != nil {
			out = append(out, k)
		}
	}
	return out
}

// groupLoop makes a loop over the groups whose launches are joined by [driver.Device.Join] or [driver.Device.Fork].
func (d *Device) groupLoop(of kernels.Kernel, join func([]kernels.Launch) (*driver.Launch, error)) *kernels.GroupLoop {
	return &kernels.GroupLoop{
		Of: of,
		Part: func(raw kernels.Buffer, bytes int64) (kernels.Buffer, error) {
			whole, ok := raw.(*driver.Buffer)
			if !ok || whole == nil {
				return nil, fmt.Errorf("the weights are in a %T, not in a buffer of %s", raw, d.Spec().ID)
			}
			return whole.From(bytes)
		},
		Join: func(t kernels.Task, launches []kernels.Launch, _ ...any) (kernels.Launch, error) {
			l, err := join(launches) // the launches keep their operands
			if err != nil {
				return nil, fmt.Errorf("%v: %w", t, err)
			}
			return l, nil
		},
		Most: driver.MostJoined / mostOfGroup,
	}
}

// mostOfGroup is the most kernels of a group's product: of a split and its sum.
const mostOfGroup = 2
