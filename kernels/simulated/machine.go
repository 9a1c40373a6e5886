package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const (
	Library = "library" // chooses among algorithms
	Ours    = "ours"    // has only one algorithm
)

// The simulated device.
const (
	// NominalClockMHz is the clock that times refer to.
	NominalClockMHz = 1450
	maxClockMHz     = 1980
	peakFLOPS       = 800e12 // at NominalClockMHz
	bandwidth       = 4.0e12 // bytes a second
	units           = 132
	tileM, tileN    = 128, 256
)

// MachineConfig describes a machine. Only N, K and Ms, or Columns and Ms, are required.
type MachineConfig struct {
	Seed uint64
	N, K int
	// Products is the number of products per launch, each with its own weights; 0 for single products.
	Products int
	// Columns makes it a softmax machine with rows of this length. N, K and Products are then 0, and there
	// are no tiles, hence no Waves or Families.
	Columns int
	DType   kernels.DType // bfloat16 when empty
	// Ms is the ascending grid to be measured: planted losses are relative to the best lower row of the grid.
	Ms []int
	// Depths are the losses of the slow intervals planted in each kernel, as shares of the time. Of several,
	// the last is a single row. With Waves, only Ours has them.
	Depths []float64
	// Waves makes the library's times a staircase, with drops of unknown depth.
	Waves bool
	// Switches makes the library change its algorithm with M. Its slow intervals are then wrong choices.
	Switches bool
	// Families makes the library choose and report a kernel of several tiles at each M, the fastest by its
	// prediction. Rows of one kernel are alike.
	Families bool
	// Isolated is the share of rows that are slower than their kernel and neighbors suggest.
	Isolated float64
	Disturbances
}

// Planted is a slow interval of known depth.
type Planted struct {
	Kernel     string
	FromM, ToM int     // rows of the grid
	Depth      float64 // share of the time lost at NominalClockMHz
}

// Range is a row's quantity on two levels; equal if there is only one.
type Range struct{ Lo, Hi float64 }

type row struct {
	kernel  string
	m       int
	seconds float64 // at NominalClockMHz, on the fast level
	beta    float64 // elasticity of time to the inverse clock
	watts   float64 // dynamic power at NominalClockMHz
	// slowBy is the distance to the slow level in log time, 0 for none, slowShare its probability.
	slowBy, slowShare float64
	// footprint is the row's effect on the caches, -√3 to √3; sensitivity its reaction to their state, 0 to
	// 1.
	footprint, sensitivity float64
	id                     uint64
	label                  string
	tiling                 kernels.Tiling
}

// at returns a launch's time at a clock, on the fast level.
func (r *row) at(clockMHz float64) float64 {
	return r.seconds * math.Pow(NominalClockMHz/clockMHz, r.beta)
}

type curve struct {
	name       string
	efficiency float64
	overhead   float64 // seconds a launch
	soft       float64 // visible share of wave quantization
	waves      bool
	switches   []algorithm // ascending in from; nil without a choice
	families   []familyKernel
	rows       []*row // of the grid
}

// algorithm is a library's choice from an M on.
type algorithm struct {
	from       int
	name       string
	efficiency float64
}

// Machine holds the true times. It is immutable and safe for concurrent use.
type Machine struct {
	cfg     MachineConfig
	curves  []*curve // Library, Ours
	planted []Planted
}

// NewMachine draws a machine. The error names the invalid field.
func NewMachine(cfg MachineConfig) (*Machine, error) {
	if cfg.DType == "" {
		cfg.DType = kernels.BF16
	}
	if err := cfg.checkSubject(); err != nil {
		return nil, err
	}
	if cfg.Ms[0] < 1 || !slices.IsSorted(cfg.Ms) {
		return nil, fmt.Errorf("simulated machine: batches from %d, expected them ascending from 1", cfg.Ms[0])
	}
	for _, d := range cfg.Depths {
		if !(d > 0 && d < 1) {
			return nil, fmt.Errorf("simulated machine: a depth of %v, expected above 0 and below 1", d)
		}
	}
	m := &Machine{cfg: cfg}
	for i, name := range []string{Library, Ours} {
		rng := rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1))
		c := &curve{
			name: name, efficiency: 0.8 + 0.15*rng.Float64(), overhead: 2e-6 + 2e-6*rng.Float64(),
			soft: 0.3 + 0.7*rng.Float64(), waves: cfg.Waves && name == Library,
		}
		if cfg.Switches && name == Library {
			c.switches = drawSwitches(rng, cfg.Ms)
		}
		if cfg.Families && name == Library {
			c.families = drawFamilies(rng)
		}
		m.curves = append(m.curves, c)
		var planted []Planted
		if !c.waves {
			planted = drawPlanted(rng, name, cfg.Ms, cfg.Depths)
		}
		m.draw(c, planted)
		m.planted = append(m.planted, planted...)
	}
	return m, nil
}

func (cfg MachineConfig) checkSubject() error {
	switch {
	case cfg.Columns < 0 || cfg.Products < 0:
		return fmt.Errorf("simulated machine: %d columns and %d products a launch, expected at least 0", cfg.Columns, cfg.Products)
	case cfg.Columns > 0 && (cfg.N != 0 || cfg.K != 0 || cfg.Products != 0 || cfg.Waves || cfg.Families):
		return fmt.Errorf("simulated machine: softmax of %d columns has no n%d k%d x%d, waves or families", cfg.Columns, cfg.N, cfg.K,
			cfg.Products)
	case cfg.Columns == 0 && (cfg.N < 1 || cfg.K < 1) || len(cfg.Ms) == 0:
		return fmt.Errorf("simulated machine: n%d k%d with %d batches, expected at least 1 of each", cfg.N, cfg.K, len(cfg.Ms))
	}
	return nil
}

// Subject returns the operation and sizes that the machine computes.
func (cfg MachineConfig) Subject() kernels.Subject {
	if cfg.Columns > 0 {
		return kernels.Subject{Operation: kernels.Probabilities.Operation(), DType: cfg.DType, Dims: kernels.Dims{Columns: cfg.Columns}}
	}
	s := kernels.Product(cfg.DType, cfg.N, cfg.K)
	s.Products = cfg.Products
	return s
}

func drawPlanted(rng *rand.Rand, kernel string, ms []int, depths []float64) []Planted {
	first := len(ms)/8 + 1
	order := rng.Perm(len(depths))
	var out []Planted
	for slot, i := range order {
		from := first + slot*(len(ms)-first)/len(depths)
		room := first + (slot+1)*(len(ms)-first)/len(depths) - from - 2 // rows between two intervals
		width := 3 + rng.IntN(4)
		if i > 0 && i == len(depths)-1 {
			width = 1 // the last is a single row
		}
		if width = min(width, room); width < 1 {
			continue
		}
		from += rng.IntN(room - width + 1)
		out = append(out, Planted{Kernel: kernel, FromM: ms[from], ToM: ms[from+width-1], Depth: depths[i]})
	}
	return out
}

// drawSwitches draws a heuristic: larger tiles, which use more units, for larger M.
func drawSwitches(rng *rand.Rand, ms []int) []algorithm {
	out := []algorithm{{1, "64x128", 0.90}}
	for i, name := range []string{"128x128", "128x256", "256x128"} {
		at := ms[len(ms)*(i+1)/4] + rng.IntN(32)
		out = append(out, algorithm{at, name, out[len(out)-1].efficiency * (0.99 + 0.05*rng.Float64())})
	}
	return out
}

const wrongAlgorithm = "64x64 split-k"

// draw computes the rows of the grid in ascending order: planted losses depend on lower rows.
func (m *Machine) draw(c *curve, planted []Planted) {
	best := 0.0
	for _, at := range m.cfg.Ms {
		r := m.base(c, at)
		flops := float64(at) * m.flopsPerRow()
		for _, p := range planted {
			if at < p.FromM || at > p.ToM || best == 0 {
				continue
			}
			r.seconds = flops / ((1 - p.Depth) * best)
			r.watts *= 1 - 0.8*p.Depth // waiting units draw less power
			r.slowBy = 0
			if c.switches != nil {
				r.label = wrongAlgorithm
				r.tiling = kernels.Tiling{Tile: [3]int{64, 64}, Split: 2}
			}
		}
		best = math.Max(best, flops/r.seconds)
		c.rows = append(c.rows, r)
	}
}

func (m *Machine) products() float64 { return float64(max(1, m.cfg.Products)) }

// flopsPerRow returns the work of one row of each product in a launch.
func (m *Machine) flopsPerRow() float64 {
	if m.cfg.Columns > 0 {
		return m.cfg.Subject().FLOPs(1)
	}
	return 2 * float64(m.cfg.N) * float64(m.cfg.K) * m.products()
}

func (m *Machine) base(c *curve, at int) *row {
	id := m.hash(c.name, at)
	rng := rand.New(rand.NewPCG(id, 0x726f77))
	shape := kernels.Shape{M: at, N: m.cfg.N, K: m.cfg.K}
	work, bytes := shape.FLOPs()*m.products(), shape.Bytes(m.cfg.DType)*m.products()
	efficiency, label, tiling := c.efficiency, "", kernels.Tiling{}
	for _, a := range c.switches {
		if at >= a.from {
			efficiency, label = c.efficiency*a.efficiency, a.name
		}
	}
	if c.waves {
		// Whole waves of whole tiles, except for the soft share.
		tiles := math.Ceil(float64(at)/tileM) * math.Ceil(float64(m.cfg.N)/tileN) * m.products()
		waves := tiles / units
		tiling = kernels.Tiling{Tile: [3]int{tileM, tileN}, Waves: waves, Split: 1}
		work *= 1 + c.soft*(math.Ceil(waves)/waves-1)
		work *= math.Ceil(float64(at)/tileM) * tileM / float64(at)
	}
	roughness := 0.0025
	if m.cfg.Families {
		roughness = familyRoughness
	}
	if c.families != nil {
		var k familyKernel
		k, work, tiling = m.choose(c, at)
		label = k.label
	}
	const sharpness = 6 // of the corner between memory and arithmetic
	if m.cfg.Columns > 0 {
		// Softmax kernels differ in memory efficiency.
		s := m.cfg.Subject()
		work, bytes = s.FLOPs(at), s.Bytes(at)/efficiency
	}
	core := math.Pow(work/(peakFLOPS*efficiency), sharpness)
	memory := math.Pow(bytes/bandwidth, sharpness)
	share := core / (core + memory)
	rough := roughness*rng.NormFloat64() - math.Log1p(-m.isolated(c.name, at))
	r := &row{
		kernel: c.name, m: at, id: id, label: label, tiling: tiling,
		seconds: (c.overhead + math.Pow(core+memory, 1.0/sharpness)) * math.Exp(rough),
		beta:    math.Max(0, math.Min(1, 0.1+0.89*share+0.02*rng.NormFloat64())),
		// Arithmetic at the nominal clock needs more than the power limit.
		watts:     (290 + 190*share) * (1 + 0.05*rng.NormFloat64()),
		footprint: math.Sqrt(3) * (2*rng.Float64() - 1), sensitivity: rng.Float64(),
	}
	if two, by, often := rng.Float64(), 0.03+0.09*rng.Float64(), 0.3+0.4*rng.Float64(); two < m.cfg.Modes {
		r.slowBy, r.slowShare = by, often
	}
	return r
}

func (m *Machine) hash(kernel string, at int) uint64 {
	seeds := []uint64{m.cfg.Seed, hashName(kernel), uint64(at)}
	if m.cfg.Products > 0 {
		seeds = append(seeds, uint64(m.cfg.Products))
	}
	if m.cfg.Columns > 0 {
		seeds = append(seeds, uint64(m.cfg.Columns), 0x736f66746d6178)
	}
	return mix(seeds...)
}

// find returns the row of an M, on or off the grid; nil for an unknown kernel.
func (m *Machine) find(kernel string, at int) *row {
	for _, c := range m.curves {
		if c.name != kernel {
			continue
		}
		if i, ok := slices.BinarySearch(m.cfg.Ms, at); ok {
			return c.rows[i]
		}
		return m.base(c, at)
	}
	return nil
}

// Config returns the machine's configuration.
func (m *Machine) Config() MachineConfig { return m.cfg }

// Ceilings returns the peak rates of the true times.
func (m *Machine) Ceilings() kernels.Ceilings {
	return kernels.Ceilings{
		Peaks: []kernels.Peak{{DType: m.cfg.DType, FLOPS: peakFLOPS, Origin: kernels.Computed, ClockMHz: NominalClockMHz,
			Unit: "simulated"}},
		ReadBandwidth: bandwidth, CopyBandwidth: bandwidth,
	}
}

// Planted lists the slow intervals.
func (m *Machine) Planted() []Planted { return slices.Clone(m.planted) }

// Elasticity returns β of a row: log time falls by β × log clock. 0 for an unknown kernel.
func (m *Machine) Elasticity(kernel string, at int) float64 {
	if r := m.find(kernel, at); r != nil {
		return r.beta
	}
	return 0
}

// Seconds returns the true total time of launches of these Ms at a clock, on the fast and slow levels. NaN
// for an unknown kernel.
func (m *Machine) Seconds(kernel string, ms []int, clockMHz float64) Range {
	var out Range
	for _, at := range ms {
		r := m.find(kernel, at)
		if r == nil {
			return Range{math.NaN(), math.NaN()}
		}
		t := r.at(clockMHz)
		out.Lo, out.Hi = out.Lo+t, out.Hi+t*math.Exp(r.slowBy)
	}
	return out
}

// Losses returns, for every M of the grid, the share of time lost relative to the best rate of smaller M at a
// clock. It is negative for a new best and for the first row. For bimodal rows the range compares the fast
// level with others' slow ones and the reverse.
func (m *Machine) Losses(kernel string, clockMHz float64) []Range {
	out := make([]Range, len(m.cfg.Ms))
	var least, most float64 // best rates so far, of slow and fast levels
	for i, at := range m.cfg.Ms {
		t := m.Seconds(kernel, []int{at}, clockMHz)
		work := float64(at) * m.flopsPerRow()
		out[i] = Range{-1, -1}
		if i > 0 {
			out[i] = Range{1 - work/t.Lo/least, 1 - work/t.Hi/most}
		}
		least, most = math.Max(least, work/t.Hi), math.Max(most, work/t.Lo)
	}
	return out
}

func mix(seeds ...uint64) uint64 {
	x := uint64(0x632be59bd9b4e019)
	for _, s := range seeds {
		x += s*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

func hashName(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// normal returns the standard normal deviate of a hash.
func normal(h uint64) float64 {
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return math.Sqrt2 * math.Erfinv(2*u-1)
}
