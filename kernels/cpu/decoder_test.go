package cpu

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// With -short, AVX2 runs on one thread and the others on two.
func TestOperations(t *testing.T) {
	for _, isa := range []string{"portable", "avx2", "avx512"} {
		for _, threads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d threads", isa, threads), func(t *testing.T) {
				if !has(detect(), isa) {
					t.Skipf("this CPU has no %s", isa)
				}
				if testing.Short() && (isa == "avx2") != (threads == 1) {
					t.Skip("another instruction set has as many threads")
				}
				t.Setenv("GEMMAUDIT_ISA", isa)
				kerneltest.Operations(t, open(t, threads))
			})
		}
	}
}

// The head sizes include ones that are not whole vectors. The best instruction set runs each case in one
// or two types on two threads; the others run each case in one type, one thread runs fewer.
func TestAttention(t *testing.T) {
	dims := []int{128, 64, 32, 128, 96, 64, 2, 34}
	best := "portable"
	for _, isa := range []string{"avx2", "avx512"} {
		if has(detect(), isa) {
			best = isa
		}
	}
	type share struct {
		name string
		dev  *Device
		part int // every part-th case runs
	}
	var devices []share
	for _, isa := range []string{"portable", "avx2", "avx512"} {
		for _, threads := range []int{1, 2} {
			if !has(detect(), isa) {
				t.Logf("this CPU has no %s", isa)
				continue
			}
			t.Setenv("GEMMAUDIT_ISA", isa)
			s := share{fmt.Sprintf("%s/%d threads", isa, threads), open(t, threads), 8}
			if threads == 1 {
				s.part = 12
			} else if isa == best {
				s.part = 4
			}
			if testing.Short() {
				s.part = 24
			}
			devices = append(devices, s)
		}
	}
	for turn, dt := range []kernels.DType{kernels.FP16, kernels.BF16, kernels.FP32} {
		for i, c := range kernels.AttentionCases(dt, 64) {
			c.Heads.Dim = dims[(i+3*turn)%len(dims)]
			if c.LDQ > 0 {
				c.LDQ = c.Heads.Query*c.Heads.Dim + 3
			}
			var check *kernels.AttentionCheck
			for _, on := range devices {
				if (i+turn)%on.part > 0 {
					continue
				}
				if check == nil {
					var err error
					if check, err = kernels.NewAttentionCheck(c, uint64(i)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := check.Margin(t.Context(), on.dev, on.dev.Attend); err != nil {
					t.Errorf("%s: %v", on.name, err)
				}
			}
		}
	}
}

// Work is divided by rows, heads and sequence, independent of the number of threads.
func TestThreadsDoNotChangeAttention(t *testing.T) { onEachISA(t, threadsDoNotChangeAttention) }

func threadsDoNotChangeAttention(t *testing.T, _ string) {
	for _, c := range []struct{ rows, query, kv, position, window int }{
		{1, 8, 1, 3000, 0}, {1, 8, 8, 5000, 3000}, {7, 4, 2, 1100, 0}, {130, 6, 2, 40, 0}, {70, 8, 1, 700, 64},
	} {
		var want []byte
		for _, threads := range []int{1, 2, 3, 5} {
			dev := open(t, threads)
			a := attention(t, dev, kernels.FP16, c.rows, kernels.Heads{Query: c.query, KV: c.kv, Dim: 64}, c.position, c.window)
			l, err := dev.Attend(a)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dev.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
				t.Fatal(err)
			}
			got := contents(t, a.Out.Buffer.(*Buffer))
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%+v: %d threads give other bits than one", c, threads)
			}
		}
	}
}

func attention(t testing.TB, dev *Device, dt kernels.DType, rows int, h kernels.Heads, position, window int) kernels.Attention {
	t.Helper()
	c, err := kernels.AttentionCase{Rows: rows, Heads: h, DType: dt, Position: position, Window: window}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	operand := func(n int, seed uint64) kernels.Operand { return kernels.Operand{Buffer: fill(t, dev, dt, n, seed)} }
	where := fill(t, dev, kernels.FP32, 1, 1)
	if err := where.Upload(0, []byte{byte(position), byte(position >> 8), byte(position >> 16), 0}); err != nil {
		t.Fatal(err)
	}
	slots := h.KV * c.Capacity * h.Dim
	return kernels.Attention{Rows: rows, Heads: h, DType: dt, Window: window, Scale: c.Scale, LDQ: c.LDQ, Length: c.Length,
		Q: operand(rows*h.Query*h.Dim, 1), Position: kernels.Operand{Buffer: where}, Out: operand(rows*h.Query*h.Dim, 2),
		Cache: kernels.KVCache{Capacity: c.Capacity, Keys: operand(slots, 3), Values: operand(slots, 4)}}
}

func TestAttendRefuses(t *testing.T) {
	dev := open(t, 1)
	good := attention(t, dev, kernels.FP16, 3, kernels.Heads{Query: 4, KV: 2, Dim: 64}, 500, 200)
	if _, err := dev.Attend(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		change func(*kernels.Attention)
		want   string
	}{
		{func(a *kernels.Attention) { a.Rows = 0 }, "rows is 0"},
		{func(a *kernels.Attention) { a.Heads.KV = 3 }, "do not divide evenly"},
		{func(a *kernels.Attention) { a.Heads.Dim = 4096 }, "at most 2048"},
		{func(a *kernels.Attention) { a.DType = kernels.INT8 }, `dtype is "int8"`},
		{func(a *kernels.Attention) { a.Window = -1 }, "window is -1"},
		{func(a *kernels.Attention) { a.Window = 0 }, "cache capacity is 256, expected at least 503"},
		{func(a *kernels.Attention) { a.Window = 300 }, "expected at least 302"},
		{func(a *kernels.Attention) { a.LDQ = 255 }, "ldq is 255, expected at least 256"},
		{func(a *kernels.Attention) { a.Length = 2 }, "length is 2, expected at least 3"},
		{func(a *kernels.Attention) { a.Cache.Capacity = 300 }, "multiple of 256"},
		{func(a *kernels.Attention) { a.Q.Offset = 1 }, "operand Q"},
		{func(a *kernels.Attention) { a.Cache.Keys.Offset = -1 }, "operand Keys"},
		{func(a *kernels.Attention) { a.Cache.Values.Buffer = nil }, "operand Values"},
		{func(a *kernels.Attention) { a.Position.Offset = 1 }, "operand Position"},
		{func(a *kernels.Attention) { a.Out.Offset = 64 }, "operand Out"},
	} {
		a := good
		bad.change(&a)
		if l, err := dev.Attend(a); l != nil || err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("got %v, want it to contain %q", err, bad.want)
		}
	}
}
