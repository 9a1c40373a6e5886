package hopper

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// wideModel is the constants of hopper.cu's times.
type wideModel struct {
	// Clock is what the power limit leaves of the highest clock while multiprocessors multiply normal data. What
	// multiprocessors do takes cycles of that; memory and L2 have clocks of their own.
	Clock float64 `constant:"clock" unit:"1"`
	// Memory's time and that of the tensor cores add up to the Both-norm. Memory, the part of
	// the bandwidth, is as high as it is since weights are fetched while the launch before ends.
	Memory float64 `constant:"memory" unit:"1"`
	Both   float64 `constant:"both" unit:"1"`
	// Absent is how much longer memory takes for each row of the tiles that A does
	// not have, in every step: TMA is slow to fill in zeros. That shows where all
	// blocks are at the same depth of K: one round, no tile cut. AbsentRows is that where A lies on
	// wgmma's rows, and AbsentWeights that of rows that B does not have.
	Absent        float64 `constant:"absent" unit:"s"`
	AbsentRows    float64 `constant:"absent_rows" unit:"s"`
	AbsentWeights float64 `constant:"absent_weights" unit:"s"`
	// SharedBytes is what wgmma reads of shared memory in a cycle. Port is what a multiprocessor takes
	// in of L2, also where another one of its cluster has fetched it, in a cycle of the highest clock. Both
	// work beside the tensor cores: Overlap is the p of the p-norm of the three times. Of a ring of
	// less than four stages each step takes longer by Shallow.
	SharedBytes float64 `constant:"shared_bytes" unit:"B/cycle"`
	Port        float64 `constant:"port" unit:"B/cycle"`
	Overlap     float64 `constant:"overlap" unit:"1"`
	Shallow     float64 `constant:"shallow" unit:"1"`
	// TileCycles is what each piece of work costs beside its steps, of a tile of 128×256: the
	// ring runs empty, C is in the way. Area is the part of it that grows with the tile.
	TileCycles float64 `constant:"tile_cycles" unit:"cycles"`
	Area       float64 `constant:"area" unit:"1"`
	// TurnCycles is what is left of that where consumers take turns, but for the last piece.
	TurnCycles float64 `constant:"turn_cycles" unit:"cycles"`
	// That tiles are cut costs Cut, and Take for each of the sums that make
	// up a tile of 128×256: they go through L2.
	Cut  float64 `constant:"cut" unit:"cycles"`
	Take float64 `constant:"take" unit:"cycles"`
	// Scattered is the rate at which operands come where blocks are at different
	// depths of K, as those of cut tiles are unless all are cut alike: L2 answers each of
	// them apart, where blocks at one depth ask for the same at the same time. Apart is that rate in the rounds of whole
	// tiles behind cut ones, in which blocks stay apart; it works beside what else a step needs.
	Scattered float64 `constant:"scattered" unit:"B/s"`
	Apart     float64 `constant:"apart" unit:"B/s"`
	// A cluster starts later. Where there is more than one round, blocks that share the
	// wider operand draw less energy, of which the power limit makes speed.
	ClusterStart float64 `constant:"cluster_start" unit:"s"`
	ClusterGain  float64 `constant:"cluster_gain" unit:"1"`
	// Under the power limit a plan that runs by itself gets the less clock the more power it draws. It takes as long as
	// one of e to the power of Energy as many cycles that brings one operand less into shared memory for 64 products, or
	// of which wgmma reads 1 / EnergyReads less from there. EnergyBeside is the same of pairs that share the narrower
	// operand, and EnergyCut of cut tiles. That counts where wide plans on 16 bits, of which it was measured, are compared
	// with each other.
	Energy       float64 `constant:"energy" unit:"1"`
	EnergyReads  float64 `constant:"energy_reads" unit:"1"`
	EnergyBeside float64 `constant:"energy_beside" unit:"1"`
	EnergyCut    float64 `constant:"energy_cut" unit:"1"`
	// Launch is what a launch takes beside its work.
	Launch float64 `constant:"launch" unit:"cycles"`
	// Elements is how many bytes a second C costs more where TMA can't store it.
	Elements float64 `constant:"elements" unit:"B/s"`
}

var wideModels = calibration.Of[wideModel]("hopper")

// stepCycles is how long a block takes for 128 bytes of K: 64 × 8 outputs, 32 bytes deep,
// take four cycles of the tensor cores.
func (t hopperTile) stepCycles(a planning.Arch, m *wideModel) float64 {
	port := m.Port * a.ClockMHz * 1e6 / a.LoadClock(m.Clock)
	cycles := planning.Norm(m.Overlap,
		float64(t.rows*t.cols)/32,
		t.reads()*hopperStepBytes/m.SharedBytes,
		float64((t.rows+t.cols)*hopperStepBytes)/port)
	if t.stages() < 4 {
		cycles *= 1 + m.Shallow
	}
	return cycles
}

// limited is the part that counts of what the power limit takes. All of it would make a plan the fastest by itself, nothing
// the fastest beside other work, whose clock is the same for all: with half of it a plan is near to both.
const limited = 0.5

// tilePace is the cycles that a tile takes for a step, and what the power limit makes of a cycle: of any plan of it, and
// more of one of pairs side by side, and of one with cut tiles.
type tilePace struct{ step, drawn, beside, cut float64 }

// pace is the tile's on operands of a type. Times that were taken have their clock.
func (t hopperTile) pace(a planning.Arch, m *wideModel, d kernels.DType) tilePace {
	p := tilePace{t.stepCycles(a, m), 1, 1, 1}
	if a.LoadMHz == 0 && d.Size() == 2 {
		operands := float64(t.rows+t.cols) + m.EnergyReads*t.reads()
		p.drawn = math.Exp(limited * m.Energy * 64 * operands / float64(t.rows*t.cols))
		p.beside, p.cut = math.Exp(limited*m.EnergyBeside), math.Exp(limited*m.EnergyCut)
	}
	return p
}

// drawn is what the power limit makes of a cycle of the plan.
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

// reads is how many rows and columns wgmma reads in a step: its rows once for all its columns, and its columns once for
// every 64 rows.
func (t hopperTile) reads() float64 {
	blocks, width := t.rows/64, t.cols // wgmmas of both consumers
	if t.dividesColumns() {
		blocks, width = blocks*hopperConsumers, width/hopperConsumers
	}
	return float64(blocks * (64 + width))
}

// area is the tile's, where that of 128×256 is 1.
func (t hopperTile) area() float64 { return float64(t.rows*t.cols) / (128 * 256) }

// absent is for how long memory is busy in a step with rows that A and B do not have: those of the last tile, or pair of
// tiles, along each.
func (c hopperChoice) absent(m *wideModel, p kernels.Problem) float64 {
	rows, cols := c.rows, c.cols
	switch c.pair {
	case stacked:
		rows *= 2
	case sideBySide:
		cols *= 2
	}
	onRows, onCols := c.extent(p)
	ofRows, ofCols := float64(rows*c.rowTiles-onRows), float64(cols*c.colTiles-onCols)
	if c.transposed {
		return m.AbsentWeights*ofRows + m.Absent*ofCols
	}
	return m.AbsentRows*ofRows + m.AbsentWeights*ofCols
}

// fetched is the bytes that a cluster fetches for a step.
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

// rounds are those of whole tiles.
func (c hopperChoice) rounds() int {
	return planning.DivideUp(c.rowTiles*c.colTiles-c.split, c.clusters)
}

// share is how many steps a cluster gets of the tiles that are cut.
func (c hopperChoice) share() float64 {
	return float64(c.split) * float64(c.steps) / float64(c.clusters)
}

// apart says that tiles are cut, and not all alike: blocks are at different depths of K.
func (c hopperChoice) apart() bool {
	tiles := c.rowTiles * c.colTiles
	return c.split > 0 && (c.split < tiles || c.clusters%tiles != 0)
}

// wholeCycles is how long a step of whole tiles takes, of which one takes step cycles where blocks are at one depth of K.
func (c hopperChoice) wholeCycles(m *wideModel, step, clock float64) float64 {
	if !c.apart() {
		return step
	}
	return planning.Norm(m.Overlap, step, float64(c.clusters*c.fetched())/m.Apart*clock)
}

// cores is for how many cycles the cluster with the most to do keeps its tensor cores busy, where a step of cut tiles
// and one of whole tiles take so many.
func (c hopperChoice) cores(m *wideModel, step, whole float64) float64 {
	rounds, share := float64(c.rounds()), c.share()
	// A stretch of cut tiles begins and ends inside of one.
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

// least is below seconds, for a fraction of what that takes: the tensor cores alone, with
// all that a cluster may gain.
func (c hopperChoice) least(a planning.Arch, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	return (c.cores(m, step, step) + m.Launch) / a.LoadClock(m.Clock) * (1 - m.ClusterGain) * (1 - 1e-9) // what rounding may take
}

// seconds is what the model expects of one launch: that of the cluster with the most
// to do.
func (c hopperChoice) seconds(a planning.Arch, p kernels.Problem, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	t := c.cores(m, step, c.wholeCycles(m, step, clock)) / clock
	if a.Bandwidth > 0 {
		memory := p.Shape.Bytes(p.DType) / (a.Bandwidth * m.Memory)
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
