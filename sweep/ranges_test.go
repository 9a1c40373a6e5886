package sweep

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestParseTargetsTakesRanges(t *testing.T) {
	for _, c := range []struct {
		of    kernels.Operation
		in    string
		count int
		first Target
		last  Target
	}{
		{kernels.GEMM, "n4096k4096", 1, Target{N: 4096, K: 4096}, Target{N: 4096, K: 4096}},
		{kernels.GEMM, "n4000:4352:1k4096", 353, Target{N: 4000, K: 4096}, Target{N: 4352, K: 4096}},
		{kernels.GEMM, "N4000:4352 K4096", 353, Target{N: 4000, K: 4096}, Target{N: 4352, K: 4096}},
		{kernels.GEMM, "m64n4096k4096:8192:1024", 5, Target{M: 64, N: 4096, K: 4096}, Target{M: 64, N: 4096, K: 8192}},
		{kernels.GEMM, "n4000:4000:8k4096", 1, Target{N: 4000, K: 4096}, Target{N: 4000, K: 4096}},
		{kernels.GEMM, "n8:16:8k8:24:8", 6, Target{N: 8, K: 8}, Target{N: 16, K: 24}},
		{kernels.GEMM, "npow2:1024:8192k64", 4, Target{N: 1024, K: 64}, Target{N: 8192, K: 64}},
		{kernels.GEMM, "n64k64x1:4", 4, Target{N: 64, K: 64, Products: 1}, Target{N: 64, K: 64, Products: 4}},
		{kernels.AttentionDecode, "q8:32:8kv8d128", 4, Target{Heads: kernels.Heads{Query: 8, KV: 8, Dim: 128}},
			Target{Heads: kernels.Heads{Query: 32, KV: 8, Dim: 128}}},
		{kernels.Softmax, "c50256:50259", 4, Target{Columns: 50256}, Target{Columns: 50259}},
	} {
		got, err := ParseTargets(c.of, c.in)
		if err != nil || len(got) != c.count {
			t.Errorf("%q: %d targets (%v), want %d", c.in, len(got), err, c.count)
			continue
		}
		c.first.Operation, c.last.Operation = c.of, c.of
		if got[0] != c.first || got[len(got)-1] != c.last {
			t.Errorf("%q: %v to %v, want %v to %v", c.in, got[0], got[len(got)-1], c.first, c.last)
		}
	}
}

func TestParseTargetsRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"n4000:3000k64":        "the range is empty",
		"n1:2:3:4k64":          "too many colons",
		"n0:4k64":              "below 1",
		"m1:64n64k64":          "--batch",
		"n1:100000k1:100000":   "more than",
		"n1:99999999999k64":    "above",
		"q1:4k64":              "no dimension",
		"n1:4":                 "k is missing",
		"n1:4k":                "k: a number is missing",
		"n1:4k64n5":            "n is given twice",
		"pow2:64k64":           "no dimension",
		"n::k64":               "a number is missing",
		strings.Repeat("n", 9): "a number is missing",
	} {
		if got, err := ParseTargets(kernels.GEMM, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %d targets and %v, want %q", in, len(got), err, want)
		}
	}
}
