package worker

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Worker is one process with kernels. It is started again after a crash.
type Worker struct {
	set      *Set
	name     string // "python", or the file's
	how      kernels.WorkerOptions
	command  func() (command, error)
	files    []*file
	settings map[string]string
	runtime  string

	p *process
	// generation counts processes: what was opened in an earlier one is gone.
	generation int
	memory     memory
	nextID     int64
	closing    closing
	setup      setup
	copies     map[kernels.Launch]*copyLaunch
	primed     map[plan]bool // in this process
}

type file struct {
	path    string
	kernels []*Kernel
	sum     string // of all files
	told    loadResult
}

func (w *Worker) file(path string) *file {
	for _, f := range w.files {
		if f.path == path {
			return f
		}
	}
	return nil
}

// identity returns versions for the device's specification: of each kernel, and of what the file imported.
func (f *file) identity() map[string]string {
	out := maps.Clone(f.told.Versions)
	if out == nil {
		out = map[string]string{}
	}
	for _, k := range f.kernels {
		out[k.text.Name] = kernels.FileVersion(f.sum)
	}
	return out
}

// identity returns settings for the device's specification.
func (w *Worker) identity() map[string]string {
	out := maps.Clone(w.settings)
	if out == nil {
		out = map[string]string{}
	}
	if w.how.Eager {
		out["eager"] = "on"
	}
	return out
}

// start starts the process if there is none, and loads the files again. No case is to blame for an end before it has begun,
// so it tries twice.
func (w *Worker) start() error {
	if w.p != nil && w.p.alive() {
		return nil
	}
	err := w.startOnce()
	var lost *lostError
	if len(w.files) > 0 && errors.As(err, &lost) {
		err = w.startOnce()
	}
	return err
}

func (w *Worker) startOnce() error {
	if err := w.begin(); err != nil {
		return err
	}
	for _, f := range w.files {
		w.looksIn(f.path)
		var again loadResult
		if err := w.ask("load", loadParams{f.path}, &again); err != nil {
			return err
		}
		if sum := sumOf(again.Files); sum != f.sum {
			return errors.Join(fmt.Errorf("%s changed while it was measured: its SHA-256 is %s, not %s", f.path, sum, f.sum), w.end())
		}
	}
	return nil
}

// looksIn makes the process name lines of a file and of those beside it.
func (w *Worker) looksIn(path string) {
	w.p.folders = append(w.p.folders, filepath.Dir(path))
}

// begin starts a process with no file.
func (w *Worker) begin() error {
	if err := w.end(); err != nil {
		return err
	}
	c, err := w.command()
	if err != nil {
		return err
	}
	c.env = append(slices.Clone(w.set.host.Env), c.env...)
	if w.p, err = startProcess(c, w.how.Log, w.limit()); err != nil {
		return w.notStarted(c, err)
	}
	w.generation++
	w.closing.take()
	clear(w.primed)
	spec := w.set.host.Device.Spec()
	hello := helloParams{
		Protocol: Version, Device: deviceParams{ID: spec.ID, Kind: string(spec.Kind), Threads: w.set.host.Threads}, Window: windowBytes,
		Memory: []memory{windowMemory}, Eager: w.how.Eager, GraphBytes: w.set.host.GraphBytes, Stamps: w.set.host.Stamps,
	}
	if spec.Kind == kernels.CUDA {
		hello.Memory = []memory{ipcMemory}
	}
	var told helloResult
	if err := w.ask("hello", hello, &told); err != nil {
		return w.notStarted(c, err)
	}
	switch {
	case told.Protocol != Version:
		err = fmt.Errorf("worker %s speaks version %d of the protocol, expected %d", w.name, told.Protocol, Version)
	case !slices.Contains(hello.Memory, told.Memory):
		err = fmt.Errorf("worker %s chose memory %q, expected one of %v", w.name, told.Memory, hello.Memory)
	default:
		w.memory, w.runtime = told.Memory, oneLine(told.Runtime)
		return nil
	}
	return errors.Join(err, w.end())
}

// notStarted names the interpreter in an error of starting a worker.
func (w *Worker) notStarted(c command, err error) error {
	if w.name != pythonName {
		return err
	}
	return advised{fmt.Errorf("Python interpreter %q: %w", c.path, err), "--python PATH chooses another interpreter"}
}

func (w *Worker) end() error {
	if w.p == nil {
		return nil
	}
	p := w.p
	w.p = nil
	return p.kill()
}

func (w *Worker) close() error {
	if w.p == nil {
		return nil
	}
	p := w.p
	w.p = nil
	return p.close()
}

// ask makes a call. After a worker's end or a failure of its device, the next start begins a new process.
func (w *Worker) ask(name string, params, result any) error {
	if w.p == nil {
		return fmt.Errorf("worker %s: it has ended", w.name)
	}
	err := w.p.call(name, params, result, w.limit(), w.set.waiting)
	var lost *lostError
	var failed *failure
	switch {
	case errors.As(err, &lost), errors.As(err, &failed) && failed.Kind == deviceFailure:
		return errors.Join(err, w.end())
	}
	return err
}

// broke ends a worker that answered what the protocol doesn't allow.
func (w *Worker) broke(why error) error {
	return &lostError{errors.Join(fmt.Errorf("the worker broke its protocol: %w", why), w.end()).Error()}
}

// limitDefault is how long a call may take without a sign of life.
const limitDefault = time.Minute

func (w *Worker) limit() time.Duration {
	if w.how.Limit > 0 {
		return w.how.Limit
	}
	return limitDefault
}

func (w *Worker) id() int64 {
	w.nextID++
	return w.nextID
}
