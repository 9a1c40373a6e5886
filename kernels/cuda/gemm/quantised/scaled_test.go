package quantised

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func scaledTask(t interface{ Fatal(...any) }, of string, m, n, k int) kernels.Task {
	f, err := kernels.ParseWeights(of)
	if err == nil {
		f, err = f.For(kernels.FP8, k)
	}
	if err != nil {
		t.Fatal(err)
	}
	q, err := kernels.Task{Subject: kernels.Linear(kernels.FP8, n, k), M: m}.WithWeights(f).Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Choices are within the kernel's limits, and a split is of tiles that exist.
func TestScaledChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom([]string{"fp8:128x128", "fp8:128", "fp8:column"}).Draw(t, "weights")
		q := scaledTask(t, of, rapid.IntRange(1, 9000).Draw(t, "m"), rapid.IntRange(1, 30000).Draw(t, "n"),
			16*rapid.IntRange(8, 1000).Draw(t, "k16"))
		all := scaledChoices(cudatest.H200, q)
		if len(all) == 0 {
			t.Fatalf("no choice for %v", q)
		}
		for _, c := range all {
			if shared := c.shared(c.stages); shared > planning.Shared90 || c.stages < 3 {
				t.Fatalf("%s: %d bytes of shared memory", c.label(), shared)
			}
			if c.split > c.tiles() || c.blocks > cudatest.H200.SMs || c.blocks%c.size != 0 || c.tokens/c.size%8 != 0 {
				t.Fatalf("%s: %d blocks", c.label(), c.blocks)
			}
			if c.seconds(cudatest.H200, q) <= 0 {
				t.Fatalf("%s: no time", c.label())
			}
		}
		for _, c := range wideChoices(cudatest.H200, q) {
			if shared := c.shared(c.stages); shared > planning.Shared90 || c.stages < 3 {
				t.Fatalf("%s: %d bytes of shared memory", c.label(), shared)
			}
			if c.split > c.tiles() || c.blocks > cudatest.H200.SMs || c.blocks%c.pair.size() != 0 {
				t.Fatalf("%s: %d blocks", c.label(), c.blocks)
			}
			if c.seconds(cudatest.H200, q) <= 0 {
				t.Fatalf("%s: no time", c.label())
			}
		}
	})
}

// What the kernel does not take is refused with the reason.
func TestScaledSupports(t *testing.T) {
	stride := scaledTask(t, "fp8:128x128", 7, 256, 512)
	stride.LDScales = 7
	for _, c := range []struct {
		arch planning.Arch
		task kernels.Task
		want string // part of the reason, "" if it runs
	}{
		{cudatest.H200, scaledTask(t, "fp8:128x128", 7, 256, 512), ""},
		{cudatest.H200, scaledTask(t, "fp8:column", 7, 256, 528), ""},
		{cudatest.H200, stride, "7 apart, expected a multiple"},
		{cudatest.H200, scaledTask(t, "fp8:128x128", 7, 256, 520), "k is 520, expected a multiple of 16"},
		{cudatest.H200, scaledTask(t, "fp8:64x64", 7, 256, 512), "scales of 64 along K, expected 128"},
		{cudatest.T4, scaledTask(t, "fp8:128x128", 7, 256, 512), "GPU has 7.5"},
	} {
		got := Scaled{}.Supports(c.arch, gemm.InBuffers(c.task))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, expected %q", c.task, got, c.want)
		}
	}
}

// Every launch that may be chosen uses embedded device code and stays within the limits of both.
func TestScaledLaunches(t *testing.T) {
	at := gemm.Addresses{A: 1 << 32, B: 2 << 32, C: 3 << 32, Scratch: 4 << 32, Flags: 5 << 32, ScalesA: 6 << 32, ScalesB: 7 << 32}
	used := map[string]bool{}
	for _, of := range []string{"fp8:128x128", "fp8:128", "fp8:column"} {
		for _, m := range []int{1, 16, 100, 513, 4096} {
			for _, nk := range [][2]int{{4096, 7168}, {130, 528}, {24576, 1536}} {
				q := scaledTask(t, of, m, nk[0], nk[1])
				for _, plan := range (Scaled{}).Candidates(cudatest.H200, gemm.InBuffers(q)) {
					for _, c := range plan.Bind(at) {
						if err := cudatest.CheckCall(cudatest.H200, c); err != nil {
							t.Fatalf("%v %s: %v", q, plan.Label, err)
						}
						used[c.Kernel] = true
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_hopper_scaled_", used)
}
