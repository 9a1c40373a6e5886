package cublas

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// ltConfig is cuBLASLt's description of an algorithm (cublasLtMatmulAlgoConfigGetAttribute, and the waves of
// the result).
type ltConfig struct {
	kernels.Algorithm
	waves     float64
	workspace int64
}

// The reduction schemes of split-K (cublasLtReductionScheme_t).
const (
	reduceInPlace = 1
	reduceCompute = 2 // in the accumulator's type
	reduceOutput  = 4 // in the output's type
)

// label is the algorithm's name in rows: "algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1". The tile's
// first side lies along N, because the library computes the transposed product. Waves are left out: they
// differ between rows of one algorithm.
func (c ltConfig) label() string {
	var b strings.Builder
	fmt.Fprintf(&b, "algo %d", c.ID)
	depth, stages := ltStages(c.Stages)
	if tile := ltTile(c.Tile); tile != "" {
		fmt.Fprintf(&b, " tile %s", tile)
		if depth != "" {
			fmt.Fprintf(&b, "x%s", depth)
		}
	}
	if stages != "" {
		fmt.Fprintf(&b, " stages %s", stages)
	}
	if cluster := ltCluster(c.Cluster); cluster != "" {
		fmt.Fprintf(&b, " cluster %s", cluster)
	}
	fmt.Fprintf(&b, " splitk %d", max(1, c.SplitK))
	if c.SplitK > 1 {
		switch c.Reduction {
		case reduceInPlace:
			b.WriteString(" in place")
		case reduceCompute:
			b.WriteString(" in fp32")
		case reduceOutput:
			b.WriteString(" in the output's type")
		}
	}
	if c.Swizzle != 0 {
		fmt.Fprintf(&b, " swizzle %d", c.Swizzle)
	}
	if c.Custom != 0 {
		fmt.Fprintf(&b, " option %d", c.Custom)
	}
	if c.Inner != 0 {
		fmt.Fprintf(&b, " inner %d", c.Inner)
	}
	return b.String()
}

// tiling returns the launch's tiling by rows and columns of C. The heuristic's waves may be fractional.
func (c ltConfig) tiling() kernels.Tiling {
	t := kernels.Tiling{Split: max(1, c.SplitK), Orientation: kernels.OrientationTransposed}
	if rows, cols, ok := sides(ltTile(c.Tile)); ok {
		t.Tile = [3]int{cols, rows}
		depth, _ := ltStages(c.Stages)
		t.Tile[2], _ = strconv.Atoi(depth) // 0 if there is no depth
	}
	if c.waves > 0 && !math.IsInf(c.waves, 0) {
		t.Waves = c.waves
	}
	return t
}

// choice returns the launch for m by n of C on sms multiprocessors. Each multiprocessor runs whole blocks, so
// concurrent tiles follow from the waves, however the library rounds them.
func (c ltConfig) choice(m, n, sms int) kernels.Choice {
	choice := kernels.Choice{Label: c.label(), Tiling: c.tiling(), Algorithm: c.Algorithm}
	if t := choice.Tiling; t.Tiled() && t.Waves > 0 {
		tiles := planning.DivideUp(m, t.Tile[0]) * planning.DivideUp(n, t.Tile[1]) * t.Split
		choice.Slots = float64(sms) * max(1, math.Round(float64(tiles)/(t.Waves*float64(sms))))
	}
	_, stages := ltStages(c.Stages)
	choice.Stages, _ = strconv.Atoi(stages) // 0 if the library chooses them
	if x, y, ok := sides(ltCluster(c.Cluster)); ok {
		choice.Cluster = [3]int{x, y, 1}
	}
	return choice
}

func sides(tile string) (rows, cols int, ok bool) {
	a, b, _ := strings.Cut(tile, "x")
	rows, errA := strconv.Atoi(a)
	cols, errB := strconv.Atoi(b)
	return rows, cols, errA == nil && errB == nil
}

// ltTile returns the name of a tile (cublasLtMatmulTile_t), the number if unknown, "" for undefined. Versions
// up to 12.4 have the first 36; later ones added the rest.
func ltTile(id int) string {
	tiles := ltTiles()
	switch {
	case id == 0:
		return ""
	case id > 0 && id < len(tiles):
		return tiles[id]
	}
	return fmt.Sprintf("id%d", id)
}

// ltTiles lists the enumeration. It grew in four steps; each added the omitted tiles in order.
var ltTiles = sync.OnceValue(func() []string {
	tiles := strings.Fields(`- 8x8 8x16 16x8 8x32 16x16 32x8 8x64 16x32 32x16 64x8 32x32 32x64 64x32 32x128 64x64
		128x32 64x128 128x64 64x256 128x128 256x64 64x512 128x256 256x128 512x64 64x96 96x64 96x128 128x160 160x128
		192x128 128x192 128x96 32x256 256x32`)
	have := map[string]bool{}
	for _, t := range tiles {
		have[t] = true
	}
	add := func(a, b int) {
		if name := fmt.Sprintf("%dx%d", a, b); !have[name] {
			have[name] = true
			tiles = append(tiles, name)
		}
	}
	const most = 768 // of a side
	for a := 8; a <= most; a += 8 {
		for b := 64; b <= most && a*b <= 64*most; b += 64 {
			add(a, b)
		}
	}
	for b := 8; b <= most; b += 8 {
		add(64, b)
	}
	for a := 128; a <= most; a += 64 {
		for b := 8; a*b <= 1<<16; b += 8 {
			add(a, b)
		}
	}
	return append(tiles, strings.Fields(`256x512 256x1024 512x512 512x1024
		4x1 8x1 16x1 24x1 32x1 40x1 48x1 64x1 128x1 192x1 256x1`)...)
})

// ltStages returns the depth along K and the number of stages (cublasLtMatmulStages_t), or "".
func ltStages(id int) (depth, stages string) {
	names := [...]string{
		1: "16x1", "16x2", "16x3", "16x4", "16x5", "16x6", "32x1", "32x2", "32x3", "32x4", "32x5", "32x6",
		"64x1", "64x2", "64x3", "64x4", "64x5", "64x6", "128x1", "128x2", "128x3", "128x4", "128x5", "128x6",
		"32x10", "8x4", "16x10", "8x5",
		31: "8x3", "8xauto", "16xauto", "32xauto", "64xauto", "128xauto", "256xauto", "768xauto",
	}
	switch {
	case id == 0:
		return "", ""
	case id > 0 && id < len(names) && names[id] != "":
		depth, stages, _ = strings.Cut(names[id], "x")
		return depth, stages
	}
	return "", fmt.Sprintf("id%d", id)
}

// ltCluster returns the shape of a cluster (cublasLtClusterShape_t), or "" for 1x1 and if the library chooses
// at launch.
func ltCluster(id int) string {
	names := strings.Fields(`- - - 2x1 4x1 1x2 2x2 4x2 1x4 2x4 4x4 8x1 1x8 8x2 2x8 16x1 1x16
		3x1 5x1 6x1 7x1 9x1 10x1 11x1 12x1 13x1 14x1 15x1 3x2 5x2 6x2 7x2 1x3 2x3 3x3 4x3 5x3 3x4 1x5 2x5 3x5
		1x6 2x6 1x7 2x7 1x9 1x10 1x11 1x12 1x13 1x14 1x15`)
	switch {
	case id >= 0 && id < len(names):
		return strings.TrimPrefix(names[id], "-")
	}
	return fmt.Sprintf("id%d", id)
}

// nextChoice returns the index of the nth algorithm other than the first choice, or -1. The first choice
// comes from a request for one algorithm, and a longer list may not begin with it.
func nextChoice(first ltConfig, among []ltConfig, n int) int {
	for i, c := range among {
		if c == first {
			continue
		}
		if n--; n == 0 {
			return i
		}
	}
	return -1
}
