//go:build cuda

package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

// Products with more than 2³¹ elements in C or in B are right at both ends and between. Operands are small
// integers with exact sums, so C is known to the bit.
func TestHuge(t *testing.T) {
	d := gpu(t)
	for _, shape := range []kernels.Shape{
		{M: 1<<16 + 3, N: 1<<15 + 8, K: 64},
		{M: 5, N: 1<<16 + 8, K: 1<<15 + 64},
	} {
		for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
			p := kernels.Task{Subject: kernels.Product(kernels.BF16, shape.N, shape.K).In(layout), M: shape.M}
			size := int64(p.DType.Size())
			elements := [3]int64{int64(p.M) * int64(p.K), int64(p.N) * int64(p.K), int64(p.M) * int64(p.N)}
			if free, ok := d.FreeMemory(); ok && free < 3*size*(elements[0]+elements[1]+elements[2]) {
				t.Skipf("%d bytes are free, too few for %v", free, p.Shape())
			}
			a, b, c := gputest.Buffer(t, d, elements[0]*size), gputest.Buffer(t, d, elements[1]*size),
				gputest.Buffer(t, d, elements[2]*size)
			for i, buf := range []kernels.Buffer{a, b} {
				if err := buf.Fill(kernels.Integers, p.DType, elements[i], uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, g := range d.Kernels(kernels.GEMM) {
				if g.Name() == "naive" || g.Supports(p) != nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v/%v", g.Name(), p.Shape(), layout), func(t *testing.T) { checkHuge(t, d, g, p, a, b, c) })
			}
		}
	}
}

func checkHuge(t *testing.T, d *Device, g kernels.Kernel, p kernels.Task, a, b, c kernels.Buffer) {
	if err := c.Fill(kernels.Zeros, p.DType, int64(p.M)*int64(p.N), 0); err != nil {
		t.Fatal(err)
	}
	w, err := g.Prepare(p, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	read := func(buf kernels.Buffer, from int64, n, stride int) []float64 {
		size := p.DType.Size()
		raw := make([]byte, n*size)
		for i := range n {
			if stride == 1 {
				if err := buf.Download(from*int64(size), raw); err != nil {
					t.Fatal(err)
				}
				break
			}
			if err := buf.Download((from+int64(i)*int64(stride))*int64(size), raw[i*size:][:size]); err != nil {
				t.Fatal(err)
			}
		}
		v := make([]float64, n)
		if err := kernels.Decode(p.DType, raw, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rows, cols := []int{0, p.M - 1}, []int{0, p.N - 1}
	for range 4 {
		rows, cols = append(rows, rng.IntN(p.M)), append(cols, rng.IntN(p.N))
	}
	for _, col := range cols {
		var weights []float64
		if p.Layout == kernels.Transposed {
			weights = read(b, int64(col)*int64(p.K), p.K, 1)
		} else {
			weights = read(b, int64(col), p.K, p.N)
		}
		for _, row := range rows {
			var want float64
			for i, x := range read(a, int64(row)*int64(p.K), p.K, 1) {
				want += x * weights[i]
			}
			rounded := make([]byte, p.DType.Size())
			if err := kernels.Encode(p.DType, []float64{want}, rounded); err != nil {
				t.Fatal(err)
			}
			var exact [1]float64
			if err := kernels.Decode(p.DType, rounded, exact[:]); err != nil {
				t.Fatal(err)
			}
			if got := read(c, int64(row)*int64(p.N)+int64(col), 1, 1)[0]; got != exact[0] {
				t.Fatalf("row %d column %d is %g, expected %g", row, col, got, exact[0])
			}
		}
	}
}
