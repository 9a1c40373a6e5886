package cublas

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func scaledTask(t *testing.T, m, n, k int, weights string) kernels.Task {
	t.Helper()
	f, err := kernels.ParseWeights(weights)
	if err == nil {
		f, err = f.For(kernels.FP8, k)
	}
	p := kernels.Task{Subject: kernels.Linear(kernels.FP8, n, k), M: m}.WithWeights(f)
	if err == nil {
		p, err = p.Normalized()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestScaledRefusal(t *testing.T) {
	for _, tt := range []struct {
		m                int
		weights          string
		major, minor, cc int
		want             string
	}{
		{64, "fp8:128x128", 12, 9, 90, ""},
		{65, "fp8:128x128", 13, 1, 90, "pad 65 to 68"},
		{1, "fp8:128", 13, 1, 90, "pad 1 to 4"},
		{65, "fp8:column", 13, 1, 90, ""},
		{64, "fp8:128x128", 12, 8, 90, "needs version 12.9, this is 12.8"},
		{64, "fp8:128x128", 13, 1, 89, "needs compute capability 9.0"},
		{64, "fp8:64x64", 13, 1, 90, "not fp8 g64x64"},
	} {
		got := scaledRefusal(scaledTask(t, tt.m, 256, 512, tt.weights), tt.major, tt.minor, tt.cc)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("m%d %s on %d.%d: %q, expected %q", tt.m, tt.weights, tt.major, tt.minor, got, tt.want)
		}
	}
	far := scaledTask(t, 64, 256, 512, "fp8:128x128")
	far.LDScales = 68
	if got := scaledRefusal(far, 13, 1, 90); !strings.Contains(got, "of M, 64, not 68") {
		t.Errorf("another distance: %q", got)
	}
}

func TestLaidScales(t *testing.T) {
	count := func(n int) (out []float32) {
		for i := range n {
			out = append(out, float32(i+1))
		}
		return out
	}
	for _, tt := range []struct {
		weights string
		n, k    int
		want    []float32
		same    bool
	}{
		{"fp8:column", 3, 512, []float32{1, 2, 3}, true},
		{"fp8:128x128", 256, 512, count(8), true},
		{"fp8:128x128", 256, 384, []float32{1, 2, 3, 0, 4, 5, 6, 0}, false},
		{"fp8:128", 4, 256, []float32{1, 3, 5, 7, 2, 4, 6, 8}, false},
	} {
		p := scaledTask(t, 4, tt.n, tt.k, tt.weights)
		raw := count(len(tt.want))
		if tt.n == 256 && tt.k == 384 {
			raw = count(6)
		}
		got, same := laidScales(p, raw)
		if !slices.Equal(got, tt.want) || same != tt.same {
			t.Errorf("%s k%d: %v, %v, expected %v, %v", tt.weights, tt.k, got, same, tt.want, tt.same)
		}
	}
}
