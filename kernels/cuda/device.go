//go:build cuda

package cuda

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/brought"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/decoder"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/softmax"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
)

// Device is one GPU with everything that runs on it. It works in the device's primary
// context, which libraries of the same process share.
type Device struct {
	*driver.Device
	attention.Ladder
	softmaxLadder
	decoder.Operations
	*calibrate.InForce

	ordinal int
	gemms   []kernels.Gemm
	missing []kernels.Missing
	// softmaxes are those that were brought as files.
	softmaxes []kernels.SoftmaxKernel
}

// softmaxLadder is embedded beside the ladder of attention, under another name.
type softmaxLadder = softmax.Ladder

// openDevice opens one GPU as a provider says and finds what runs on it.
func openDevice(ordinal int, as Provider) (*Device, error) {
	d, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	all := &Device{
		Device: d, Ladder: attention.Ladder{Device: d}, softmaxLadder: softmax.Ladder{Device: d}, Operations: decoder.Operations{Device: d}, ordinal: ordinal,
	}
	all.InForce = constantsOf(d, as)
	all.gemms, all.missing = gemm.Ladder(d, families)
	var missing []kernels.Missing
	all.gemms, missing = quantised.Ladder(d, all.gemms)
	all.missing = append(all.missing, missing...)
	gemms, missing := cublas.Open(d, as.BLAS...)
	all.gemms, all.missing = append(all.gemms, gemms...), append(all.missing, missing...)
	return all, nil
}

// Gemms lists the kernels that run here, ours first.
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// Missing lists the kernels and libraries that don't, with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }

// LoadKernel implements [kernels.KernelLoader].
func (d *Device) LoadKernel(path string) (kernels.Gemm, error) {
	file, err := plugin.Open(path)
	if err != nil {
		return nil, err
	}
	for _, g := range d.gemms {
		if k, ok := g.(*brought.Kernel); ok && k.File == file {
			return k, nil
		}
	}
	if err := file.Suits(d, path); err != nil {
		return nil, err
	}
	k := brought.New(d.Device, d.ordinal, file)
	d.gemms = append(d.gemms, k)
	d.SetVersion(k.Name(), file.Version())
	return k, nil
}

// SoftmaxKernels lists the kernels of softmax, ours first.
func (d *Device) SoftmaxKernels() []kernels.SoftmaxKernel {
	return append(d.softmaxLadder.SoftmaxKernels(), d.softmaxes...)
}

// LoadSoftmax implements [kernels.SoftmaxLoader].
func (d *Device) LoadSoftmax(path string) (kernels.SoftmaxKernel, error) {
	file, err := plugin.OpenSoftmax(path)
	if file == nil || err != nil {
		return nil, err
	}
	for _, k := range d.softmaxes {
		if b, ok := k.(*brought.Softmax); ok && b.File.Path == file.Path {
			return b, nil
		}
	}
	if err := file.Suits(d, path); err != nil {
		return nil, err
	}
	k := brought.NewSoftmax(d.Device, d.ordinal, file)
	d.softmaxes = append(d.softmaxes, k)
	d.SetVersion(k.Name(), file.Version())
	return k, nil
}
