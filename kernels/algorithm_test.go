package kernels

import (
	"testing"

	"pgregory.net/rapid"
)

func TestAlgorithmNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int { return rapid.IntRange(0, mostAttribute).Draw(t, name) }
		a := Algorithm{number("id"), number("tile"), number("stages"), number("split"), number("reduction"), number("swizzle"),
			number("custom"), number("inner"), number("cluster")}
		if a == (Algorithm{}) {
			return
		}
		name := AlgorithmName("cublaslt@13", a)
		kernel, got, ok := SplitAlgorithm(name)
		if kernel != "cublaslt@13" || got != a || !ok {
			t.Errorf("%s is %q, %+v, %v", name, kernel, got, ok)
		}
		if base, n := SplitCandidate(name); base != name || n != 0 {
			t.Errorf("%s is choice %d of %s", name, n, base)
		}
	})
	for _, name := range []string{
		"cublaslt", "cublaslt:3", ":id1_tile1_stages1_splitk1_red0_swizzle0_custom0_inner0_cluster0",
		"cublaslt:id0_tile0_stages0_splitk0_red0_swizzle0_custom0_inner0_cluster0",
		"cublaslt:id1_tile1_stages1_splitk1_red0_swizzle0_custom0_inner0_cluster0x",
		"cublaslt:id01_tile1_stages1_splitk1_red0_swizzle0_custom0_inner0_cluster0",
		"cublaslt:id1_tile-1_stages1_splitk1_red0_swizzle0_custom0_inner0_cluster0",
		"cublaslt:id1_tile1_stages1_splitk1_red0_swizzle0_custom0_inner0_cluster65536",
	} {
		if kernel, a, ok := SplitAlgorithm(name); ok || kernel != name {
			t.Errorf("%s was taken apart into %s and %+v", name, kernel, a)
		}
	}
}
