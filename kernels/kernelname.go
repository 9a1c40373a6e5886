package kernels

import (
	"regexp"
	"strconv"
	"strings"
)

// Launch details from library kernel names, which are all that imported runs and CSVs have, are parsed only
// here.

// tileSides matches "256x128" in a kernel's name. Names have other pairs too ("64x3" is depth and stages,
// "sliced1x2" warps along K); a tile has two sides of 16 to 512.
var tileSides = regexp.MustCompile(`(\d{2,3})x(\d{2,3})`)

// cutAlongK matches splits of K, with the number of splits if given: "splitk 4", "splitKreduce", "split 60 of
// 120".
var cutAlongK = regexp.MustCompile(`(?i)split[ _]?k?[ _]?(\d*)( of)?`)

// sideOrders lists kernel families with a known order of tile sides: cuBLAS on Hopper computes the transposed
// product, so its first side lies along N.
var sideOrders = []struct {
	prefix string
	nFirst bool
}{{"nvjet_", true}, {"algo ", true}, {"hopper ", false}, {"narrow ", false}}

// ReadLabel reads launch details from a label. name is the part that identifies the kernel or algorithm; the
// number of waves varies with the product.
func ReadLabel(label string) (name string, t Tiling) {
	name, t.Waves = cutWaves(label)
	t.Split = splitOf(label)
	for _, m := range tileSides.FindAllStringSubmatch(name, -1) {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[2])
		if a >= 16 && a <= 512 && b >= 16 && b <= 512 && a%8 == 0 && b%8 == 0 {
			t.Tile, t.Orientation = orientTile(name, a, b)
			break
		}
	}
	return name, t
}

var cutTiles = regexp.MustCompile(` split \d+ of \d+`)

// KernelOf returns the part of a label that identifies the kernel and tile. The number of split tiles differs
// between M.
func KernelOf(label string) string {
	name, _ := cutWaves(label)
	return cutTiles.ReplaceAllString(name, "")
}

func cutWaves(label string) (name string, waves float64) {
	const word = " waves "
	if i := strings.LastIndex(label, word); i > 0 {
		if waves, err := strconv.ParseFloat(label[i+len(word):], 64); err == nil && (Tiling{Waves: waves}).Validate() == nil {
			return label[:i], waves
		}
	}
	return label, 0
}

// splitOf returns the number of K splits in a name; 0 if absent.
func splitOf(label string) int {
	m := cutAlongK.FindStringSubmatch(label)
	if m == nil {
		return 0
	}
	parts, err := strconv.Atoi(m[1])
	switch {
	case err == nil && parts == 1:
		return 1
	case err != nil || m[2] != "" || parts > mostTiling:
		return 2
	}
	return max(2, parts)
}

// orientTile returns M by N sides from a name's sides in its order.
func orientTile(name string, a, b int) (tile [3]int, orientation string) {
	for _, s := range sideOrders {
		if !strings.Contains(name, s.prefix) {
			continue
		}
		if s.nFirst {
			return [3]int{b, a}, OrientationTransposed
		}
		return [3]int{a, b}, ""
	}
	if a != b {
		orientation = OrientationUnknown
	}
	return [3]int{a, b}, orientation
}
