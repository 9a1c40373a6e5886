//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Stamps returns the code that takes clocks around a block, for a worker of this GPU.
func (d *Device) Stamps() (*worker.Stamps, error) {
	slots := int(d.blocks.c.slots)
	stamp, gate := support.StampCall(d.arch, 0, slots), support.BlockingCall(0, 0, blockingTimeoutNs, 0)
	k, err := artefacts.Find(stamp.Kernel, d.arch.CC)
	if err != nil {
		return nil, err
	}
	image, _, err := artefacts.Image(k.Source, d.arch.CC)
	if err != nil {
		return nil, fmt.Errorf("code of %s: %w", stamp.Kernel, err)
	}
	return &worker.Stamps{Module: image, Stamp: workerCall(stamp), Gate: workerCall(gate), Slots: slots}, nil
}

func workerCall(c planning.Call) worker.Call {
	c.Args.Align(8)
	least := func(d planning.Dim3) [3]int { return [3]int{max(1, d.X), max(1, d.Y), max(1, d.Z)} }
	return worker.Call{Kernel: c.Kernel, Grid: least(c.Grid), Block: least(c.Block), Shared: c.Shared, Params: c.Args.Bytes}
}
