package cpu

// #include "native/execute.h"
import "C"

import (
	"context"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

func (d *Device) newWorkers() *worker.Set {
	return worker.NewSet(worker.Host{
		Device: d, Threads: d.Threads(),
		Clock:      func() float64 { return float64(C.ga_core_mhz()) },
		Quiet:      worker.Quiet,
		AddVersion: d.spec.AddVersion, AddSetting: d.spec.AddSetting,
		CopyOf: func(l kernels.Launch) (worker.Copy, bool) {
			own, ok := l.(*launch)
			return own.copy(), ok && own.copies.To != nil
		},
	})
}

func (l *launch) copy() worker.Copy {
	if l == nil {
		return worker.Copy{}
	}
	return l.copies
}

// LoadWorker implements [kernels.WorkerLoader].
func (d *Device) LoadWorker(path string, how kernels.WorkerOptions) ([]kernels.Kernel, error) {
	return d.workers.Load(path, how)
}

// WhileWaiting implements [kernels.Waiter].
func (d *Device) WhileWaiting(f func()) { d.workers.WhileWaiting(f) }

// Prime implements [kernels.Primer]. A launch of this process runs once.
func (d *Device) Prime(ctx context.Context, l kernels.Launch) (seconds float64, err error) {
	if d.workers.Owns([]kernels.Launch{l}) {
		return d.workers.Prime(ctx, l)
	}
	span, err := d.Execute(ctx, []kernels.Launch{l}, 1)
	return span.Seconds, err
}

// overwrites tells the launch's buffers that it may write to them.
func (l *launch) overwrites() {
	for _, k := range l.keep {
		if b, ok := k.(*Buffer); ok && b != nil {
			b.mirror.Overwritten()
		}
	}
}
