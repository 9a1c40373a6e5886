//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// supportsScaled returns the normalized task with scales for activations if the library may run it. It does not ask the
// heuristic.
func (k *cublasLtChoice) supportsScaled(t kernels.Task) (kernels.Task, error) {
	n, err := t.Product(k.Name(), kernels.ScaledWeights)
	if err != nil {
		return t, err
	}
	version, _ := versionOf(C.ga_cublaslt_about(k.lib))
	if k.fp8 == sumsFast {
		return t, t.Unsupported(k.Name(), "products with scales are not summed in the tensor core only: cublaslt computes them")
	}
	if why := scaledRefusal(n, int(version[0]), int(version[1]), k.dev.Arch().CC); why != "" {
		return t, t.Unsupported(k.Name(), why)
	}
	return n, nil
}

// ltScaled are fp8 weights in place, with scales as the library takes them.
type ltScaled struct {
	problem kernels.Task // normalized
	raw     kernels.Buffer
	laid    *driver.Buffer // nil if the scales lie so
}

// Bytes implements [kernels.Weights].
func (w *ltScaled) Bytes() int64 {
	bytes := int64(w.problem.StoredBytes(w.problem.M))
	if w.laid != nil {
		bytes = int64(w.problem.N)*int64(w.problem.K) + w.laid.Bytes()
	}
	return bytes
}

// Close implements [kernels.Weights].
func (w *ltScaled) Close() error {
	if w.laid == nil {
		return nil
	}
	return w.laid.Close()
}

func (k *cublasLtChoice) prepareScaled(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	n, err := k.supportsScaled(t)
	if err != nil {
		return nil, err
	}
	w := &ltScaled{problem: n, raw: raw}
	if _, _, err := w.addresses(k.dev); err != nil {
		return nil, err
	}
	at := n.Raw()
	bits := make([]byte, at.Bytes-at.Scales)
	if err := raw.Download(at.Scales, bits); err != nil {
		return nil, fmt.Errorf("%v: read scales: %w", n, err)
	}
	f := n.Weights
	scales := make([]float32, (n.N+f.GroupN-1)/f.GroupN*((n.K+f.GroupK-1)/f.GroupK))
	for i := range scales {
		scales[i] = math.Float32frombits(binary.LittleEndian.Uint32(bits[4*i:]))
	}
	laid, same := laidScales(n, scales)
	if same {
		return w, nil
	}
	bits = make([]byte, 4*len(laid))
	for i, s := range laid {
		binary.LittleEndian.PutUint32(bits[4*i:], math.Float32bits(s))
	}
	b, err := k.dev.Alloc(int64(len(bits)))
	if err != nil {
		return nil, fmt.Errorf("%v: lay scales: %w", n, err)
	}
	if err := b.Upload(0, bits); err != nil {
		b.Close()
		return nil, fmt.Errorf("%v: lay scales: %w", n, err)
	}
	w.laid = b.(*driver.Buffer)
	return w, nil
}

// addresses returns those of the elements and the scales.
func (w *ltScaled) addresses(d *driver.Device) (elements, scales uint64, err error) {
	elements, scales, err = d.RawScaled(w.problem, w.raw)
	if err == nil && w.laid != nil {
		scales = w.laid.Address
	}
	return elements, scales, err
}

func (k *cublasLtChoice) bindScaled(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	n, err := k.supportsScaled(t)
	if err != nil {
		return nil, err
	}
	own, ok := w.(*ltScaled)
	if !ok || own == nil {
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", n, w, k.Name())
	}
	if q := own.problem; q.N != n.N || q.K != n.K || q.Weights != n.Weights {
		return nil, fmt.Errorf("%v: weights were prepared for %v", n, q)
	}
	o := blasOperands{product: scaledProduct(n), dtype: n.DType}
	if o.b, o.bScales, err = own.addresses(k.dev); err != nil {
		return nil, err
	}
	matrix := func(name string, at kernels.Operand, rows, cols, ld int, t kernels.DType) (address uint64) {
		if err == nil {
			address, err = k.dev.Matrix(name, at, rows, cols, ld, t)
		}
		return address
	}
	if o.aScales, err = k.dev.ActivationScales(n, a); err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	o.a = matrix("A", a, n.M, n.K, n.LDA, n.DType)
	o.c = matrix("C", c, n.M, n.N, n.LDC, n.OutputType())
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	if o.aScales%16 != 0 && scalesOf(n).a == scale128 {
		return nil, t.Unsupported(k.Name(), "it takes scales at addresses that are multiples of 16")
	}
	plan, at, err := k.choose(n, o.product, o.aligned(), k.ask)
	if err != nil {
		return nil, err
	}
	return k.call(n, o, plan, at, a.Buffer, w, c.Buffer)
}
