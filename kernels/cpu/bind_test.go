package cpu

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// foreign are weights from another package.
type foreign struct{}

func (foreign) Bytes() int64 { return 0 }
func (foreign) Close() error { return nil }

func TestBindRefuses(t *testing.T) { onEachISA(t, bindRefuses) }

func bindRefuses(t *testing.T, _ string) {
	dev := open(t, 1)
	alloc := func(bytes int64) kernels.Buffer {
		b, err := dev.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	good := kernels.Task{Subject: kernels.Product(kernels.FP32, 48, 32), M: 2}
	a, b, c := alloc(2*32*4), alloc(48*32*4), alloc(2*48*4)
	for _, g := range dev.Kernels(kernels.GEMM) {
		t.Run(g.Name(), func(t *testing.T) {
			p := good
			if g.Supports(p) != nil {
				p.DType = kernels.BF16 // AMX has no fp32
			}
			if err := g.Supports(p); err != nil {
				t.Skip(err)
			}
			own, err := g.Prepare(p, b)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			if _, err := g.Bind(p, kernels.Operand{Buffer: a}, own, kernels.Operand{Buffer: c}); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []struct {
				name   string
				change func(*kernels.Task)
				a, c   kernels.Operand
				w      kernels.Weights
				want   string
			}{
				{name: "no M", change: func(p *kernels.Task) { p.M = 0 }, want: "M is 0"},
				{name: "another N", change: func(p *kernels.Task) { p.N = 16 }, want: "n48 k32"},
				{name: "another K", change: func(p *kernels.Task) { p.K = 16 }, want: "n48 k32"},
				{name: "foreign weights", w: foreign{}, want: "weights are a cpu.foreign"},
				{name: "no raw weights", w: (*rawWeights)(nil), want: "weights are a *cpu.rawWeights"},
				{name: "no packed weights", w: (*packedWeights)(nil), want: "weights are a *cpu.packedWeights"},
				{name: "no reordered weights", w: (*onednnWeights)(nil), want: "weights are a *cpu.onednnWeights"},
				{name: "A past its buffer", a: kernels.Operand{Buffer: a, Offset: 1 << 20}, want: "operand A"},
				{name: "C before its buffer", c: kernels.Operand{Buffer: c, Offset: -1}, want: "operand C"},
				{name: "no C", c: kernels.Operand{Buffer: (*Buffer)(nil)}, want: "operand C"},
			} {
				q := p
				if bad.change != nil {
					bad.change(&q)
				}
				if bad.a.Buffer == nil {
					bad.a = kernels.Operand{Buffer: a}
				}
				if bad.c.Buffer == nil {
					bad.c = kernels.Operand{Buffer: c}
				}
				if bad.w == nil {
					bad.w = own
				}
				if _, err := g.Bind(q, bad.a, bad.w, bad.c); err == nil || !strings.Contains(err.Error(), bad.want) {
					t.Errorf("%s: error %v, expected %q", bad.name, err, bad.want)
				}
			}
		})
	}
}

// Packed weights must work after raw B is freed; kernels that read raw B must report it.
func TestDetached(t *testing.T) { onEachISA(t, detached) }

func detached(t *testing.T, _ string) {
	dev := open(t, 1)
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 48, 32), M: 1}
	for _, c := range []struct {
		kernel string
		inside bool
		want   bool
	}{{"auto", false, true}, {"gemv", false, true}, {"tiled", false, true}, {"auto", true, false}, {"naive", false, false}} {
		p.PackInside = c.inside
		raw := fill(t, dev, p.DType, p.N*p.K, 7)
		w, err := dev.gemm(c.kernel).Prepare(p, raw)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		detached, ok := w.(kernels.Detached)
		if got := ok && detached.Detached(); got != c.want {
			t.Errorf("%s, packing inside %v: detached %v", c.kernel, c.inside, got)
		}
		seconds, packed := 0.0, false
		if p, ok := w.(kernels.Packed); ok {
			seconds, packed = p.Packing()
		}
		if packed != c.want || packed && seconds <= 0 {
			t.Errorf("%s, packing inside %v: packed %v in %g s", c.kernel, c.inside, packed, seconds)
		}
		packer, ok := dev.gemm(c.kernel).(kernels.Packer)
		if got := ok && packer.Packs(p); got != (c.kernel != "naive") {
			t.Errorf("%s says that it packs: %v", c.kernel, got)
		}
		if !c.want {
			continue
		}
		a, out := fill(t, dev, p.DType, p.K, 8), fill(t, dev, p.DType, p.N, 9)
		l, err := dev.gemm(c.kernel).Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: out})
		if err != nil {
			t.Fatal(err)
		}
		var results [2][]byte
		for i := range results {
			if _, err := dev.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
				t.Fatal(err)
			}
			results[i] = contents(t, out)
			if err := raw.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(results[0], results[1]) {
			t.Errorf("%s: another result without the raw B", c.kernel)
		}
	}
}

func TestCopies(t *testing.T) {
	dev := open(t, 2)
	for _, elements := range []int{3, 3 * copyPiece / 4, 3*copyPiece + 1} {
		from, to := fill(t, dev, kernels.INT8, elements, 1), fill(t, dev, kernels.INT8, elements, 2)
		if err := to.CopyFrom(from); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(contents(t, from), contents(t, to)) {
			t.Errorf("%d elements are not copied", elements)
		}
	}
	if err := fill(t, dev, kernels.INT8, 4, 1).CopyFrom(fill(t, dev, kernels.INT8, 5, 1)); err == nil {
		t.Error("a copy of a buffer of another size")
	}
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 48, 32), M: 3}
	for _, inside := range []bool{false, true} {
		p.PackInside = inside
		a, raw, again := fill(t, dev, p.DType, p.M*p.K, 8), fill(t, dev, p.DType, p.N*p.K, 7), fill(t, dev, p.DType, p.N*p.K, 7)
		w, err := dev.gemm("tiled").Prepare(p, raw)
		if err != nil {
			t.Fatal(err)
		}
		product := func(w kernels.Weights) []byte {
			out := fill(t, dev, p.DType, p.M*p.N, 9)
			l, err := dev.gemm("tiled").Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: out})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dev.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
				t.Fatal(err)
			}
			return contents(t, out)
		}
		want := product(w)
		second, err := w.(kernels.Copyable).Copy(again)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), raw.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(product(second), want) {
			t.Errorf("packing inside %v: the copy computes something else", inside)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}
