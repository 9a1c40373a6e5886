package rules

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

type occupancy struct {
	tiles, waves int
	// wave is the share of busy units over all waves; tile is the share of the tiles' rows that belong to the
	// product.
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

// orient returns which side of a kernel's tile lies along M. If the launch does not give it, the times
// decide, because libraries may compute the transposed product and name the other side first. The orientation
// with less variation of rate ÷ occupancy over the kernel's rows wins.
func orient(c *curve, p point, units int) (tm, tn int) {
	a, b := p.launch.Tile[0], p.launch.Tile[1]
	if p.launch.Orientation != kernels.OrientationUnknown {
		return a, b
	}
	if t, ok := c.tiles[p.label]; ok {
		return t[0], t[1]
	}
	if c.tiles == nil {
		c.tiles = map[string][2]int{}
	}
	defer func() { c.tiles[p.label] = [2]int{tm, tn} }()
	spread := func(tm, tn int) float64 {
		var rest []float64
		for _, q := range c.points {
			if q.label == p.label {
				o := occupy(q.m, c.series.Key.N, tm, tn, units)
				rest = append(rest, q.rate()-math.Log(o.wave*o.tile))
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
