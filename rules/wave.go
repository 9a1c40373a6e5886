package rules

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// tileSize finds "256x128" in a kernel's name. Names carry other pairs as well
// ("64x3" is a depth and stages, "sliced1x2" warps along K): a tile has two sides
// of 16 to 512.
var tileSize = regexp.MustCompile(`(\d{2,3})x(\d{2,3})`)

// parseTile reads the tile of C that a kernel's name tells.
func parseTile(label string) (a, b int, ok bool) {
	for _, m := range tileSize.FindAllStringSubmatch(label, -1) {
		a, _ = strconv.Atoi(m[1])
		b, _ = strconv.Atoi(m[2])
		if a >= 16 && a <= 512 && b >= 16 && b <= 512 && a%8 == 0 && b%8 == 0 {
			return a, b, true
		}
	}
	return 0, 0, false
}

// cutAlongK finds what labels say of tiles that are cut along K, with the number of pieces where
// they tell it: "splitk 4", "splitKreduce", "split 60 of 120".
var cutAlongK = regexp.MustCompile(`(?i)split[ _]?k?[ _]?(\d*)`)

// cutsK says whether a kernel cuts its tiles along K.
func cutsK(label string) bool {
	m := cutAlongK.FindStringSubmatch(label)
	return m != nil && m[1] != "1"
}

// knownUnits is the number of SMs of devices whose imported sweeps do not tell.
// The longest name that is part of the device's counts.
var knownUnits = []struct {
	name  string
	units int
}{
	{"A800", 108}, {"A100", 108}, {"H200", 132}, {"H100 PCIe", 114}, {"H800 PCIe", 114}, {"H100", 132}, {"H800", 132},
	{"RTX 4090", 128}, {"L40S", 142}, {"L40", 142}, {"RTX 3090", 82}, {"A10", 72}, {"V100", 80}, {"T4", 40},
}

// unitsOf is how many tiles a device works on at once, 0 when unknown.
func unitsOf(s kernels.Spec) int {
	if s.Units > 0 {
		return s.Units
	}
	for _, k := range knownUnits {
		if strings.Contains(" "+s.Name+" ", " "+k.name+" ") {
			return k.units
		}
	}
	return 0
}

// occupancy is how well tiles of tm×tn fill a product and a device.
type occupancy struct {
	tiles, waves int
	// wave is the share of units that are busy over all waves; tile the share of
	// rows of the tiles that are rows of the product.
	wave, tile float64
}

func occupy(m, n, tm, tn, units int) occupancy {
	up := func(a, b int) int { return (a + b - 1) / b }
	o := occupancy{tiles: up(m, tm) * up(n, tn)}
	o.waves = up(o.tiles, units)
	o.wave = float64(o.tiles) / float64(o.waves*units)
	o.tile = float64(m) / float64(up(m, tm)*tm)
	return o
}

// sides are the families of kernels of which it is known which side of the tile their
// names give first: cuBLAS on Hopper computes the transposed product, and its first side lies along N.
var sides = []struct {
	prefix string
	nFirst bool
}{{"nvjet_", true}, {"algo ", true}, {"hopper ", false}, {"narrow ", false}}

// orient says which side of a kernel's tile lies along M. Where the family of the kernel does
// not tell, libraries may compute the transposed product and name the other side first, so
// the times decide: the way in which rate ÷ occupancy varies less over the rows of that kernel.
func orient(c *curve, label string, a, b, units int) (tm, tn int) {
	if a == b {
		return a, b
	}
	label = algorithm(label)
	for _, s := range sides {
		if rest := label[max(0, strings.Index(label, s.prefix)):]; strings.HasPrefix(rest, s.prefix) {
			if s.nFirst {
				return b, a
			}
			return a, b
		}
	}
	if t, ok := c.tiles[label]; ok {
		return t[0], t[1]
	}
	if c.tiles == nil {
		c.tiles = map[string][2]int{}
	}
	defer func() { c.tiles[label] = [2]int{tm, tn} }()
	spread := func(tm, tn int) float64 {
		var rest []float64
		for _, p := range c.points {
			if algorithm(p.label) == label {
				o := occupy(p.m, c.series.Key.N, tm, tn, units)
				rest = append(rest, p.rate()-math.Log(o.wave*o.tile))
			}
		}
		centre := median(rest)
		for i := range rest {
			rest[i] = math.Abs(rest[i] - centre)
		}
		return median(rest)
	}
	if spread(b, a) < spread(a, b) {
		return b, a
	}
	return a, b
}
