//go:build cuda

package cuda

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/decoder"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
)

// Device is one GPU with everything that runs on it. It works in the device's primary
// context, which libraries of the same process share.
type Device struct {
	*driver.Device
	attention.Ladder
	decoder.Operations

	gemms   []kernels.Gemm
	missing []kernels.Missing
}

// openDevice opens one GPU and finds what runs on it.
func openDevice(ordinal int) (*Device, error) {
	d, err := driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	all := &Device{Device: d, Ladder: attention.Ladder{Device: d}, Operations: decoder.Operations{Device: d}}
	all.gemms, all.missing = gemm.Ladder(d, families)
	gemms, missing := cublas.Open(d)
	all.gemms, all.missing = append(all.gemms, gemms...), append(all.missing, missing...)
	return all, nil
}

// Gemms lists the kernels that run here, ours first.
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// Missing lists the kernels and libraries that don't, with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }
