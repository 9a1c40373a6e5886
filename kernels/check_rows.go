package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// RowBits says on what the bits of a row of C depend beside its row of A and B, as it was measured.
type RowBits struct {
	// Ms are the numbers of rows that were computed, in increasing order; none where nothing was looked at.
	Ms []int
	// ByM are those of Ms at which some row differs from the same row at the largest of them.
	ByM []int
	// Threads are the numbers of threads that were set beside all of the device's, on a device that has some.
	Threads []int
	// ByThreads are those of Threads with which some row differs from the same row on all threads.
	ByThreads []int
}

// rowMs are around register tiles, warps' and blocks' rows, and where kernels change.
var rowMs = []int{1, 2, 3, 4, 7, 8, 13, 16, 17, 33, 64, 129}

// rowShapes are the other dimensions: so few columns and so deep that K is divided, and more columns than
// a thread takes; on cards, more than a tile takes as well. The first take some 20 ms on a core.
func rowShapes(d Device) []Shape {
	shapes := []Shape{{N: 96, K: 2048}, {N: 1056, K: 256}}
	if d.Spec().Kind.Facts().Card {
		shapes = append(shapes, Shape{N: 2048, K: 512})
	}
	return shapes
}

// RowBitsOf computes the same rows of A times the same weights with more and with fewer rows beside
// them, and on more and fewer threads, and compares their bits. It judges nothing: a kernel that refuses all
// products has no Ms. The error is the device's.
func RowBitsOf(ctx context.Context, d Device, g Gemm, dt DType, seed uint64) (RowBits, error) {
	var found RowBits
	if t, ok := d.(Threaded); ok {
		for _, n := range []int{1, 2, t.Threads() / 2, t.Threads() - 1} {
			if n > 0 && n < t.Threads() && !slices.Contains(found.Threads, n) {
				found.Threads = append(found.Threads, n)
			}
		}
	}
	for _, shape := range rowShapes(d) {
		look := &rowLook{device: d, gemm: g, found: &found}
		err := look.run(ctx, Problem{Shape: shape, DType: dt, BLayout: Transposed}, seed)
		for _, b := range slices.Backward(look.held) {
			err = errors.Join(err, b.Close())
		}
		if err != nil {
			return RowBits{}, fmt.Errorf("row bits: %s/%s/%s: %w", d.Spec().ID, g.Name(), dt, err)
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

// rowLook looks at the rows of products that differ in M and in threads.
type rowLook struct {
	device  Device
	gemm    Gemm
	found   *RowBits
	held    []Buffer
	a, b, c Buffer
}

// run computes the products of p, which lacks M, from the largest M on.
func (r *rowLook) run(ctx context.Context, p Problem, seed uint64) error {
	p.M = rowMs[len(rowMs)-1]
	if err := r.upload(p, seed); err != nil {
		return err
	}
	var most []byte // the rows at the largest M that the kernel takes
	for _, m := range slices.Backward(rowMs) {
		p.M, p.Threads = m, 0
		if r.gemm.Supports(p) != nil {
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

// cancel gives each term of a sum its negative, elsewhere along K: what is left is what rounding
// makes of the order of additions, which an output of 16 bits would hide beside a sum of ordinary size.
func (o checkOperands) cancel(p Problem) {
	half := p.K / 2
	for k := range half {
		opposite := half + (k+half/3)%half
		for i := range p.M {
			o.a[i*p.K+opposite] = -o.a[i*p.K+k]
		}
		copy(o.b[opposite*p.N:][:p.N], o.b[k*p.N:][:p.N])
	}
}

// upload puts operands on the device: normal ones whose products cancel, but for int8, whose sums are exact.
func (r *rowLook) upload(p Problem, seed uint64) error {
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

// rows are the bytes of C.
func (r *rowLook) rows(ctx context.Context, p Problem) (out []byte, err error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("%v: %w", p.Shape, err) }
	w, err := r.gemm.PrepareWeights(p, r.b)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	l, err := r.gemm.Bind(p, Operand{Buffer: r.a}, w, Operand{Buffer: r.c})
	if err != nil {
		return fail(err)
	}
	if _, err := r.device.Execute(ctx, []Launch{l}, 1); err != nil {
		return fail(err)
	}
	out = make([]byte, p.M*p.N*p.DType.Output().Size())
	return out, r.c.Download(0, out)
}
