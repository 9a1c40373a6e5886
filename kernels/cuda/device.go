//go:build cuda

package cuda

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/brought"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/decoder"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/softmax"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Device is one GPU with all its kernels. It works in the device's primary context, which it shares with
// libraries of the same process.
type Device struct {
	*driver.Device
	attention.Ladder
	softmaxLadder
	decoder.Operations

	ordinal int
	gemms   []kernels.Kernel
	missing []kernels.Missing
	lanes   map[string][]kernels.Kernel // of libraries' kernels, by name, for several streams
	// of grouped products, and for how many kernels of products
	grouped []kernels.Kernel
	loops   int
	fused   []kernels.Kernel
	// of fused products in two launches
	products kernels.Buffer
	// loaded from files
	softmaxes []kernels.Kernel
	workers   *worker.Set // nil before the first file of a worker
	waiting   func()
	graphs    graphs // of this process, if there are workers
}

// softmaxLadder gives the embedded ladder a name distinct from attention's.
type softmaxLadder = softmax.Ladder

func openDevice(ordinal int, as Provider) (*Device, error) {
	d, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	all := &Device{
		Device: d, Ladder: attention.Ladder{Device: d}, softmaxLadder: softmax.Ladder{Device: d}, Operations: decoder.Operations{Device: d},
		ordinal: ordinal,
	}
	all.gemms, all.missing = gemm.Ladder(d, gemm.Families{
		Plain: families, Quantized: quantised.Families(), Scaled: quantised.ScaledFamilies(),
	})
	gemms, missing := cublas.Open(d, as.BLAS...)
	all.gemms, all.missing = append(all.gemms, gemms...), append(all.missing, missing...)
	all.lanes = map[string][]kernels.Kernel{}
	for _, g := range gemms {
		all.lanes[g.Name()] = cublas.Lanes(g)
	}
	return all, nil
}

// Constants implements [kernels.ConstantsTeller].
func (d *Device) Constants() kernels.Constants {
	a := d.Arch()
	c := calibration.Nearest(a.CC, a.SMs, a.Bandwidth)
	return kernels.Constants{Card: c.Card, Own: c.Card == d.Spec().Name, ID: c.ID(), Date: c.Date}
}

// Kernels lists the kernels of an operation that run here, ours first.
func (d *Device) Kernels(o kernels.Operation) []kernels.Kernel {
	var own []kernels.Kernel
	switch o {
	case kernels.GEMM:
		own = d.gemms
	case kernels.AttentionPrefill, kernels.AttentionDecode:
		own = kernels.AttentionKernels(d, d.AttentionKernels())
	case kernels.Softmax, kernels.LogSoftmax:
		own = append(d.SoftmaxKernels(), d.softmaxes...)
	case kernels.GroupedGEMM:
		if d.grouped == nil || d.loops != len(d.gemms) { // files add kernels of products
			d.grouped, d.loops = d.groupedKernels(), len(d.gemms)
		}
		own = d.grouped
	case kernels.FusedGEMM:
		if d.fused == nil { // files bring no products with epilogues
			d.fused = d.fusedKernels()
		}
		own = d.fused
	}
	if d.workers.Active() {
		own = d.withOverlapping(own)
	}
	return append(slices.Clip(own), d.workers.Kernels(o)...)
}

// Missing lists the unavailable kernels and libraries, with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }

// LoadKernel implements [kernels.KernelLoader].
func (d *Device) LoadKernel(path string) (kernels.Kernel, error) {
	file, err := plugin.Open(path)
	if err != nil {
		return nil, err
	}
	return d.load(&d.gemms, path, file.File, brought.New(d.Device, d.ordinal, file))
}

// load adds the kernel of a file to a list, unless it is there already.
func (d *Device) load(to *[]kernels.Kernel, path string, file plugin.File, k kernels.Kernel) (kernels.Kernel, error) {
	for _, have := range *to {
		if b, ok := have.(interface{ From() plugin.File }); ok && b.From().Path == file.Path {
			return have, nil
		}
	}
	if err := file.Suits(d, path); err != nil {
		return nil, err
	}
	*to = append(*to, k)
	d.SetVersion(k.Name(), file.Version())
	return k, nil
}

// LoadSoftmax implements [kernels.SoftmaxLoader].
func (d *Device) LoadSoftmax(path string) (kernels.Kernel, error) {
	file, err := plugin.OpenSoftmax(path)
	if file == nil || err != nil {
		return nil, err
	}
	return d.load(&d.softmaxes, path, file.File, brought.NewSoftmax(d.Device, d.ordinal, file))
}
