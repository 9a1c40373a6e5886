package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// RowBits reports which parameters, other than its operands, change the bits of a row of C.
type RowBits struct {
	// Ms are the tested row counts, increasing; empty if not tested.
	Ms []int
	// ByM are the Ms at which a row differs from the same row at the largest M.
	ByM []int
	// Threads are the tested thread counts below the device's maximum.
	Threads []int
	// ByThreads are the Threads at which a row differs from the same row on all threads.
	ByThreads []int
}

// rowMs lie around the rows of register tiles, warps and blocks, and where kernels change.
var rowMs = []int{1, 2, 3, 4, 7, 8, 13, 16, 17, 33, 64, 129}

// rowShapes are the other dimensions: few columns and deep enough to split K, and more columns than a thread
// (or a GPU tile) computes. The first take some 20 ms on a core.
func rowShapes(d Device) []Shape {
	shapes := []Shape{{N: 96, K: 2048}, {N: 1056, K: 256}}
	if d.Spec().Kind.Facts().Card {
		shapes = append(shapes, Shape{N: 2048, K: 512})
	}
	return shapes
}

// RowBitsOf computes the same rows with more and fewer other rows, and on more and fewer threads, and
// compares bits. A kernel that refuses all products has no Ms. The error is the device's.
func RowBitsOf(ctx context.Context, d Device, k Kernel, dt DType, seed uint64) (RowBits, error) {
	var found RowBits
	if t, ok := d.(Threaded); ok {
		for _, n := range []int{1, 2, t.Threads() / 2, t.Threads() - 1} {
			if n > 0 && n < t.Threads() && !slices.Contains(found.Threads, n) {
				found.Threads = append(found.Threads, n)
			}
		}
	}
	for _, shape := range rowShapes(d) {
		look := &rowLook{device: d, kernel: k, found: &found}
		err := look.run(ctx, Task{Subject: Linear(dt, shape.N, shape.K), M: shape.M}, seed)
		for _, b := range slices.Backward(look.held) {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			return RowBits{}, fmt.Errorf("row bits: %s/%s/%s: %w", d.Spec().ID, k.Name(), dt, err)
		}
	}
	if len(found.Ms) == 0 {
		found.Threads = nil
	}
	for _, list := range []*[]int{&found.Ms, &found.ByM, &found.ByThreads} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return found, nil
}

type rowLook struct {
	device  Device
	kernel  Kernel
	found   *RowBits
	held    []Buffer
	a, b, c Buffer
}

// run computes p, which has no M, from the largest M down.
func (r *rowLook) run(ctx context.Context, p Task, seed uint64) error {
	p.M = rowMs[len(rowMs)-1]
	if err := r.upload(p, seed); err != nil {
		return err
	}
	var most []byte // the rows at the largest supported M
	for _, m := range slices.Backward(rowMs) {
		p.M, p.Threads = m, 0
		if r.kernel.Supports(p) != nil {
			continue
		}
		rows, err := r.rows(ctx, p)
		var refused *Unsupported
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return err
		}
		r.found.Ms = append(r.found.Ms, m)
		if most == nil {
			most = rows
		}
		if !bytes.Equal(rows, most[:len(rows)]) {
			r.found.ByM = append(r.found.ByM, m)
		}
		for _, p.Threads = range r.found.Threads {
			if r.kernel.Supports(p) != nil {
				continue
			}
			fewer, err := r.rows(ctx, p)
			if err != nil {
				return err
			}
			if !bytes.Equal(fewer, rows) {
				r.found.ByThreads = append(r.found.ByThreads, p.Threads)
			}
		}
	}
	return nil
}

// cancel gives each term of a sum its negative elsewhere along K. Only the rounding from the order of
// additions remains, which a 16-bit output would otherwise hide.
func (o checkOperands) cancel(p Task) {
	half := p.K / 2
	for k := range half {
		opposite := half + (k+half/3)%half
		for i := range p.M {
			o.a[i*p.K+opposite] = -o.a[i*p.K+k]
		}
		copy(o.b[opposite*p.N:][:p.N], o.b[k*p.N:][:p.N])
	}
}

// upload uploads normal operands whose products cancel; int8 sums are exact, so int8 operands do not cancel.
func (r *rowLook) upload(p Task, seed uint64) error {
	o := newCheckOperands(p, CheckAccuracy, false, seed)
	if p.DType != INT8 {
		o.cancel(p)
	}
	b := transpose(o.b, p.K, p.N)
	for _, x := range []struct {
		to     *Buffer
		values []float64
		bytes  int
	}{{&r.a, o.a, len(o.a) * p.DType.Size()}, {&r.b, b, len(b) * p.DType.Size()}, {&r.c, nil, p.M * p.N * p.DType.Output().Size()}} {
		buf, err := r.device.Alloc(int64(x.bytes))
		if err != nil {
			return err
		}
		r.held, *x.to = append(r.held, buf), buf
		content := make([]byte, x.bytes)
		if err := Encode(p.DType, x.values, content); err != nil {
			return err
		}
		if err := buf.Upload(0, content); err != nil {
			return err
		}
	}
	return nil
}

func (r *rowLook) rows(ctx context.Context, p Task) (out []byte, err error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("%v: %w", p.Shape(), err) }
	w, err := r.kernel.Prepare(p, r.b)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	l, err := r.kernel.Bind(p, Operand{Buffer: r.a}, w, Operand{Buffer: r.c})
	if err != nil {
		return fail(err)
	}
	if _, err := r.device.Execute(ctx, []Launch{l}, 1); err != nil {
		return fail(err)
	}
	out = make([]byte, p.M*p.N*p.DType.Output().Size())
	return out, r.c.Download(0, out)
}
