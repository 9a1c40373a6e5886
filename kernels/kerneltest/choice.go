package kerneltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Tellers returns a device's kernels that report their choices, with the first further candidates of its
// libraries. The others are untold even for an empty task.
func Tellers(d kernels.Device, further int) []kernels.Kernel {
	var out []kernels.Kernel
	add := func(g kernels.Kernel) {
		if _, err := g.Choice(kernels.Task{}); !errors.Is(err, kernels.ErrUntold) {
			out = append(out, g)
		}
	}
	for _, g := range kernels.Products(d) {
		add(g)
		if c, ok := g.(kernels.Candidates); ok {
			for n := range further {
				add(c.Candidate(n + 1))
			}
		}
	}
	return out
}

// CheckChoice compares a kernel's [kernels.Choice] for p with a launch of p and returns an error if they
// differ. Both must refuse an unsupported problem.
func CheckChoice(ctx context.Context, d kernels.Device, g kernels.Kernel, p kernels.Task) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%s %v %s: %w", g.Name(), p.Shape(), p.DType, fmt.Errorf(format, args...))
	}
	told, err := g.Choice(p)
	refusal := g.Supports(p)
	var why *kernels.Unsupported
	switch {
	case refusal != nil && !errors.As(err, &why):
		return wrong("it is not supported (%v), and the choice is %+v, %v", refusal, told, err)
	case refusal != nil:
		return nil
	case err != nil:
		return wrong("ask for the choice: %w", err)
	}
	l, release, err := bindOnce(d, g, p)
	if err != nil {
		return wrong("bind: %w", err)
	}
	defer release()
	if _, err := d.Execute(ctx, []kernels.Launch{l}, 1); err != nil {
		return wrong("run: %w", err)
	}
	if label := l.Label(); label != told.Label {
		return wrong("%q was told, and %q ran", told.Label, label)
	}
	ran, want := kernels.TilingOf(l), told.Tiling
	if ran.Waves == 0 {
		want.Waves = 0 // a library's launches don't report waves
	}
	if ran != want {
		return wrong("%+v was reported, but %+v ran", told.Tiling, ran)
	}
	return nil
}

// bindOnce binds a problem to new operands; release frees them.
func bindOnce(d kernels.Device, g kernels.Kernel, p kernels.Task) (l kernels.Launch, release func(), err error) {
	var held []interface{ Close() error }
	release = func() {
		for i := len(held) - 1; i >= 0; i-- {
			held[i].Close()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	q, err := p.Normalized()
	if err != nil {
		return nil, nil, err
	}
	rowsOfB := q.K
	if q.Layout == kernels.Transposed {
		rowsOfB = q.N
	}
	var buffers [3]kernels.Buffer
	for i, bytes := range []int{q.M * q.LDA * q.DType.Size(), rowsOfB * q.LDB * q.DType.Size(), q.M * q.LDC * q.DType.Output().Size()} {
		if buffers[i], err = d.Alloc(int64(bytes)); err != nil {
			return nil, nil, err
		}
		held = append(held, buffers[i])
	}
	w, err := g.Prepare(p, buffers[1])
	if err != nil {
		return nil, nil, err
	}
	held = append(held, w)
	l, err = g.Bind(p, kernels.Operand{Buffer: buffers[0]}, w, kernels.Operand{Buffer: buffers[2]})
	return l, release, err
}
