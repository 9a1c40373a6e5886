package kernels

import (
	"regexp"
	"strconv"
	"strings"
)

// Libraries tell what they run by a name, as rows carry it in their labels, and runs and
// CSVs made elsewhere have nothing else. What such a name says of the launch is read here,
// and nowhere else.

// tileSides finds "256x128" in a kernel's name. Names carry other pairs as well
// ("64x3" is a depth and stages, "sliced1x2" warps along K): a tile has two sides
// of 16 to 512.
var tileSides = regexp.MustCompile(`(\d{2,3})x(\d{2,3})`)

// cutAlongK finds what names say of tiles that are cut along K, with the number of pieces where
// they tell it: "splitk 4", "splitKreduce", "split 60 of 120".
var cutAlongK = regexp.MustCompile(`(?i)split[ _]?k?[ _]?(\d*)( of)?`)

// sideOrders are the families of kernels of which it is known which side of the tile their
// names give first: cuBLAS on Hopper computes the transposed product, and its first side
// lies along N.
var sideOrders = []struct {
	prefix string
	nFirst bool
}{{"nvjet_", true}, {"algo ", true}, {"hopper ", false}, {"narrow ", false}}

// ReadLabel reads what a label says of the launch. name is the part of the label that is
// equal wherever the same kernel or algorithm runs: how many waves it makes depends on the
// product.
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

// cutTiles finds what labels say of tiles that are cut along K, where it is a number of tiles.
var cutTiles = regexp.MustCompile(` split \d+ of \d+`)

// KernelOf is the part of a label that is equal wherever the same kernel runs with the same
// tile: how many tiles are cut along K differs from M to M.
func KernelOf(label string) string {
	name, _ := cutWaves(label)
	return cutTiles.ReplaceAllString(name, "")
}

// cutWaves takes the waves off the end of a label.
func cutWaves(label string) (name string, waves float64) {
	const word = " waves "
	if i := strings.LastIndex(label, word); i > 0 {
		if waves, err := strconv.ParseFloat(label[i+len(word):], 64); err == nil && (Tiling{Waves: waves}).Validate() == nil {
			return label[:i], waves
		}
	}
	return label, 0
}

// splitOf is in how many parts a name says that K is cut; 0 where it says nothing.
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

// orientTile turns the sides that a name gives, in its order, to M by N.
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
