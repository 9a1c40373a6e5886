package cpu

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestOpenBLASCandidates(t *testing.T) {
	avx2 := features{AVX2: true, FMA: true}
	avx512 := features{AVX2: true, FMA: true, AVX512: true}
	bf16 := features{AVX2: true, FMA: true, AVX512: true, AVX512BF16: true}
	amx := features{AVX2: true, FMA: true, AVX512: true, AVX512BF16: true, AMX: true, AMXBF16: true}
	for _, c := range []struct {
		f    features
		amd  bool
		want string
	}{
		{features{}, false, ""},
		{features{AVX2: true}, false, ""},
		{avx2, false, "Haswell"},
		{avx2, true, "Zen"},
		{avx512, false, "SkylakeX Haswell"},
		{bf16, true, "Cooperlake SkylakeX Zen"},
		{amx, false, "SapphireRapids Cooperlake SkylakeX Haswell"},
	} {
		got := openblasCandidates(c.f, c.amd)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v, amd %v: %v, want %s", c.f, c.amd, got, c.want)
		}
		if !slices.IsSortedFunc(got, func(a, b string) int { return openblasLevel(b) - openblasLevel(a) }) {
			t.Errorf("%v does not descend", got)
		}
	}
}

// On an unknown CPU, the library must run its best supported kernels and report that. The user's choice
// stays.
func TestOpenBLASCore(t *testing.T) {
	if _, set := os.LookupEnv(openblasCoreVariable); set {
		t.Skip(openblasCoreVariable + " is set")
	}
	candidates := hostCandidates()
	if len(candidates) == 0 {
		t.Skip("OpenBLAS has no faster kernels for this CPU")
	}
	best, last := candidates[0], candidates[len(candidates)-1]
	for _, c := range []struct{ name, core, known, told, want string }{
		{"unknown CPU", "Prescott", best, "", best + " (OPENBLAS_CORETYPE; its own choice is Prescott)"},
		{"older library", "Nehalem", last, "", last + " (OPENBLAS_CORETYPE; its own choice is Nehalem)"},
		{"nothing better", "Prescott", "Nehalem", "", "Prescott"},
		{"known CPU", best, best, "", best},
		{"newer library", "Zen9", best, "", "Zen9"},
		{"told", "Prescott", "Nehalem", "Nehalem", "Nehalem (OPENBLAS_CORETYPE)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.told != "" {
				t.Setenv(openblasCoreVariable, c.told)
			}
			t.Setenv("GEMMAUDIT_OPENBLAS", buildFake(t, `-DCORE="`+c.core+`"`, `-DKNOWN="`+c.known+`"`))
			for range 2 { // the second device reuses the choice
				d, g := libraryKernel(t, "openblas")
				if got, want := g.Describe(), "OpenBLAS 9.9.9 "+c.want+", packs B in every call"; got != want {
					t.Errorf("describes itself as %q, want %q", got, want)
				}
				if got, want := d.Spec().Versions["openblas"], "9.9.9 "+c.want; got != want {
					t.Errorf("version is %q, want %q", got, want)
				}
			}
			if got := os.Getenv(openblasCoreVariable); got != c.told {
				t.Errorf("%s is %q after", openblasCoreVariable, got)
			}
		})
	}
}

// The installed library must run correct kernels that use the CPU's vector width.
func TestOpenBLASIsAnHonestPeer(t *testing.T) {
	d, g := libraryKernel(t, "openblas")
	core, candidates := g.(openblas).core, hostCandidates()
	l, err := openblasName.open()
	if err != nil {
		t.Fatal(err)
	}
	if level := openblasLevel(core.name); core.set || level < 0 || len(candidates) == 0 || l.symbol("gotoblas_dynamic_init") == nil {
		t.Skipf("its core type %v is not ours to choose", core)
	} else if wide := openblasLevel("SkylakeX"); level < min(wide, openblasLevel(candidates[0])) {
		t.Errorf("it runs %v on a CPU for %v", core, candidates)
	}
	if s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1); err != nil || s.Passed == 0 {
		t.Errorf("%v: %+v, %v", core, s, err)
	}
}
