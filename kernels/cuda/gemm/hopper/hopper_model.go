package hopper

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

type wideModel struct {
	// Clock is the fraction of the highest clock under the power limit with normal data. Multiprocessor time
	// is in cycles of that clock; memory and L2 have their own clocks.
	Clock float64 `constant:"clock" unit:"1"`
	// Memory is the reached fraction of bandwidth. It is high because weights are fetched while the previous
	// launch ends. The times of memory and tensor cores combine in the Both-norm.
	Memory float64 `constant:"memory" unit:"1"`
	Both   float64 `constant:"both" unit:"1"`
	// Absent is the extra memory time per step for each row of a tile that is larger than A, because TMA fills
	// in zeros slowly. It applies to one round without split tiles. AbsentRows applies if A lies on wgmma's
	// rows, AbsentWeights to rows beyond B.
	Absent        float64 `constant:"absent" unit:"s"`
	AbsentRows    float64 `constant:"absent_rows" unit:"s"`
	AbsentWeights float64 `constant:"absent_weights" unit:"s"`
	// SharedBytes is wgmma's reads from shared memory per cycle. Port is a multiprocessor's input from L2 per
	// cycle of the highest clock, including data that another block of the cluster fetched, if all have a block;
	// fewer blocks get more. Both overlap with the tensor cores: Overlap is the p of the p-norm of the three
	// times. Rings of fewer than four stages make each step longer by Shallow.
	SharedBytes float64 `constant:"shared_bytes" unit:"B/cycle"`
	Port        float64 `constant:"port" unit:"B/cycle"`
	Overlap     float64 `constant:"overlap" unit:"1"`
	Shallow     float64 `constant:"shallow" unit:"1"`
	// TileCycles is the fixed cost of a piece of work with a tile of 128×256: the ring drains and C is
	// stored. Area is the part that grows with the tile.
	TileCycles float64 `constant:"tile_cycles" unit:"cycles"`
	Area       float64 `constant:"area" unit:"1"`
	// TurnCycles is the remaining cost if consumers take turns, except for the last piece.
	TurnCycles float64 `constant:"turn_cycles" unit:"cycles"`
	// Cut is the fixed cost of split tiles, and Take the cost of each partial sum of a tile of 128×256,
	// through L2.
	Cut  float64 `constant:"cut" unit:"cycles"`
	Take float64 `constant:"take" unit:"cycles"`
	// Scattered is the rate of operands if blocks are at different depths of K, as in unevenly split tiles:
	// L2 serves each block separately, but merges requests from the same depth. Apart is that rate for whole
	// tiles after split ones, where blocks stay apart; it overlaps with the other resources of a step.
	Scattered float64 `constant:"scattered" unit:"B/s"`
	Apart     float64 `constant:"apart" unit:"B/s"`
	// ClusterStart is the extra startup time of a cluster. ClusterGain applies to more than one round: blocks
	// that share the wider operand draw less energy, which raises the clock under the power limit.
	ClusterStart float64 `constant:"cluster_start" unit:"s"`
	ClusterGain  float64 `constant:"cluster_gain" unit:"1"`
	// Under the power limit, a plan that runs alone gets a lower clock if it draws more power. Its cycles
	// grow by e to the power of Energy for each operand more that it loads into shared memory per 64
	// products. An operand that wgmma reads from shared memory counts EnergyReads times. EnergyBeside is the
	// same for pairs that share the narrower operand, EnergyCut for split tiles. It applies only to
	// comparisons of wide plans on 16 bits, where it was measured.
	Energy       float64 `constant:"energy" unit:"1"`
	EnergyReads  float64 `constant:"energy_reads" unit:"1"`
	EnergyBeside float64 `constant:"energy_beside" unit:"1"`
	EnergyCut    float64 `constant:"energy_cut" unit:"1"`
	// Launch is the fixed cost of a launch.
	Launch float64 `constant:"launch" unit:"cycles"`
	// Elements is the rate of the extra cost of C without TMA stores.
	Elements float64 `constant:"elements" unit:"B/s"`
}

var wideModels = calibration.Of[wideModel]("hopper")

// stepCycles returns a block's cycles for 128 bytes of K, where L2 serves so many blocks at once. 64 × 8 outputs,
// 32 bytes deep, take four tensor-core cycles.
func (t hopperTile) stepCycles(a planning.Arch, m *wideModel, blocks int) float64 {
	port := m.Port * crowd(a, blocks) * a.ClockMHz * 1e6 / a.LoadClock(m.Clock)
	cycles := planning.Norm(m.Overlap,
		float64(t.rows*t.cols)/32,
		t.reads()*hopperStepBytes/m.SharedBytes,
		float64((t.rows+t.cols)*hopperStepBytes)/port)
	if t.stages() < 4 {
		cycles *= 1 + m.Shallow
	}
	return cycles
}

// crowd is how much more of L2 each of so many blocks has than if all multiprocessors had one. Two share a port.
func crowd(a planning.Arch, blocks int) float64 {
	return min(2, max(1, float64(a.SMs)/float64(max(1, blocks))))
}

// limited is the weight of the power limit's effect. Weight 1 favors plans that run alone; weight 0 favors
// plans among other work with one common clock. Half of it is near the best for both.
const limited = 0.5

// tilePace is a tile's cycles per step, and the power limit's factors per cycle: drawn for any plan, beside
// for pairs side by side, cut for split tiles.
type tilePace struct{ step, drawn, beside, cut float64 }

// pace returns the tile's pace for a type, with a block on each multiprocessor. Calibrated cards already include
// the power limit in their clock.
func (t hopperTile) pace(a planning.Arch, m *wideModel, d kernels.DType) tilePace {
	p := tilePace{t.stepCycles(a, m, a.SMs), 1, 1, 1}
	if a.LoadMHz == 0 && d.Size() == 2 {
		operands := float64(t.rows+t.cols) + m.EnergyReads*t.reads()
		p.drawn = math.Exp(limited * m.Energy * 64 * operands / float64(t.rows*t.cols))
		p.beside, p.cut = math.Exp(limited*m.EnergyBeside), math.Exp(limited*m.EnergyCut)
	}
	return p
}

// crowded returns the pace of a choice's tile, given that with a block on each multiprocessor.
func (c hopperChoice) crowded(a planning.Arch, t tilePace) tilePace {
	if blocks := c.clusters * c.size(); blocks < a.SMs*9/10 {
		t.step = c.stepCycles(a, wideModels.For(a.CC, a.SMs, a.Bandwidth), blocks)
	}
	return t
}

func (c hopperChoice) drawn(t tilePace) float64 {
	drawn := t.drawn
	if c.pair == sideBySide {
		drawn *= t.beside
	}
	if c.split > 0 {
		drawn *= t.cut
	}
	return drawn
}

// reads returns wgmma's row and column reads per step: its rows once for all columns, and its columns once
// per 64 rows.
func (t hopperTile) reads() float64 {
	blocks, width := t.rows/64, t.cols // wgmmas of both consumers
	if t.dividesColumns() {
		blocks, width = blocks*hopperConsumers, width/hopperConsumers
	}
	return float64(blocks * (64 + width))
}

// area is relative to a tile of 128×256.
func (t hopperTile) area() float64 { return float64(t.rows*t.cols) / (128 * 256) }

// absent returns the memory time per step for a tile's rows beyond A and B. A tile goes beyond only if it is the
// only one; see [lastStart].
func (c hopperChoice) absent(m *wideModel, p kernels.Task) float64 {
	onRows, onCols := c.extent(p)
	ofRows, ofCols := float64(max(0, c.rows-onRows)), float64(max(0, c.cols-onCols))
	if c.transposed {
		return m.AbsentWeights*ofRows + m.Absent*ofCols
	}
	return m.AbsentRows*ofRows + m.AbsentWeights*ofCols
}

func (c hopperChoice) fetched() int {
	rows, cols := c.size()*c.rows, c.size()*c.cols
	switch c.pair {
	case stacked:
		cols /= 2
	case sideBySide:
		rows /= 2
	}
	return (rows + cols) * hopperStepBytes
}

func (c hopperChoice) rounds() int {
	return planning.DivideUp(c.rowTiles*c.colTiles-c.split, c.clusters)
}

func (c hopperChoice) share() float64 {
	return float64(c.split) * float64(c.steps) / float64(c.clusters)
}

// apart reports whether tiles are split unevenly, which puts blocks at different depths of K.
func (c hopperChoice) apart() bool {
	tiles := c.rowTiles * c.colTiles
	return c.split > 0 && (c.split < tiles || c.clusters%tiles != 0)
}

// wholeCycles returns the cycles per step of whole tiles, given step for blocks at one depth of K.
func (c hopperChoice) wholeCycles(m *wideModel, step, clock float64) float64 {
	if !c.apart() {
		return step
	}
	return planning.Norm(m.Overlap, step, float64(c.clusters*c.fetched())/m.Apart*clock)
}

// cores returns the tensor-core cycles of the busiest cluster, given the cycles per step of split and of
// whole tiles.
func (c hopperChoice) cores(m *wideModel, step, whole float64) float64 {
	rounds, share := float64(c.rounds()), c.share()
	// A stretch of split tiles begins and ends inside a tile.
	pieces := rounds
	if c.split > 0 {
		pieces += share/float64(c.steps) + 1
	}
	end := m.TileCycles * (1 - m.Area + m.Area*c.area())
	ends := pieces * end
	if c.turns {
		ends = pieces*m.TurnCycles + end
	}
	return rounds*float64(c.steps)*whole + share*step + ends
}

// least returns a cheap lower bound of seconds: the tensor cores alone, with the maximum cluster gain.
func (c hopperChoice) least(a planning.Arch, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	return (c.cores(m, step, step) + m.Launch) / a.LoadClock(m.Clock) * (1 - m.ClusterGain) * (1 - 1e-9) // margin for rounding errors
}

func (c hopperChoice) seconds(a planning.Arch, p kernels.Task, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	t := c.cores(m, step, c.wholeCycles(m, step, clock)) / clock
	if a.Bandwidth > 0 {
		memory := p.Shape().Bytes(p.DType) / (a.Bandwidth * m.Memory)
		if c.split == 0 && c.rounds() == 1 {
			memory += c.absent(m, p) * float64(c.steps)
		}
		t = planning.Norm(m.Both, t, memory)
	}
	t += m.Launch / clock
	if c.split > 0 {
		share := c.share()
		parts := math.Ceil(max(1, float64(c.steps)/share))
		t += (m.Cut + m.Take*parts*c.area()) / clock
		if c.apart() {
			busy := share * step / clock
			fetch := share * float64(c.clusters*c.fetched()) / m.Scattered
			t += math.Cbrt(busy*busy*busy+fetch*fetch*fetch) - busy
		}
	}
	if c.pair != single {
		if c.pair == stacked && c.rowTiles*c.colTiles > c.clusters {
			t *= 1 - m.ClusterGain
		}
		t += m.ClusterStart
	}
	return t
}
