//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// rawWeights is B as it was given, for libraries.
type rawWeights struct {
	problem kernels.Problem // normalized
	raw     kernels.Buffer
}

// Bytes is what a launch reads of B: its elements, not the gaps between rows.
func (w *rawWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.problem.K) * int64(w.problem.DType.Size())
}

// Close does nothing: the raw B is its owner's.
func (w *rawWeights) Close() error { return nil }

// KeepRaw takes B as it is.
func (d *Device) KeepRaw(p kernels.Problem, raw kernels.Buffer) (*rawWeights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if _, err := d.rawB(p, raw); err != nil {
		return nil, err
	}
	return &rawWeights{p, raw}, nil
}

// BindRaw returns the address of B for a normalized problem.
func (d *Device) BindRaw(kernel string, p kernels.Problem, w kernels.Weights) (uint64, error) {
	rw, ok := w.(*rawWeights)
	if !ok || rw == nil {
		return 0, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape, w, kernel)
	}
	if q := rw.problem; q.N != p.N || q.K != p.K || q.DType != p.DType || q.BLayout != p.BLayout || q.LDB != p.LDB {
		return 0, fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape, p.DType, q.N, q.K, q.DType)
	}
	return d.rawB(p, rw.raw)
}

// PackedWeights is B in the form that all our kernels read: N rows of K elements,
// ldb apart, each row at a multiple of 16 bytes and zeros behind it.
type PackedWeights struct {
	dev     *Device
	problem kernels.Problem // normalized; M is not part of the form
	LDB     int
	Address uint64
	form    *packedForm    // nil when the raw B is such a form already
	raw     kernels.Buffer // as it was given
	closed  bool
}

// packedForm is memory with a packed B, shared by the weights that kernels made of
// the same raw one.
type packedForm struct {
	key    packedKey
	buffer *Buffer
	users  int
	// seconds is how long packing took, on the device.
	seconds float64
}

// packedKey says when two packed forms are the same: of the same content of the same
// buffer, read in the same way.
type packedKey struct {
	raw     *Buffer
	edition uint64
	n, k    int
	dtype   kernels.DType
	layout  kernels.Layout
	ldb     int
	inside  bool
}

// sharedWeights are the packed forms in use.
type sharedWeights map[packedKey]*packedForm

// Bytes is what a launch reads of B, zeros behind the rows included.
func (w *PackedWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.LDB) * int64(w.problem.DType.Size())
}

// Close returns the memory of the packed form with its last user. The raw B stays its
// owner's.
func (w *PackedWeights) Close() error {
	if w.closed || w.form == nil {
		w.closed = true
		return nil
	}
	w.closed = true
	if w.form.users--; w.form.users > 0 {
		return nil
	}
	delete(w.dev.shared, w.form.key)
	return w.form.buffer.Close()
}

// Packing implements [kernels.Packed]. Kernels that share a packed form share the time that it
// took.
func (w *PackedWeights) Packing() (seconds float64, ok bool) {
	if w.form == nil || w.problem.PackInside {
		return 0, false
	}
	return w.form.seconds, true
}

// Packs says whether [Device.Pack] makes a packed form of B for problems like p.
func Packs(p kernels.Problem) bool {
	q, err := p.Normalized()
	return err == nil && !packed(q)
}

// packed says whether raw weights are in the packed form as they are.
func packed(p kernels.Problem) bool {
	return p.BLayout == kernels.Transposed && p.LDB == p.K && p.K*p.DType.Size()%16 == 0
}

// Pack brings B into the packed form. With p.PackInside only the memory is taken: the
// launches fill it.
func (d *Device) Pack(p kernels.Problem, raw kernels.Buffer) (*PackedWeights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	address, err := d.rawB(p, raw)
	if err != nil {
		return nil, err
	}
	if packed(p) {
		return &PackedWeights{dev: d, problem: p, LDB: p.LDB, Address: address, raw: raw}, nil
	}
	b := raw.(*Buffer) // or rawB had refused it
	key := packedKey{b, b.edition, p.N, p.K, p.DType, p.BLayout, p.LDB, p.PackInside}
	w := &PackedWeights{dev: d, problem: p, LDB: support.PackedLDB(p.DType, p.K), raw: raw}
	if w.form = d.shared[key]; w.form == nil {
		buffer, err := d.alloc(w.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%v: pack weights: %w", p.Shape, err)
		}
		w.form = &packedForm{key: key, buffer: buffer}
		if !p.PackInside {
			if w.form.seconds, err = d.timed(support.PackCall(d.arch, p, address, buffer.Address)); err != nil {
				buffer.Close()
				return nil, fmt.Errorf("%v: pack weights: %w", p.Shape, err)
			}
		}
		if d.shared == nil {
			d.shared = sharedWeights{}
		}
		d.shared[key] = w.form
	}
	w.form.users++
	w.Address = w.form.buffer.Address
	return w, nil
}

// BindPacked checks that weights serve the normalized problem p, and returns them and
// the calls that each launch makes first: none, or the packing.
func (d *Device) BindPacked(kernel string, p kernels.Problem, w kernels.Weights) (*PackedWeights, []planning.Call, error) {
	pw, ok := w.(*PackedWeights)
	switch {
	case !ok || pw == nil:
		return nil, nil, fmt.Errorf("%v: weights are a %T, not packed by kernel %s", p.Shape, w, kernel)
	case pw.dev != d:
		return nil, nil, fmt.Errorf("%v: weights belong to %s, not to %s", p.Shape, pw.dev.spec.ID, d.spec.ID)
	case pw.closed:
		return nil, nil, fmt.Errorf("%v: weights are closed", p.Shape)
	}
	q := pw.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.PackInside != p.PackInside {
		return nil, nil, fmt.Errorf("%v %s: weights were packed for n%d k%d %s, packing inside the launch: %v",
			p.Shape, p.DType, q.N, q.K, q.DType, q.PackInside)
	}
	raw, err := d.rawB(q, pw.raw)
	switch {
	case pw.form == nil && err != nil:
		return nil, nil, err
	case pw.form == nil || !p.PackInside:
		return pw, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return pw, []planning.Call{support.PackCall(d.arch, q, raw, pw.Address)}, nil
}
