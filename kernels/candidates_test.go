package kernels

import "testing"

func TestCandidateNames(t *testing.T) {
	for name, want := range map[string]struct {
		kernel string
		n      int
	}{
		"cublaslt:1": {"cublaslt", 1}, "cublaslt:99": {"cublaslt", 99}, "cublaslt": {"cublaslt", 0},
		"cublaslt:0": {"cublaslt:0", 0}, "cublaslt:100": {"cublaslt:100", 0}, "cublaslt:01": {"cublaslt:01", 0},
		"cublaslt:+1": {"cublaslt:+1", 0}, "cublaslt:": {"cublaslt:", 0}, ":1": {":1", 0}, "a:b": {"a:b", 0}, "": {"", 0},
	} {
		kernel, n := SplitCandidate(name)
		if kernel != want.kernel || n != want.n {
			t.Errorf("%q is %q and %d, want %q and %d", name, kernel, n, want.kernel, want.n)
		}
		if n > 0 && CandidateName(kernel, n) != name {
			t.Errorf("%q and %d make %q, want %q", kernel, n, CandidateName(kernel, n), name)
		}
	}
}

func TestSides(t *testing.T) {
	of := func(blocks int, cluster [3]int) Choice {
		return Choice{Tiling: Tiling{Tile: [3]int{256, 64, 64}}, Cluster: cluster, Grid: [3]int{blocks, 1, 1}}
	}
	parts := func(blocks int) Choice {
		c := of(blocks, [3]int{})
		c.Split = 4
		return c
	}
	for _, c := range []struct {
		name   string
		choice Choice
		m, n   int
		want   int
	}{
		{"as it is told", of(32, [3]int{}), 300, 1024, 1},
		{"turned", of(20, [3]int{}), 300, 1024, -1},
		{"alike both ways", of(16, [3]int{}), 512, 512, 0},
		{"neither", of(7, [3]int{}), 300, 1024, 0},
		{"a whole cluster more", of(33, [3]int{3, 1, 1}), 300, 1024, 1},
		{"clusters along the other axes", of(33, [3]int{1, 3, 1}), 300, 1024, 1},
		{"parts of a cluster", of(34, [3]int{3, 1, 1}), 300, 1024, 0},
		{"parts along K", parts(64), 300, 1024, 1},
		{"parts along K, turned", parts(60), 300, 1024, -1},
		{"parts along K that fit neither", parts(65), 300, 1024, 0},
		{"no blocks", of(0, [3]int{}), 256, 1024, 0},
	} {
		if got := c.choice.Sides(c.m, c.n); got != c.want {
			t.Errorf("%s: %d, expected %d", c.name, got, c.want)
		}
	}
}
