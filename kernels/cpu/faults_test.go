package cpu

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestLibraryFaults(t *testing.T) {
	for _, c := range []struct {
		library, release, isa string
		wrong                 bool // ordinary int8
		known                 int
	}{
		{"onednn", "2.6.3", "avx2", true, 1},
		{"onednn", "2.6.3", "avx512_core", true, 2},
		{"onednn", "2.6.3", "avx512_core_vnni", false, 2},
		{"onednn", "2.6.3", "avx512_core_amx", false, 1},
		{"onednn", "2.6.3", "avx2_vnni", false, 0},
		{"onednn", "2.6.3", "", false, 0},
		{"onednn", "2.7.1", "avx2", true, 1},
		{"onednn", "3.2.0", "avx2", true, 1},
		{"onednn", "2.6.2", "avx2", false, 0},
		{"onednn", "3.2.1", "avx2", false, 0},
		{"onednn", "of unknown version", "avx2", false, 0},
		{"openblas", "2.6.3", "avx2", false, 0},
	} {
		s := kernels.Spec{Faults: faultsOf(c.library, "onednn-a", c.release, c.isa)}
		if len(s.Faults) != c.known {
			t.Errorf("%+v: %+v", c, s.Faults)
		}
		if _, wrong := s.WrongResults("onednn-a:2", kernels.INT8); wrong != c.wrong {
			t.Errorf("%+v: int8 is wrong: %v", c, wrong)
		}
		if _, wrong := s.WrongResults("onednn", kernels.INT8); wrong {
			t.Errorf("%+v: another kernel has the fault", c)
		}
		if f, ok := s.KnownFault("onednn-a", kernels.INT8, kernels.CheckExtremes); ok != c.wrong || ok && f.Kernel != "onednn-a" {
			t.Errorf("%+v: %+v, %v", c, f, ok)
		}
		if _, ok := s.KnownFault("onednn-a", kernels.INT8, kernels.CheckPadding); ok {
			t.Errorf("%+v: padding is not known to fail", c)
		}
	}
}

func TestISAsAreCapped(t *testing.T) {
	all := features{AVX2: true, FMA: true, F16C: true, AVX512: true, AVX512VNNI: true, AVX512BF16: true, AVXVNNI: true,
		AMX: true, AMXBF16: true, AMXINT8: true}
	for isa, want := range map[string]string{
		"":            "avx2 fma f16c avx_vnni avx512 avx512_vnni avx512_bf16 amx",
		"amx":         "avx2 fma f16c avx_vnni avx512 avx512_vnni avx512_bf16 amx",
		"avx512":      "avx2 fma f16c avx_vnni avx512 avx512_vnni avx512_bf16",
		"avx512-vnni": "avx2 fma f16c avx_vnni avx512 avx512_vnni",
		"avx512-core": "avx2 fma f16c avx512",
		"avx2":        "avx2 fma f16c",
		"portable":    "",
	} {
		f, err := capped(all, isa)
		if err != nil {
			t.Fatal(err)
		}
		amx := f.AMX
		f.dropAMX("")
		got := f.names()
		if amx {
			got = append(got, "amx")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("GEMMAUDIT_ISA=%s: %v, expected %s", isa, got, want)
		}
	}
	if _, err := capped(all, "avx10"); err == nil ||
		!strings.Contains(err.Error(), "expected portable, avx2, avx512-core, avx512-vnni, avx512 or amx") {
		t.Errorf("avx10: %v", err)
	}
}
