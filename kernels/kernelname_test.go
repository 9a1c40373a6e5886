package kernels

import (
	"math"
	"testing"
)

func TestReadLabel(t *testing.T) {
	for label, want := range map[string]struct {
		name string // the label if empty
		t    Tiling
	}{
		"": {},
		"ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn": {t: Tiling{Tile: [3]int{256, 128},
			Orientation: OrientationUnknown}},
		"ampere_fp16_s1688gemm_fp16_64x128_sliced1x2_ldg8_f2f_nn": {t: Tiling{Tile: [3]int{64, 128},
			Orientation: OrientationUnknown}},
		"void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32x6_>": {t: Tiling{Tile: [3]int{64, 64}}},
		"sm90_xmma_gemm_bf16bf16_tilesize128x256x64_warpgroupsize2x1x1": {t: Tiling{Tile: [3]int{128, 256},
			Orientation: OrientationUnknown}},
		"gemvx::kernel": {},
		"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT": {t: Tiling{Tile: [3]int{128, 256}, Orientation: OrientationTransposed}},
		"nvjet_256x128 + cublasLt::splitKreduce_kernel":  {t: Tiling{Tile: [3]int{128, 256}, Split: 2, Orientation: OrientationTransposed}},
		"algo 66 tile 128x256x64 stages 4 splitk 1 waves 0.97": {
			"algo 66 tile 128x256x64 stages 4 splitk 1",
			Tiling{Tile: [3]int{256, 128}, Waves: 0.97, Split: 1, Orientation: OrientationTransposed}},
		"algo 66 tile 128x256x64 stages 4 splitk 3 in fp32 waves 0.97": {
			"algo 66 tile 128x256x64 stages 4 splitk 3 in fp32",
			Tiling{Tile: [3]int{256, 128}, Waves: 0.97, Split: 3, Orientation: OrientationTransposed}},
		"algo 0 splitk 1 waves 0.00":              {"algo 0 splitk 1", Tiling{Split: 1}},
		"hopper 192x128t stages 4 cluster 1x2":    {t: Tiling{Tile: [3]int{192, 128}}},
		"hopper 128x256 stages 4 split 60 of 120": {t: Tiling{Tile: [3]int{128, 256}, Split: 2}},
		"hopper 192x128t turns stages 4":          {t: Tiling{Tile: [3]int{192, 128}}},
		"narrow 16x128 stages 11 cluster 1x2":     {t: Tiling{Tile: [3]int{16, 128}}},
		"128x256x32 stages 4 splits 2":            {t: Tiling{Tile: [3]int{128, 256}, Split: 2, Orientation: OrientationUnknown}},
		"lib split_k_8":                           {t: Tiling{Split: 8}},
		"lib splitk 99999999999999999999":         {t: Tiling{Split: 2}},
		"gemv 1x32 memory":                        {},
		"640x128, 100x64":                         {},
		"a kernel that waves about":               {},
		"a kernel waves -1":                       {},
		"a kernel waves NaN":                      {},
		" waves 3":                                {},
		"a kernel waves 2 waves 3":                {"a kernel waves 2", Tiling{Waves: 3}},
	} {
		if want.name == "" {
			want.name = label
		}
		if name, got := ReadLabel(label); name != want.name || got != want.t {
			t.Errorf("%q: %q %+v, want %q %+v", label, name, got, want.name, want.t)
		}
	}
}

func FuzzReadLabel(f *testing.F) {
	f.Add("algo 66 tile 128x256x64 stages 4 splitk 3 in fp32 waves 0.97")
	f.Add("nvjet_256x128 split 60 of 120")
	f.Fuzz(func(t *testing.T, label string) {
		name, read := ReadLabel(label)
		if err := read.Validate(); err != nil || len(name) > len(label) || name != label && read.Waves < 0 {
			t.Errorf("%q: %q %+v: %v", label, name, read, err)
		}
	})
}

func TestTilingOr(t *testing.T) {
	full := Tiling{Tile: [3]int{64, 128, 32}, Waves: 2, Split: 1, Orientation: OrientationTransposed}
	for _, c := range []struct{ has, other, want Tiling }{
		{Tiling{}, full, full},
		{full, Tiling{Tile: [3]int{8, 8, 8}, Waves: 9, Split: 9}, full},
		{Tiling{Split: 3}, full, Tiling{Tile: full.Tile, Waves: 2, Split: 3, Orientation: OrientationTransposed}},
		{Tiling{Tile: [3]int{64, 128, 32}}, full, Tiling{Tile: [3]int{64, 128, 32}, Waves: 2, Split: 1}},
		{Tiling{Tile: [3]int{64}, Orientation: OrientationUnknown}, Tiling{Waves: 1},
			Tiling{Tile: [3]int{64}, Waves: 1, Orientation: OrientationUnknown}},
	} {
		if got := c.has.Or(c.other); got != c.want {
			t.Errorf("%+v or %+v is %+v, want %+v", c.has, c.other, got, c.want)
		}
	}
}

func TestTilingValidate(t *testing.T) {
	for want, l := range map[string]Tiling{
		"":             {Tile: [3]int{1, 2, 3}, Waves: 0.5, Split: 1},
		"tile_n is -1": {Tile: [3]int{1, -1, 3}},
		"waves is NaN": {Waves: math.NaN()},
		"waves is -1":  {Waves: -1},
		"split is -2":  {Split: -2},
	} {
		got := ""
		if err := l.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

func TestKernelOf(t *testing.T) {
	for label, want := range map[string]string{
		"hopper 128x192 stages 4 cluster 2x1 split 60 of 120": "hopper 128x192 stages 4 cluster 2x1",
		"hopper narrow 112x64 stages 10 cluster 2x1":          "hopper narrow 112x64 stages 10 cluster 2x1",
		"algo 66 tile 128x256 splitk 4 waves 1.5":             "algo 66 tile 128x256 splitk 4",
		"nvjet_sm90_tst_256x152_64x4_1x2_h_bz_coopA_NNT":      "nvjet_sm90_tst_256x152_64x4_1x2_h_bz_coopA_NNT",
		"": "",
	} {
		if got := KernelOf(label); got != want {
			t.Errorf("%q: %q, want %q", label, got, want)
		}
	}
}
