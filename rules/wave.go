package rules

import (
	"fmt"
	"math"
	"regexp"
	"slices"
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

// quantisation: the row's tiles leave units idle in the last wave, or rows of
// the last tile unused, and the reference's did so less.
func (w *witness) quantisation() (Cause, string) {
	units := unitsOf(w.curve.spec)
	a, b, ok := parseTile(w.row.label)
	if units == 0 || !ok || w.reference.m == 0 {
		return "", ""
	}
	n := w.curve.series.Key.N
	tm, tn := orient(w.curve, w.row.label, a, b, units)
	row := occupy(w.row.m, n, tm, tn, units)
	// The reference may have run another kernel with its own tile.
	rm, rn := tm, tn
	if ra, rb, ok := parseTile(w.reference.label); ok {
		rm, rn = orient(w.curve, w.reference.label, ra, rb, units)
	}
	ref := occupy(w.reference.m, n, rm, rn, units)
	enough := 1 - explainShare*w.loss
	switch {
	case row.wave/ref.wave <= enough:
		return WaveQuantisation, fmt.Sprintf("%d tiles of %dx%d need %s on %d units, which are %.0f %% busy; at m%d %d tiles keep them %.0f %% busy",
			row.tiles, tm, tn, plural(row.waves, "wave"), units, 100*row.wave, w.reference.m, ref.tiles, 100*ref.wave)
	case row.tile/ref.tile <= enough:
		return TileQuantisation, fmt.Sprintf("tiles of %dx%d compute %d rows for %d, %.0f %% of them needed", tm, tn, int(math.Round(float64(w.row.m)/row.tile)), w.row.m, 100*row.tile)
	case row.wave*row.tile/(ref.wave*ref.tile) <= enough:
		return WaveQuantisation, fmt.Sprintf("tiles of %dx%d fill %.0f %% of %s on %d units, against %.0f %% at m%d",
			tm, tn, 100*row.wave*row.tile, plural(row.waves, "wave"), units, 100*ref.wave*ref.tile, w.reference.m)
	}
	return "", ""
}

// orient says which side of a kernel's tile lies along M. Libraries that compute
// the transposed product name the other side first, so the times decide: the
// way in which rate ÷ occupancy varies less over the rows of that kernel.
func orient(c *curve, label string, a, b, units int) (tm, tn int) {
	if a == b {
		return a, b
	}
	label = algorithm(label)
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

// tilePeriod is the largest distance in M between steps that is put down to one
// tile; longer ones are waves of several.
const tilePeriod = 256

// stepRows is the least number of steps that show a period.
const stepRows = 3

// stairs are the steps up in the times of a series.
type stairs struct {
	steps        []int // positions behind a step
	period, hits int   // see stepPeriod
}

// stairsOf finds the steps of a series once: rises of the time that the work does
// not explain and noise could not bring.
func stairsOf(c *curve) *stairs {
	if c.stairs != nil {
		return c.stairs
	}
	c.stairs = &stairs{}
	for i := 1; i < len(c.points); i++ {
		p, before := c.points[i], c.points[i-1]
		loss := before.rate() - p.rate()
		noise := 4 * math.Hypot(p.us.se, before.us.se)
		if loss > math.Max(noise, 0.03) {
			c.stairs.steps = append(c.stairs.steps, i)
		}
	}
	if len(c.stairs.steps) >= stepRows {
		c.stairs.period, c.stairs.hits = stepPeriod(c.points, c.stairs.steps)
	}
	return c.stairs
}

// steps: without a tile to reckon with, the times themselves show a staircase.
// The row stands behind a step, and the steps of the series lie at multiples of
// one period.
func (w *witness) steps() (Cause, string) {
	points := w.curve.points
	s := stairsOf(w.curve)
	// The last step at or below the row has to account for its loss.
	at, _ := slices.BinarySearch(s.steps, w.c.worst.point+1)
	if at == 0 || s.period == 0 {
		return "", ""
	}
	step := s.steps[at-1]
	drop := lost(points[step].rate() - points[step-1].rate())
	if drop < explainShare*w.loss || (points[step].m-1)/s.period == (points[step-1].m-1)/s.period {
		return "", ""
	}
	return s.kind(), fmt.Sprintf("time steps up by %.0f %% between m%d and m%d, and %d of %d steps lie at multiples of %d",
		100*math.Expm1(points[step].us.y-points[step-1].us.y), points[step-1].m, points[step].m, s.hits, len(s.steps), s.period)
}

// periodCandidates is how many periods are tried.
const periodCandidates = 1000

// stepPeriod finds the period whose multiples best tell where the steps are: by
// the harmonic mean of the share of steps that lie at a multiple and of
// multiples at which there is a step. 0 when no period does well.
func stepPeriod(points []point, steps []int) (period, hits int) {
	isStep := map[int]bool{}
	for _, i := range steps {
		isStep[i] = true
	}
	candidates := map[int]bool{}
	for _, i := range steps[:min(len(steps), 24)] {
		for p := points[i-1].m; p < points[i].m; p++ {
			if len(candidates) >= periodCandidates {
				break
			}
			candidates[p] = true
		}
	}
	for k := 1; k < min(len(steps), 64); k++ {
		candidates[points[steps[k]].m-points[steps[k-1]].m] = true
	}
	sorted := make([]int, 0, len(candidates))
	for p := range candidates {
		if p >= 2 {
			sorted = append(sorted, p)
		}
	}
	slices.Sort(sorted)
	best := 0.0
	first, last := steps[0], steps[len(steps)-1]
	for _, p := range sorted {
		hit, multiples := 0, 0
		for i := max(first, 1); i <= last; i++ {
			if (points[i].m-1)/p != (points[i-1].m-1)/p {
				multiples++
				if isStep[i] {
					hit++
				}
			}
		}
		if hit == 0 {
			continue
		}
		recall, precision := float64(hit)/float64(len(steps)), float64(hit)/float64(multiples)
		if score := 2 * recall * precision / (recall + precision); score > best+1e-9 || score > best-1e-9 && p < period {
			best, period, hits = score, p, hit
		}
	}
	if best < 0.7 || hits < stepRows {
		return 0, 0
	}
	return period, hits
}

// indexAfter is the position behind the first occurrence of part, or -1.
func indexAfter(s, part string) int {
	if i := strings.Index(s, part); i >= 0 {
		return i + len(part)
	}
	return -1
}
