package decoder

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/gemv"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

func TestFusedPlans(t *testing.T) {
	used := map[string]bool{}
	for _, a := range cudatest.Archs {
		for _, dt := range kernels.DTypes() {
			for _, n := range []int{1, 2, 17, 4096, 28672, 128256} {
				for _, k := range []int{1, 9, 1000, 4096, 14336, 100000} {
					for _, norm := range []bool{false, true} {
						p := kernels.FusedProduct{N: n, K: k, DType: dt, Norm: norm, Gated: n%2 == 0, Epsilon: 1e-5}
						if fusedReason(a, p) != "" {
							continue
						}
						c, label := fusedPlan(a, p,
							fusedAddresses{b: 1 << 32, a: 2 << 32, x: 3 << 32, weight: 4 << 32, c: 5 << 32, ldb: support.PackedLDB(dt, k)})
						if err := cudatest.CheckCall(a, c); err != nil || label == "" {
							t.Fatalf("%d, %s n%d k%d norm %v: %q, %v", a.CC, dt, n, k, norm, label, err)
						}
						used[c.Kernel] = true
						if rows := c.Grid.X * gemv.Rows; !strings.Contains(c.Kernel, "ring") && (rows < n || rows > n+30) {
							t.Errorf("%s n%d: %d blocks", dt, n, c.Grid.X)
						}
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_fused_", used)
}

// Exactly two blocks of a ring fit on a multiprocessor of an H200, because a third would unbalance the load.
// A row that is too long has no ring.
func TestRings(t *testing.T) {
	for _, c := range []struct {
		n, k   int
		d      kernels.DType
		stages int
	}{
		{6144, 4096, kernels.FP16, 5},
		{4096, 14336, kernels.BF16, 5},
		{28672, 4096, kernels.FP16, 5},
		{4096, 1024, kernels.FP16, 10},
		{4096, 28672, kernels.FP16, 0},
		{4096, 4096, kernels.FP32, 0},
	} {
		p := kernels.FusedProduct{N: c.n, K: c.k, DType: c.d}
		r, ok := ringFor(cudatest.H200, p)
		if ok != (c.stages > 0) || ok && r.stages != c.stages {
			t.Errorf("n%d k%d %s: %+v, %v, want %d stages", c.n, c.k, c.d, r, ok, c.stages)
		}
		if !ok {
			continue
		}
		const reserved = 1 << 10 // the system reserves it per block; SharedMax excludes it once
		if each, all := ringShared(p, r.stages)+reserved, cudatest.H200.SharedMax+reserved; 2*each > all || 3*each <= all {
			t.Errorf("n%d k%d: blocks of %d bytes on multiprocessors of %d", c.n, c.k, each, all)
		}
	}
	old := cudatest.H200
	old.CC = 80
	if r, ok := ringFor(old, kernels.FusedProduct{N: 64, K: 64, DType: kernels.FP16}); ok {
		t.Errorf("a ring on 8.0: %+v", r)
	}
}

func TestFusedArgs(t *testing.T) {
	at := fusedAddresses{b: 1 << 20, a: 2 << 20, x: 3 << 20, weight: 8, c: 5 << 20, ldb: 104}
	p := kernels.FusedProduct{N: 64, K: 100, DType: kernels.FP16, Norm: true, Gated: true, Epsilon: 1}
	want := new(planning.Args).Pointer(1<<20).Pointer(2<<20).Pointer(3<<20).Pointer(8).Pointer(5<<20).Int64(104).
		Int32(0x3f800000, 64, 100, 32, 1, 5, 7)
	if got := fusedArgs(p, at, ring{stages: 5, early: 7}); string(got.Bytes) != string(want.Bytes) {
		t.Errorf("% x, want % x", got.Bytes, want.Bytes)
	}
	for _, c := range []struct {
		change  func(*kernels.FusedProduct, *fusedAddresses)
		aligned int
	}{
		{func(*kernels.FusedProduct, *fusedAddresses) {}, 1},
		{func(_ *kernels.FusedProduct, at *fusedAddresses) { at.weight = 4 }, 0},
		{func(_ *kernels.FusedProduct, at *fusedAddresses) { at.x += 4 }, 0},
		{func(_ *kernels.FusedProduct, at *fusedAddresses) { at.a += 2 }, 1},
		{func(p *kernels.FusedProduct, _ *fusedAddresses) { p.K = 99 }, 0},
		{func(p *kernels.FusedProduct, at *fusedAddresses) { p.Norm = false; at.a += 2 }, 0},
		{func(p *kernels.FusedProduct, at *fusedAddresses) { p.Norm = false; p.K = 99 }, 1},
	} {
		q, to := p, at
		c.change(&q, &to)
		const offset = 6*8 + 4*4
		if got := fusedArgs(q, to, ring{}).Bytes[offset]; int(got) != c.aligned {
			t.Errorf("%+v at %+v: aligned is %d, want %d", q, to, got, c.aligned)
		}
	}
}

func TestFusedReason(t *testing.T) {
	turing := cudatest.Archs[0]
	for _, c := range []struct {
		a    planning.Arch
		p    kernels.FusedProduct
		want string
	}{
		{cudatest.H200, kernels.FusedProduct{N: 8, K: 8, DType: kernels.FP16, Norm: true}, ""},
		{cudatest.H200, kernels.FusedProduct{N: 8, K: 8, DType: kernels.FP8}, "fused products are of fp32, fp16 and bf16, not fp8"},
		{turing, kernels.FusedProduct{N: 8, K: 8, DType: kernels.BF16}, "bf16 needs compute capability 8.0, this GPU has 7.5"},
		{cudatest.H200, kernels.FusedProduct{N: 8, K: 1 << 30, DType: kernels.FP32}, "a row of K 1073741824 is beyond 2 GiB"},
		{turing, kernels.FusedProduct{N: 8, K: 1 << 15, DType: kernels.FP16}, ""},
		{turing, kernels.FusedProduct{N: 8, K: 1 << 15, DType: kernels.FP16, Norm: true},
			fmt.Sprintf("a norm of K 32768 takes %d bytes of shared memory, a block has 65536", 4*640+48+65536)},
	} {
		if got := fusedReason(c.a, c.p); got != c.want {
			t.Errorf("%+v on %d: %q, want %q", c.p, c.a.CC, got, c.want)
		}
	}
}

func TestNotFused(t *testing.T) {
	err := fmt.Errorf("fuse n8 k8 fp8: %w", notFused{&kernels.Unsupported{Kernel: "fuse", DType: kernels.FP8, Reason: "there is none"}})
	var unsupported *kernels.Unsupported
	if !errors.As(err, &unsupported) || unsupported.DType != kernels.FP8 {
		t.Errorf("%v is no *kernels.Unsupported", err)
	}
	if want := "fuse n8 k8 fp8: there is none"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
