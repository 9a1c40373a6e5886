//go:build cuda

package driver

/*
#include <string.h>
#include "step.h"

// Everything that a launch consists of in one piece: steps, then the parameters,
// each at a multiple of 64 bytes as tensor maps want it.
static ga_cuda_launch *new_launch(int count, size_t params) {
  size_t head = (sizeof(ga_cuda_launch) + (size_t)count * sizeof(ga_cuda_step) + 63) / 64 * 64;
  ga_cuda_launch *l = NULL;
  if (posix_memalign((void **)&l, 64, head + params) != 0) return NULL;
  memset(l, 0, head + params);
  l->count = count;
  return l;
}

static ga_cuda_step *step_of(ga_cuda_launch *l, int i) { return &l->steps[i]; }

static char *params_of(ga_cuda_launch *l) {
  return (char *)l + (sizeof(ga_cuda_launch) + (size_t)l->count * sizeof(ga_cuda_step) + 63) / 64 * 64;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Step is one entry of a launch: a call of our kernels or, with Enqueue, a library call.
type Step struct {
	call planning.Call
	// Enqueue is a C function of type ga_cuda_enqueue (step.h) and Self its first argument, which must not
	// point to Go memory. Launches is the maximum number of kernels that it launches.
	Enqueue, Self unsafe.Pointer
	Launches      int
}

// Launch is a product that is ready to run.
type Launch struct {
	dev   *Device
	c     *C.ga_cuda_launch
	label string
	// Plan is equal for launches that run the same code and differ only in addresses. The first launch of a
	// plan runs once before it is timed.
	Plan   string
	Primed bool
	keep   []any // references for the launch's lifetime
	// Library describes a library's return code; nil for launches of our kernels.
	Library func(code int) error
	// graph marks a graph; exec is its CUgraphExec, nil once closed.
	exec  unsafe.Pointer
	graph bool
	// InStream says that the launch runs in a stream also where others run in graphs.
	InStream bool
	// copies is what a copy between buffers copies; empty for other launches.
	copies worker.Copy
	// Tiled is the launch's division of work, as far as known.
	Tiled kernels.Tiling
	// Named returns label and tiling after the first run, if they are unknown before; otherwise nil.
	Named func(*Launch) (string, kernels.Tiling)
}

// Kernels returns the most kernels that launches run.
func Kernels(launches []kernels.Launch) int {
	n := 0
	for _, it := range launches {
		if l, ok := it.(*Launch); ok && l != nil {
			n += int(l.c.launches)
		}
	}
	return n
}

// SkipWarmUp lets a launch of our kernels run without the untimed run of its plan.
func (l *Launch) SkipWarmUp() { l.Primed = l.Primed || !l.calls() }

// Label returns a description of the launch.
func (l *Launch) Label() string {
	l.ask()
	return l.label
}

// Tiling implements [kernels.TilingTeller].
func (l *Launch) Tiling() kernels.Tiling {
	l.ask()
	return l.Tiled
}

func (l *Launch) ask() {
	if l.label == "" && l.Named != nil {
		l.label, l.Tiled = l.Named(l)
	}
}

// Steps makes steps of calls of our kernels.
func Steps(cs []planning.Call) []Step {
	steps := make([]Step, len(cs))
	for i, c := range cs {
		steps[i] = Step{call: c}
	}
	return steps
}

// NewLaunch makes a launch of steps. The launch keeps a reference to keep.
func (d *Device) NewLaunch(label, plan string, steps []Step, keep ...any) (*Launch, error) {
	if len(steps) == 0 {
		return nil, errors.New("a launch without steps")
	}
	leave, err := d.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var bytes int
	for _, s := range steps {
		bytes += (len(s.call.Args.Bytes) + 63) / 64 * 64
	}
	c := C.new_launch(C.int(len(steps)), C.size_t(bytes))
	if c == nil {
		return nil, errors.New("out of host memory")
	}
	l := &Launch{dev: d, c: c, label: label, Plan: plan, keep: keep}
	runtime.AddCleanup(l, func(c *C.ga_cuda_launch) { C.free(unsafe.Pointer(c)) }, c)
	params := C.params_of(c)
	for i, s := range steps {
		to := C.step_of(c, C.int(i))
		if s.Enqueue != nil {
			*to = C.ga_cuda_step{enqueue: C.ga_cuda_enqueue(s.Enqueue), self: s.Self, launches: C.int(max(1, s.Launches))}
		} else if err := d.place(s.call, to, unsafe.Pointer(params)); err != nil {
			return nil, err
		}
		c.launches += to.launches
		params = (*C.char)(unsafe.Add(unsafe.Pointer(params), (len(s.call.Args.Bytes)+63)/64*64))
	}
	return l, nil
}

// Planned makes the launch of a choice; place receives the addresses of the plan's workspaces and returns all
// addresses. problem distinguishes choices with equal plans, first are calls before the plan's.
func Planned[P, A any](d *Device, c planning.Choice[P, A], problem string, first []planning.Call,
	place func(scratch, flags uint64) A, keep ...any) (*Launch, error) {
	scratch, err := d.Scratch(c.Plan.Scratch)
	if err != nil {
		return nil, err
	}
	flags, err := d.Flags(c.Plan.Flags)
	if err != nil {
		return nil, err
	}
	l, err := d.NewLaunch(c.Label, c.Name()+" "+problem, Steps(append(first, c.Plan.Bind(place(scratch, flags))...)), keep...)
	if err != nil {
		return nil, err
	}
	l.Tiled = c.Plan.Tiling
	return l, nil
}

// Serialize makes the launch wait for the end of the previous one. Kernels within it may still overlap.
func (l *Launch) Serialize() { C.step_of(l.c, 0).overlap = 0 }

func (d *Device) place(c planning.Call, to *C.ga_cuda_step, params unsafe.Pointer) error {
	function, err := d.code.function(d, c)
	if err != nil {
		return err
	}
	*to = C.ga_cuda_step{launches: 1, function: function, shared: C.uint(c.Shared), params: params}
	for i, e := range []struct {
		from planning.Dim3
		to   *[3]C.uint
	}{{c.Grid, &to.grid}, {c.Block, &to.block}, {c.Cluster, &to.cluster}} {
		if i == 2 && e.from == (planning.Dim3{}) {
			break
		}
		e.to[0], e.to[1], e.to[2] = C.uint(max(1, e.from.X)), C.uint(max(1, e.from.Y)), C.uint(max(1, e.from.Z))
	}
	if c.Overlap && d.arch.Overlaps() {
		to.overlap = 1
	}
	if c.Cooperative && d.cooperative {
		to.cooperative = 1
	}
	copy(unsafe.Slice((*byte)(params), len(c.Args.Bytes)), c.Args.Bytes)
	for _, m := range c.Args.Maps {
		if err := encodeTensorMap(m.Map, unsafe.Add(params, m.At)); err != nil {
			return fmt.Errorf("kernel %s: %w", c.Kernel, err)
		}
	}
	return nil
}

// Matrix returns the address of a row-major matrix after checking that it is inside its buffer. The last row
// need not be padded to its leading dimension.
func (d *Device) Matrix(name string, o kernels.Operand, rows, cols, ld int, t kernels.DType) (uint64, error) {
	b, ok := o.Buffer.(*Buffer)
	switch {
	case !ok || b == nil:
		return 0, fmt.Errorf("operand %s: its buffer is a %T, not one of %s", name, o.Buffer, d.spec.ID)
	case b.dev != d:
		return 0, fmt.Errorf("operand %s: its buffer belongs to %s, not to %s", name, b.dev.spec.ID, d.spec.ID)
	case b.Address == 0:
		return 0, fmt.Errorf("operand %s: its buffer is closed", name)
	case o.Offset < 0:
		return 0, fmt.Errorf("operand %s: offset is %d, expected at least 0", name, o.Offset)
	}
	have := b.bytes / int64(t.Size())
	// First in floating point, which does not overflow.
	if need := float64(o.Offset) + float64(rows-1)*float64(ld) + float64(cols); need > float64(have) {
		return 0, fmt.Errorf("operand %s: %d rows of %d with leading dimension %d at offset %d need %.0f elements of %s, the buffer has %d",
			name, rows, cols, ld, o.Offset, need, t, have)
	}
	return b.Address + uint64(o.Offset)*uint64(t.Size()), nil
}

func (d *Device) rawB(p kernels.Task, raw kernels.Buffer) (uint64, error) {
	rows, cols := p.K, p.N
	if p.Layout == kernels.Transposed {
		rows, cols = p.N, p.K
	}
	return d.Matrix("B", kernels.Operand{Buffer: raw}, rows, cols, p.LDB, p.DType)
}
