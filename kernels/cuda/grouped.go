//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/mma"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// groupedKernels lists the persistent kernels and a loop over the groups for each kernel of products, for each of a library also one
// in several streams, and cuBLAS's call for all groups. auto is the persistent kernel where it supports the task, otherwise a loop.
func (d *Device) groupedKernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, g := range d.gemms {
		loop := d.groupLoop(g, d.Join)
		switch name := g.Name(); name {
		case "auto", "auto-serial":
			persistent := gemm.NewGroupKernel(d.Device, name, persistentOn(d.Arch()), name == "auto-serial")
			out = append(out, persistentOr(persistent, loop))
		case hopper.Family{}.Name():
			out = append(out, gemm.NewGroupChooser(d.Device, hopper.Grouped{}), loop)
		case mma.Family{}.Name():
			out = append(out, gemm.NewGroupChooser(d.Device, mma.Grouped{}), loop)
		default:
			out = append(out, loop)
		}
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

// persistentOn returns the persistent kernel that auto has on a GPU: on Hopper mma.sync only for more groups than the tables of the
// kernel for Hopper have.
func persistentOn(a planning.Arch) gemm.GroupFamily {
	if a.CC == 90 {
		return manyGroups{hopper.Grouped{}}
	}
	return mma.Grouped{}
}

// manyGroups is a family, or another one for more groups than its tables have.
type manyGroups struct{ hopper.Grouped }

func (f manyGroups) of(p gemm.Groups) gemm.GroupFamily {
	if p.Groups > hopper.MostGroups {
		return mma.Grouped{}
	}
	return f.Grouped
}

// Supports implements [planning.Family].
func (f manyGroups) Supports(a planning.Arch, p gemm.Groups) string { return f.of(p).Supports(a, p) }

// Plan implements [planning.Family].
func (f manyGroups) Plan(a planning.Arch, p gemm.Groups) gemm.GroupPlan { return f.of(p).Plan(a, p) }

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

// persistentOr is one launch for all groups where that kernel supports the task, otherwise a loop. Both support tasks regardless of
// how rows are distributed.
func persistentOr(persistent *gemm.GroupKernel, loop *kernels.GroupLoop) kernels.Kernel {
	about := persistent.Describe() + "; where it does not run, " + loop.Describe()
	return either{persistent.Name(), about, func(t kernels.Task) kernels.Kernel {
		if persistent.Supports(t) == nil {
			return persistent
		}
		return loop
	}}
}

// mostOfGroup is the most kernels of a group's product: of a split and its sum.
const mostOfGroup = 2
