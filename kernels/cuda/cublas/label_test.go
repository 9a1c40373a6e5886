package cublas

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestTileNames compares the enumeration with a digest of cublasLt.h 13.0's, where every number has a name.
func TestTileNames(t *testing.T) {
	names := ltTiles()
	if len(names) != 646 {
		t.Fatalf("%d tiles, want 646", len(names))
	}
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(names, " "))))[:16]; got != tileDigest {
		t.Errorf("digest %s, want %s", got, tileDigest)
	}
	for id, want := range map[int]string{0: "", 1: "8x8", 23: "128x256", 35: "256x32", 36: "8x128", 311: "768x64",
		312: "64x16", 393: "128x8", 630: "768x80", 631: "256x512", 645: "256x1", 646: "id646", -1: "id-1"} {
		if got := ltTile(id); got != want {
			t.Errorf("tile %d is %q, want %q", id, got, want)
		}
	}
}

const tileDigest = "d4d671d0063feb63"

func TestStagesAndClusters(t *testing.T) {
	for id, want := range map[int][2]string{0: {}, 1: {"16", "1"}, 16: {"64", "4"}, 24: {"128", "6"}, 25: {"32", "10"},
		28: {"8", "5"}, 29: {"", "id29"}, 31: {"8", "3"}, 35: {"64", "auto"}, 38: {"768", "auto"}, 39: {"", "id39"}} {
		if depth, stages := ltStages(id); depth != want[0] || stages != want[1] {
			t.Errorf("stages %d are %q of depth %q, want %q", id, stages, depth, want)
		}
	}
	for id, want := range map[int]string{0: "", 2: "", 3: "2x1", 16: "1x16", 17: "3x1", 27: "15x1", 28: "3x2", 40: "3x5", 51: "1x15",
		52: "id52"} {
		if got := ltCluster(id); got != want {
			t.Errorf("cluster %d is %q, want %q", id, got, want)
		}
	}
}

func TestAlgorithmLabel(t *testing.T) {
	transposed := func(m, n, k, split int, waves float64) kernels.Tiling {
		return kernels.Tiling{Tile: [3]int{m, n, k}, Waves: waves, Split: split, Orientation: kernels.OrientationTransposed}
	}
	for want, c := range map[string]struct {
		kernels.Algorithm
		waves  float64
		tiling kernels.Tiling
	}{
		"algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1": {
			kernels.Algorithm{ID: 66, Tile: 23, Stages: 16, Cluster: 3, SplitK: 1}, 0.97, transposed(256, 128, 64, 1, 0.97)},
		"algo 13 tile 64x64x32 stages 6 splitk 4 in fp32 swizzle 1 option 2 inner 3": {
			kernels.Algorithm{ID: 13, Tile: 15, Stages: 12, SplitK: 4, Reduction: 2, Swizzle: 1, Custom: 2, Inner: 3}, 1.2121,
			transposed(64, 64, 32, 4, 1.2121)},
		"algo 0 splitk 1": {kernels.Algorithm{}, math.NaN(), transposed(0, 0, 0, 1, 0)},
		"algo 67 tile id900 splitk 2 in the output's type": {
			kernels.Algorithm{ID: 67, Tile: 900, SplitK: 2, Reduction: 4}, math.Inf(1), transposed(0, 0, 0, 2, 0)},
		"algo 67 tile 128x128x64 stages auto splitk 2 in place": {
			kernels.Algorithm{ID: 67, Tile: 20, Stages: 35, SplitK: 2, Reduction: 1}, 2, transposed(128, 128, 64, 2, 2)},
		"algo 71 tile 96x128 stages id29 splitk 1": {kernels.Algorithm{ID: 71, Tile: 28, Stages: 29}, 0, transposed(128, 96, 0, 1, 0)},
	} {
		one := ltConfig{Algorithm: c.Algorithm, waves: c.waves}
		if got := one.label(); got != want {
			t.Errorf("%+v: label %q, want %q", one, got, want)
		}
		if got := one.tiling(); got != c.tiling || got.Validate() != nil {
			t.Errorf("%s: %+v, want %+v", want, got, c.tiling)
		}
		if name, read := kernels.ReadLabel(want); name != want || read.Split != c.tiling.Split ||
			read.Tiled() && [2]int(read.Tile[:2]) != [2]int(c.tiling.Tile[:2]) {
			t.Errorf("%s: the label reads as %q %+v, the attributes say %+v", want, name, read, c.tiling)
		}
	}
}

func TestNamedTiling(t *testing.T) {
	for name, want := range map[string]kernels.Tiling{
		"nvjet_hsh_192x128_64x5_1x2_h_bz_coopB_NNT": {Tile: [3]int{128, 192},
			Orientation: kernels.OrientationTransposed},
		"nvjet_hsh_64x16_64x16_4x1_v_bz_splitK_NNT": {Tile: [3]int{16, 64}, Split: 2,
			Orientation: kernels.OrientationTransposed},
		"ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn + x": {Tile: [3]int{128, 64}, Orientation: kernels.OrientationUnknown},
		"gemv2T_kernel_val": {},
	} {
		if got, tiling := kernels.ReadLabel(name); got != name || tiling != want {
			t.Errorf("%s is read as %q %+v, want %+v", name, got, tiling, want)
		}
	}
}

func TestLtChoice(t *testing.T) {
	tile := slices.Index(ltTiles(), "128x256") // N by M
	for _, c := range []struct {
		waves float64
		m     int
		slots float64
	}{{16. / 132, 128, 132}, {32. / 132, 512, 132}, {34. / 132, 512, 132}, {16. / 264, 256, 264}, {0.66, 1, 132}, {0, 1, 0},
		{math.Inf(1), 1, 0}} {
		got := ltConfig{Algorithm: kernels.Algorithm{ID: 66, Tile: tile, Stages: 16, Cluster: 3}, waves: c.waves}.choice(c.m, 2048, 132)
		if got.Slots != c.slots || got.Tile != [3]int{256, 128, 64} || got.Stages != 4 || got.Cluster != [3]int{2, 1, 1} {
			t.Errorf("waves %v: %+v, expected %v at a time", c.waves, got, c.slots)
		}
	}
}
