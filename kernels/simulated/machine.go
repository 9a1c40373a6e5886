package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The kernels of a machine.
const (
	Library = "library" // one that chooses among algorithms
	Ours    = "ours"    // one that has no choice
)

// The device that a machine stands for.
const (
	// NominalClockMHz is the clock at which times are defined.
	NominalClockMHz = 1450
	maxClockMHz     = 1980
	peakFLOPS       = 800e12 // at NominalClockMHz
	bandwidth       = 4.0e12 // bytes a second
	units           = 132
	tileM, tileN    = 128, 256
)

// Config describes a machine. The zero value of every field but N, K and Ms is
// something that the machine has not.
type Config struct {
	Seed uint64
	N, K int
	// Products is how many products of that size, each with weights of its own, a launch
	// computes. 0 is a machine of single products.
	Products int
	// Columns makes it a machine of softmax, whose rows have so many: N, K and Products are 0
	// then, and there are neither Waves nor Families, which are of tiles.
	Columns int
	DType   kernels.DType // bfloat16 when empty
	// Ms is the grid, ascending, that is going to be measured: planted losses are
	// relative to the best row of the grid below.
	Ms []int
	// Depths are the losses of the slow intervals planted in each kernel, as shares of
	// the time; of several the last one is a single row. Where there are Waves, only Ours
	// has them.
	Depths []float64
	// Waves makes the library's times a staircase, with drops of unknown depth.
	Waves bool
	// Switches makes the library change its algorithm with M. Its slow intervals are
	// then where it takes the wrong one.
	Switches bool
	// Families makes the library choose, at each M, among kernels of several tiles, as it believes
	// to be fastest, and tell its choice. Rows of one kernel are alike.
	Families bool
	// Isolated is the share of the rows that are slower than the kernel that they run and their
	// neighbours let expect.
	Isolated float64
	Disturbances
}

// Disturbances are what stands between the truth and a sample. The numbers are
// standard deviations of log time unless they say otherwise.
type Disturbances struct {
	// Sigma is the noise of a block, Gaussian or, when HeavyTailed, Student's t with 3
	// degrees of freedom.
	Sigma       float64
	HeavyTailed bool
	// Stray is the share of blocks that something else slows, by a tenth or so.
	Stray float64
	// Modes is the share of rows that have two levels between which blocks alternate
	// at random.
	Modes float64
	// Drift is by how much every product is slower, in log time, after the device has
	// been at work for a while: the order of the blocks is the order of their times.
	// Rest undoes it. Wander comes and goes within some tenths of a second.
	Drift, Wander float64
	// Delayed is the share of the blocks that other work delays, and Delay the mean of what they take longer,
	// in log time, drawn from an exponential: a floor that holds, and delays on top. With Spell they come in
	// spells of that mean length in seconds, as from a neighbour that wakes up and rests; else singly.
	Delayed, Delay, Spell float64
	// Cache is what the product that ran before does to a block.
	Cache float64
	// Allocation is what the place of the operands in memory does to a row, for as long as
	// they stay there.
	Allocation float64
	// PowerLimited makes the clock wander below a power limit; else it stands still.
	PowerLimited bool
	// ClockUntold keeps clock, power and throttle reasons from being read.
	ClockUntold bool
}

// Planted is a slow interval of known depth.
type Planted struct {
	Kernel     string
	FromM, ToM int     // rows of the grid
	Depth      float64 // the share of the time that is lost, at NominalClockMHz
}

// Range is a quantity of a row that may have two levels: equal where it has one.
type Range struct{ Lo, Hi float64 }

// row is the truth of one M of a kernel.
type row struct {
	kernel  string
	m       int
	seconds float64 // at NominalClockMHz, the fast level of two
	beta    float64 // elasticity of time with the clock's inverse
	watts   float64 // of dynamic power at NominalClockMHz
	// slowBy is the distance of a second level in log time, 0 for none, slowShare how
	// often it is taken.
	slowBy, slowShare float64
	// footprint is what the row leaves in the caches, -√3 to √3; sensitivity how much
	// it minds what it finds there, 0 to 1.
	footprint, sensitivity float64
	id                     uint64
	label                  string
	tiling                 kernels.Tiling
}

// at is the time of a launch at a clock, on the fast level.
func (r *row) at(clockMHz float64) float64 {
	return r.seconds * math.Pow(NominalClockMHz/clockMHz, r.beta)
}

// curve is a kernel of a machine.
type curve struct {
	name       string
	efficiency float64
	overhead   float64 // seconds a launch
	soft       float64 // share of a wave's quantisation that shows
	waves      bool
	switches   []algorithm // ascending in from; nil without a choice
	families   []familyKernel
	rows       []*row // of the grid
}

// algorithm is what a library takes from an M on.
type algorithm struct {
	from       int
	name       string
	efficiency float64
}

// Machine is the truth. It does not change and may be used by any goroutine.
type Machine struct {
	cfg     Config
	curves  []*curve // Library, Ours
	planted []Planted
}

// NewMachine draws a machine. The error names the field that can't be used.
func NewMachine(cfg Config) (*Machine, error) {
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

// checkSubject refuses sizes that are of no operation, or of two.
func (cfg Config) checkSubject() error {
	switch {
	case cfg.Columns < 0 || cfg.Products < 0:
		return fmt.Errorf("simulated machine: %d columns and %d products a launch, expected at least 0", cfg.Columns, cfg.Products)
	case cfg.Columns > 0 && (cfg.N != 0 || cfg.K != 0 || cfg.Products != 0 || cfg.Waves || cfg.Families):
		return fmt.Errorf("simulated machine: softmax of %d columns has no n%d k%d x%d, waves or families", cfg.Columns, cfg.N, cfg.K, cfg.Products)
	case cfg.Columns == 0 && (cfg.N < 1 || cfg.K < 1) || len(cfg.Ms) == 0:
		return fmt.Errorf("simulated machine: n%d k%d with %d batches, expected at least 1 of each", cfg.N, cfg.K, len(cfg.Ms))
	}
	return nil
}

// Subject is what the machine computes.
func (cfg Config) Subject() kernels.Subject {
	if cfg.Columns > 0 {
		return kernels.Subject{Operation: kernels.Softmax, DType: cfg.DType, Dims: kernels.Dims{Columns: cfg.Columns}}
	}
	s := kernels.Product(cfg.DType, cfg.N, cfg.K)
	s.Products = cfg.Products
	return s
}

// drawPlanted places one interval of each depth, in slots of equal length of the grid
// and in an order of chance. The first eighth of the grid stays free, so that there
// is a reference.
func drawPlanted(rng *rand.Rand, kernel string, ms []int, depths []float64) []Planted {
	first := len(ms)/8 + 1
	order := rng.Perm(len(depths))
	var out []Planted
	for slot, i := range order {
		from := first + slot*(len(ms)-first)/len(depths)
		room := first + (slot+1)*(len(ms)-first)/len(depths) - from - 2 // rows between two intervals
		width := 3 + rng.IntN(4)
		if i > 0 && i == len(depths)-1 {
			width = 1 // the last one is a single row
		}
		if width = min(width, room); width < 1 {
			continue
		}
		from += rng.IntN(room - width + 1)
		out = append(out, Planted{Kernel: kernel, FromM: ms[from], ToM: ms[from+width-1], Depth: depths[i]})
	}
	return out
}

// drawSwitches is a heuristic: larger tiles, which make more of the units, for larger M.
func drawSwitches(rng *rand.Rand, ms []int) []algorithm {
	out := []algorithm{{1, "64x128", 0.90}}
	for i, name := range []string{"128x128", "128x256", "256x128"} {
		at := ms[len(ms)*(i+1)/4] + rng.IntN(32)
		out = append(out, algorithm{at, name, out[len(out)-1].efficiency * (0.99 + 0.05*rng.Float64())})
	}
	return out
}

// wrongAlgorithm is what a library with a heuristic runs where it errs.
const wrongAlgorithm = "64x64 split-k"

// draw fills in the rows of the grid, ascending, since what is planted depends on the
// rows below.
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
			r.watts *= 1 - 0.8*p.Depth // units that wait draw less
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

// products is how many products a launch computes.
func (m *Machine) products() float64 { return float64(max(1, m.cfg.Products)) }

// flopsPerRow is the work of one row of each product of a launch.
func (m *Machine) flopsPerRow() float64 {
	if m.cfg.Columns > 0 {
		return m.cfg.Subject().FLOPs(1)
	}
	return 2 * float64(m.cfg.N) * float64(m.cfg.K) * m.products()
}

// base is a row with nothing planted.
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
		// Whole waves of whole tiles, as far as the kernel is not soft about it.
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
		// Memory is what softmax makes more or less of.
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
		// Arithmetic at the nominal clock asks for more than the limit allows.
		watts:     (290 + 190*share) * (1 + 0.05*rng.NormFloat64()),
		footprint: math.Sqrt(3) * (2*rng.Float64() - 1), sensitivity: rng.Float64(),
	}
	if two, by, often := rng.Float64(), 0.03+0.09*rng.Float64(), 0.3+0.4*rng.Float64(); two < m.cfg.Modes {
		r.slowBy, r.slowShare = by, often
	}
	return r
}

// hash is what everything drawn for an M of a kernel follows from.
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

// find is the row of an M on a kernel, on the grid or off it; nil when there is no such
// kernel.
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

// Config is what the machine was drawn from.
func (m *Machine) Config() Config { return m.cfg }

// Ceilings are the rates that the truth is built on.
func (m *Machine) Ceilings() kernels.Ceilings {
	return kernels.Ceilings{
		Peaks:         []kernels.Peak{{DType: m.cfg.DType, FLOPS: peakFLOPS, Origin: kernels.Computed, ClockMHz: NominalClockMHz, Unit: "simulated"}},
		ReadBandwidth: bandwidth, CopyBandwidth: bandwidth,
	}
}

// Planted lists the slow intervals.
func (m *Machine) Planted() []Planted { return slices.Clone(m.planted) }

// Elasticity is β of a row: log time falls by β × log clock. 0 for an unknown kernel.
func (m *Machine) Elasticity(kernel string, at int) float64 {
	if r := m.find(kernel, at); r != nil {
		return r.beta
	}
	return 0
}

// Seconds is the true time of launches of these Ms one after the other, at a clock, on
// the fast and the slow level of rows that have two. NaN for an unknown kernel.
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

// Losses is, for every M of the grid, the share of its time that a row loses against the
// best rate of smaller M, at a clock: negative where it is the best so far, and of the
// first row. With two levels the loss lies between the row's fast level held against
// others' slow ones and the reverse.
func (m *Machine) Losses(kernel string, clockMHz float64) []Range {
	out := make([]Range, len(m.cfg.Ms))
	var least, most float64 // best rates so far, of slow and of fast levels
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

// mix makes one seed of several.
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
