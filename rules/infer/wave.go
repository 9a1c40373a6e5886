package infer

import (
	"math"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// knownUnits is the number of SMs of devices whose imported sweeps don't give it. The longest name that is
// part of the device's applies.
var knownUnits = []struct {
	name  string
	units int
}{
	{"A800", 108}, {"A100", 108}, {"H200", 132}, {"H100 PCIe", 114}, {"H800 PCIe", 114}, {"H100", 132}, {"H800", 132},
	{"RTX 4090", 128}, {"L40S", 142}, {"L40", 142}, {"RTX 3090", 82}, {"A10", 72}, {"V100", 80}, {"T4", 40},
}

// Units is the number of tiles that a device computes at the same time: its multiprocessors. 0 means unknown.
func Units(s kernels.Spec) int {
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

// Occupancy is how well the tiles of a product fill a device.
type Occupancy struct {
	Tiles, Waves int
	// Wave is the share of busy units over all waves; Tile is the share of the tiles' rows that belong to the
	// product.
	Wave, Tile float64
}

func occupy(m, n, tm, tn, units int) Occupancy {
	up := func(a, b int) int { return (a + b - 1) / b }
	o := Occupancy{Tiles: up(m, tm) * up(n, tn)}
	o.Waves = up(o.Tiles, units)
	o.Wave = float64(o.Tiles) / float64(o.Waves*units)
	o.Tile = float64(m) / float64(up(m, tm)*tm)
	return o
}

// orient returns which side of a kernel's tile lies along M. If the launch does not give it, the times
// decide, because libraries may compute the transposed product and name the other side first. The orientation
// with less variation of rate ÷ occupancy over the kernel's rows wins.
func orient(c *Curve, p Point, units int) (tm, tn int) {
	a, b := p.Launch.Tile[0], p.Launch.Tile[1]
	if p.Launch.Orientation != kernels.OrientationUnknown {
		return a, b
	}
	if t, ok := c.tiles[p.Label]; ok {
		return t[0], t[1]
	}
	if c.tiles == nil {
		c.tiles = map[string][2]int{}
	}
	defer func() { c.tiles[p.Label] = [2]int{tm, tn} }()
	spread := func(tm, tn int) float64 {
		var rest []float64
		for _, q := range c.Points {
			if q.Label == p.Label {
				o := occupy(q.M, c.Series.Key.N, tm, tn, units)
				rest = append(rest, q.Rate()-math.Log(o.Wave*o.Tile))
			}
		}
		centre := stats.Median(rest)
		for i := range rest {
			rest[i] = math.Abs(rest[i] - centre)
		}
		return stats.Median(rest)
	}
	if spread(b, a) < spread(a, b) {
		return b, a
	}
	return a, b
}

// Tiling is how a kernel covers the product of a series: tiles of m×n, across of them along N,
// units at once.
type Tiling struct {
	M, N, Across, Units int
	Columns             int // N of the series
}

// TileOf is the tiling of the kernel that ran a point, from its launch. ok is false if the tile or the
// device's units are unknown, or if the kernel splits K: then waves of tiles are meaningless.
func (c *Curve) TileOf(p Point) (t Tiling, ok bool) {
	if !c.Series.Key.Operation.IsProduct() || !c.Series.Key.OverM() {
		return Tiling{}, false // tiles cover the C of a product, whose N is constant
	}
	units := Units(c.Spec)
	if units == 0 || p.Launch.Split > 1 || !p.Launch.Tiled() {
		return Tiling{}, false
	}
	t = Tiling{Units: units, Columns: c.Series.Key.N}
	t.M, t.N = orient(c, p, units)
	t.Across = (t.Columns + t.N - 1) / t.N
	return t, true
}

// Fill is the occupancy of a product of m rows.
func (t Tiling) Fill(m int) Occupancy { return occupy(m, t.Columns, t.M, t.N, t.Units) }

// LastOf is the largest M that fits into so many waves, 0 if not even one row of tiles does.
func (t Tiling) LastOf(waves int) int { return waves * t.Units / t.Across * t.M }
