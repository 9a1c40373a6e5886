package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestBatchGate(t *testing.T) {
	dtypes := []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8}
	batches, checks := map[kernels.DType][]kernels.Task{}, map[kernels.DType][]*kernels.GemmCheck{}
	for _, d := range dtypes {
		batches[d] = kernels.GateBatches(d)
		for i, b := range batches[d] {
			checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(b, uint64(i))))
		}
	}
	onEachISA(t, func(t *testing.T, isa string) {
		dev := open(t, 2)
		for _, g := range dev.Kernels(kernels.GEMM) {
			switch _, own := g.(*blocked); {
			case own && isa == "amx":
				continue // same code as avx512
			case !own && isa != "portable" && g.Name() != "auto" && g.Name() != "amx":
				continue // same code on all instruction sets
			}
			for _, d := range dtypes {
				t.Run(g.Name()+"/"+string(d), func(t *testing.T) {
					passed := 0
					for i, check := range checks[d] {
						_, err := check.Margin(t.Context(), dev, g)
						var unsupported *kernels.Unsupported
						switch {
						case errors.As(err, &unsupported) && g.Supports(batches[d][i].Single()) != nil:
						case err != nil && !knownFault(dev, err):
							t.Error(err)
						default:
							passed++
						}
					}
					if one := (kernels.Task{Subject: kernels.Product(d, 8, 8), M: 1}); passed == 0 && g.Supports(one) == nil {
						t.Error("no batch passed")
					}
				})
			}
		}
	})
}

func TestBatchErrors(t *testing.T) {
	dev := open(t, 1)
	g := dev.gemm("tiled")
	b := kernels.Task{Subject: kernels.Product(kernels.FP32, 16, 16), M: 2}.Batch(3)
	alloc := func(elements int64) kernels.Buffer {
		buf, err := dev.Alloc(4 * elements)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { buf.Close() })
		return buf
	}
	raw, a, c := alloc(3*256), alloc(3*32), alloc(3*32)
	if _, err := g.Prepare(b, alloc(2*256)); err == nil ||
		!strings.Contains(err.Error(), "m2 n16 k16 x3: weights of product 2: byte 2048 of a buffer of 2048") {
		t.Errorf("too small a B: %v", err)
	}
	w, err := g.Prepare(b, raw)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	one, err := g.Prepare(b.Single(), raw)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if w.Bytes() != 3*one.Bytes() || !w.(kernels.Detached).Detached() {
		t.Errorf("weights of three products hold %d bytes, of one %d", w.Bytes(), one.Bytes())
	}
	for want, bind := range map[string]func() (kernels.Launch, error){
		"expected 3 products prepared by kernel tiled": func() (kernels.Launch, error) {
			return g.Bind(b, kernels.Operand{Buffer: a}, one, kernels.Operand{Buffer: c})
		},
		"expected 2 products": func() (kernels.Launch, error) {
			fewer := b
			fewer.Products = 2
			return g.Bind(fewer, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		},
		"product 2 of m2 n16 k16 x3: m2 n16 k16: operand A": func() (kernels.Launch, error) {
			return g.Bind(b, kernels.Operand{Buffer: a, Offset: 1}, w, kernels.Operand{Buffer: c})
		},
	} {
		if _, err := bind(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	l, err := g.Bind(b, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil || l.Label() != "in sequence" {
		t.Errorf("bound as %v, %v", l, err)
	}
}
