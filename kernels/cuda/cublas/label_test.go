package cublas

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// TestTileNames holds the enumeration against a digest of the one in cublasLt.h of
// version 13.0, in which every number has a name.
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
	for id, want := range map[int]string{0: "", 2: "", 3: "2x1", 16: "1x16", 17: "3x1", 27: "15x1", 28: "3x2", 40: "3x5", 51: "1x15", 52: "id52"} {
		if got := ltCluster(id); got != want {
			t.Errorf("cluster %d is %q, want %q", id, got, want)
		}
	}
}

func TestAlgorithmLabel(t *testing.T) {
	for want, c := range map[string]ltConfig{
		"algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1 waves 0.97":                      {id: 66, tile: 23, stages: 16, cluster: 3, splitK: 1, waves: 0.97},
		"algo 13 tile 64x64x32 stages 6 splitk 4 in fp32 swizzle 1 option 2 inner 3 waves 1.21": {id: 13, tile: 15, stages: 12, splitK: 4, reduction: 2, swizzle: 1, customOption: 2, inside: 3, waves: 1.2121},
		"algo 0 splitk 1 waves 0.00":                                       {},
		"algo 67 tile id900 splitk 2 in the output's type waves 2.00":      {id: 67, tile: 900, splitK: 2, reduction: 4, waves: 2},
		"algo 67 tile 128x128x64 stages auto splitk 2 in place waves 2.00": {id: 67, tile: 20, stages: 35, splitK: 2, reduction: 1, waves: 2},
	} {
		if got := c.label(); got != want {
			t.Errorf("%+v: label %q, want %q", c, got, want)
		}
	}
}
