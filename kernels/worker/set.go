// Package worker runs kernels in another process, above all of Python, on the device of this one. docs/worker.md
// describes the protocol. The program drives: it decides what runs and when; the worker executes and takes times.
package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Host is the device that a worker shares.
type Host struct {
	Device  kernels.Device
	Threads int      // of a CPU
	Env     []string // of the worker's environment, "NAME=VALUE"
	Stamps  *Stamps  // of a GPU
	// GraphBytes limits the memory of a worker's graphs and their results; 0 for no limit.
	GraphBytes int64
	// Clock returns the clock in MHz of a CPU; nil on a GPU.
	Clock func() float64
	// Quiet waits until this process's threads use no CPU; nil on a GPU.
	Quiet func()
	// AddVersion and AddSetting add what a worker loaded to the device's specification.
	AddVersion, AddSetting func(name, value string)
	// CopyOf returns what a launch of the device's [kernels.LaunchCopier] copies.
	CopyOf func(kernels.Launch) (Copy, bool)
}

// Copy is a copy between buffers; offsets are in bytes.
type Copy struct {
	To, From             Buffer
	ToOffset, FromOffset int64
	Bytes                int64
}

// Set is a device's workers: one for files in Python, and each executable. The device is used by one process at a
// time. Use a Set from one goroutine, like its device.
type Set struct {
	host    Host
	workers []*Worker
	last    *Worker // used the device last; nil for this process
	waiting func()
}

// NewSet returns a device's workers, none as yet.
func NewSet(h Host) *Set { return &Set{host: h} }

// Active reports whether the device has a worker. A nil set has none.
func (s *Set) Active() bool { return s != nil && len(s.workers) > 0 }

// WhileWaiting implements [kernels.Waiter] for the device.
func (s *Set) WhileWaiting(f func()) { s.waiting = f }

// Load implements [kernels.WorkerLoader] for the device.
func (s *Set) Load(path string, how kernels.WorkerOptions) ([]kernels.Kernel, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("kernel file %q: %w", path, err)
	}
	for _, w := range s.workers {
		if f := w.file(full); f != nil {
			return asKernels(f.kernels), nil
		}
	}
	if err := exists(full); err != nil {
		return nil, fmt.Errorf("kernel file %q: %w", path, err)
	}
	w, err := s.workerFor(full, how)
	if err != nil {
		return nil, fmt.Errorf("kernel file %q: %w", path, err)
	}
	f, err := w.load(full)
	if err != nil {
		err = fmt.Errorf("kernel file %q: %w", path, err)
		if len(w.files) == 0 {
			err = errors.Join(err, w.close())
		}
		return nil, err
	}
	if !slices.Contains(s.workers, w) {
		s.workers = append(s.workers, w)
	}
	for name, version := range f.identity() {
		s.host.AddVersion(name, version)
	}
	for name, value := range w.identity() {
		s.host.AddSetting(name, value)
	}
	return asKernels(f.kernels), nil
}

func (s *Set) workerFor(path string, how kernels.WorkerOptions) (*Worker, error) {
	if !kernels.IsPython(path) {
		start := func() (command, error) { return command{path: path}, nil }
		return &Worker{set: s, name: filepath.Base(path), how: how, command: start}, nil
	}
	for _, w := range s.workers {
		if w.name == pythonName {
			return w, nil
		}
	}
	interpreter, err := FindPython(how.Python)
	if err != nil {
		return nil, err
	}
	return &Worker{set: s, name: pythonName, how: how, command: func() (command, error) { return pythonCommand(interpreter) }}, nil
}

const pythonName = "python"

func asKernels(all []*Kernel) []kernels.Kernel {
	out := make([]kernels.Kernel, len(all))
	for i, k := range all {
		out[i] = k
	}
	return out
}

// Kernels lists the workers' kernels of an operation. A nil set has none.
func (s *Set) Kernels(o kernels.Operation) []kernels.Kernel {
	if s == nil {
		return nil
	}
	var out []kernels.Kernel
	for _, w := range s.workers {
		for _, f := range w.files {
			for _, k := range f.kernels {
				if k.operation == o {
					out = append(out, k)
				}
			}
		}
	}
	return out
}

// Owns reports whether a worker runs the launches; false for a nil set.
func (s *Set) Owns(launches []kernels.Launch) bool {
	return s.Active() && slices.ContainsFunc(launches, func(l kernels.Launch) bool { _, ok := l.(*Launch); return ok })
}

// turn gives the device to a worker, or to this process for nil. It reports whether another process had it.
func (s *Set) turn(to *Worker) (switched bool) {
	switched, s.last = to != s.last, to
	if s.host.Quiet == nil {
		return switched
	}
	for _, w := range s.workers {
		if w != to && w.p != nil {
			w.p.stop() // a call in between may have resumed it
		}
	}
	if switched && to != nil {
		s.host.Quiet()
	}
	return switched
}

// Own is called before a block of this process. It reports whether the block needs a lead-in, which is run and not
// timed, because another process used the device last. A nil set needs none.
func (s *Set) Own() (leadIn bool) { return s.Active() && s.turn(nil) }

// Execute implements [kernels.Device] for launches that a worker owns. Copies of the device may be among them.
func (s *Set) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	if err := ctx.Err(); err != nil {
		return kernels.Span{}, err
	}
	w, all, err := s.resolve(launches[:min(len(launches), n)])
	if err != nil {
		return kernels.Span{}, err
	}
	return w.execute(all, n)
}

// Prime implements [kernels.Primer] for a launch that a worker owns. The worker compiles and tunes what it must.
func (s *Set) Prime(ctx context.Context, l kernels.Launch) (seconds float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	w, all, err := s.resolve([]kernels.Launch{l})
	if err != nil {
		return 0, err
	}
	return w.prime(all[0].(*Launch))
}

// bound is a launch in a worker.
type bound interface {
	// ensure binds the launch in the worker's process and sends contents that changed.
	ensure(w *Worker) (id int64, err error)
	// written tells the operand that the launch writes.
	written() Buffer
}

func (s *Set) resolve(launches []kernels.Launch) (*Worker, []bound, error) {
	var w *Worker
	for _, l := range launches {
		own, ok := l.(*Launch)
		switch {
		case !ok:
		case w == nil:
			w = own.kernel.worker
		case w != own.kernel.worker:
			return nil, nil, fmt.Errorf("execute on %s: launches of two processes, %s and %s: expected one", s.host.Device.Spec().ID,
				w.name, own.kernel.worker.name)
		}
	}
	if w == nil {
		return nil, nil, fmt.Errorf("execute on %s: no launch of a worker", s.host.Device.Spec().ID)
	}
	all := make([]bound, len(launches))
	for i, l := range launches {
		own, ok := l.(*Launch)
		if ok {
			all[i] = own
			continue
		}
		c, ok := s.host.CopyOf(l)
		if !ok {
			return nil, nil, fmt.Errorf("execute on %s: launches of this process and of %s: a product can't be divided between them",
				s.host.Device.Spec().ID, w.name)
		}
		all[i] = w.copyLaunch(l, c)
	}
	return w, all, nil
}

// Close ends the workers. A nil set has none.
func (s *Set) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.close())
	}
	s.workers, s.last = nil, nil
	return errors.Join(errs...)
}

// Reload loads another device's files, as for the same processor with fewer threads.
func (s *Set) Reload(from *Set) error {
	if from == nil {
		return nil
	}
	for _, w := range from.workers {
		for _, f := range w.files {
			if _, err := s.Load(f.path, w.how); err != nil {
				return err
			}
		}
	}
	return nil
}
