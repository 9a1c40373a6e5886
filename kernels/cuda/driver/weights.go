//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

type rawWeights struct {
	problem kernels.Task // normalized
	raw     kernels.Buffer
}

// Bytes returns the bytes of B that a launch reads: its elements, without gaps between rows.
func (w *rawWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.problem.K) * int64(w.problem.DType.Size())
}

// Close does nothing: the caller owns the raw B.
func (w *rawWeights) Close() error { return nil }

// KeepRaw returns weights that use B in place.
func (d *Device) KeepRaw(p kernels.Task, raw kernels.Buffer) (*rawWeights, error) {
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
func (d *Device) BindRaw(kernel string, p kernels.Task, w kernels.Weights) (uint64, error) {
	rw, ok := w.(*rawWeights)
	if !ok || rw == nil {
		return 0, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape(), w, kernel)
	}
	if q := rw.problem; q.N != p.N || q.K != p.K || q.DType != p.DType || q.Layout != p.Layout || q.LDB != p.LDB {
		return 0, fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape(), p.DType, q.N, q.K, q.DType)
	}
	return d.rawB(p, rw.raw)
}

// PackedWeights is B in the form of all our kernels: N rows of K elements, ldb apart, each row at a multiple
// of 16 bytes and zero-padded.
type PackedWeights struct {
	dev     *Device
	problem kernels.Task // normalized; M does not affect the form
	LDB     int
	Address uint64
	form    *packedForm    // nil if the raw B already has that form
	raw     kernels.Buffer // B as it was given
	closed  bool
}

// packedForm is memory with a packed B, shared by all weights of the same raw one.
type packedForm struct {
	key    packedKey
	buffer *Buffer
	users  int
	// packing time on the device
	seconds float64
}

// packedKey identifies a packed form: the same content of the same buffer in the same layout.
type packedKey struct {
	raw     *Buffer
	edition uint64
	n, k    int
	dtype   kernels.DType
	layout  kernels.Layout
	ldb     int
	inside  bool
}

type sharedWeights map[packedKey]*packedForm

// Bytes returns the bytes of B that a launch reads, including zero padding.
func (w *PackedWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.LDB) * int64(w.problem.DType.Size())
}

// Close frees the packed form with its last user. The caller keeps the raw B.
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

// Packing implements [kernels.Packed]. Kernels that share a packed form share its time.
func (w *PackedWeights) Packing() (seconds float64, ok bool) {
	if w.form == nil || w.problem.PackInside {
		return 0, false
	}
	return w.form.seconds, true
}

// Packs reports whether [Device.Pack] makes a packed form of B for problems like p.
func Packs(p kernels.Task) bool {
	q, err := p.Normalized()
	return err == nil && !packed(q)
}

func packed(p kernels.Task) bool {
	return p.Layout == kernels.Transposed && p.LDB == p.K && p.K*p.DType.Size()%16 == 0
}

// Pack packs B. With p.PackInside it only allocates the memory, which the launches fill.
func (d *Device) Pack(p kernels.Task, raw kernels.Buffer) (*PackedWeights, error) {
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
	b := raw.(*Buffer) // rawB has checked the type
	key := packedKey{b, b.edition, p.N, p.K, p.DType, p.Layout, p.LDB, p.PackInside}
	w := &PackedWeights{dev: d, problem: p, LDB: support.PackedLDB(p.DType, p.K), raw: raw}
	if w.form = d.shared[key]; w.form == nil {
		buffer, err := d.alloc(w.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%v: pack weights: %w", p.Shape(), err)
		}
		w.form = &packedForm{key: key, buffer: buffer}
		if !p.PackInside {
			if w.form.seconds, err = d.Timed(support.PackCall(d.arch, p, address, buffer.Address)); err != nil {
				buffer.Close()
				return nil, fmt.Errorf("%v: pack weights: %w", p.Shape(), err)
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

// BindPacked checks the weights against the normalized problem p. It returns them and the calls that precede
// each launch: the packing, if any.
func (d *Device) BindPacked(kernel string, p kernels.Task, w kernels.Weights) (*PackedWeights, []planning.Call, error) {
	pw, ok := w.(*PackedWeights)
	switch {
	case !ok || pw == nil:
		return nil, nil, fmt.Errorf("%v: weights are a %T, not packed by kernel %s", p.Shape(), w, kernel)
	case pw.dev != d:
		return nil, nil, fmt.Errorf("%v: weights belong to %s, not to %s", p.Shape(), pw.dev.spec.ID, d.spec.ID)
	case pw.closed:
		return nil, nil, fmt.Errorf("%v: weights are closed", p.Shape())
	}
	q := pw.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.PackInside != p.PackInside {
		return nil, nil, fmt.Errorf("%v %s: weights were packed for n%d k%d %s, packing inside the launch: %v",
			p.Shape(), p.DType, q.N, q.K, q.DType, q.PackInside)
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
