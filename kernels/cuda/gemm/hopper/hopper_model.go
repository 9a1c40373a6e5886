package hopper

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// loadClock is the clock under load, by what multiplies.
type loadClock struct {
	// Clock is what the power limit leaves of the highest clock, with normal data of bf16, where all
	// multiprocessors multiply. Those of other types are parts of it: what products of a type draw of power differs.
	Clock float64 `constant:"clock" unit:"1"`
	FP16  float64 `constant:"clock_fp16" unit:"1"`
	FP8   float64 `constant:"clock_fp8" unit:"1"`
	INT8  float64 `constant:"clock_int8" unit:"1"`
	// Where multiprocessors are idle the clock is the part of them that is not, to the power of -Idle, times that.
	Idle float64 `constant:"idle" unit:"1"`
}

// under is that clock as a part of the highest one, beyond which it may lie, where so many multiprocessors multiply.
func (l *loadClock) under(a planning.Arch, d kernels.DType, blocks int) float64 {
	clock := l.Clock
	switch d {
	case kernels.FP16:
		clock *= l.FP16
	case kernels.FP8:
		clock *= l.FP8
	case kernels.INT8:
		clock *= l.INT8
	}
	if blocks < a.SMs {
		clock *= math.Pow(float64(blocks)/float64(a.SMs), -l.Idle)
	}
	return clock
}

// wideModel is the constants of hopper.cu's times.
type wideModel struct {
	// Launches of one round run at Once times the clock.
	loadClock
	Once float64 `constant:"once" unit:"1"`
	// Memory's time and that of the tensor cores add up to the Both-norm. Memory, the part of
	// the bandwidth, is as high as it is since weights are fetched while the launch before ends.
	Memory float64 `constant:"memory" unit:"1"`
	Both   float64 `constant:"both" unit:"1"`
	// Absent is how much longer memory takes for each row of the tiles that A does
	// not have, in every step: TMA is slow to fill in zeros. That shows where all
	// blocks are at the same depth of K: one round, no tile cut.
	Absent float64 `constant:"absent" unit:"s"`
	// SharedBytes is what wgmma reads of shared memory in a clock, and Port what a multiprocessor takes
	// in of L2, also where another one of its cluster has fetched it. Both work beside the tensor cores.
	SharedBytes float64 `constant:"shared_bytes" unit:"B/cycle"`
	Port        float64 `constant:"port" unit:"B/cycle"`
	// TileCycles is what each piece of work costs beside its steps, of a tile of 128×256: the
	// ring runs empty, C is in the way. Area is the part of it that grows with the tile.
	TileCycles float64 `constant:"tile_cycles" unit:"cycles"`
	Area       float64 `constant:"area" unit:"1"`
	// TurnCycles is what is left of that where consumers take turns, but for the last piece.
	TurnCycles float64 `constant:"turn_cycles" unit:"cycles"`
	// That tiles are cut costs Cut, and Take for each of the sums that make
	// up a tile of 128×256: they go through L2.
	Cut  float64 `constant:"cut" unit:"s"`
	Take float64 `constant:"take" unit:"s"`
	// Scattered is the rate at which operands come where blocks are at different
	// depths of K, as those of cut tiles are unless all are cut alike: L2 answers each of
	// them apart, where blocks at one depth ask for the same at the same time.
	Scattered float64 `constant:"scattered" unit:"B/s"`
	// A cluster starts later. Where there is more than one round, blocks that share the
	// wider operand draw less energy, of which the power limit makes speed.
	ClusterStart float64 `constant:"cluster_start" unit:"s"`
	ClusterGain  float64 `constant:"cluster_gain" unit:"1"`
	// Launch is a launch in a graph.
	Launch float64 `constant:"launch" unit:"s"`
	// Elements is how many bytes a second C costs more where TMA can't store it.
	Elements float64 `constant:"elements" unit:"B/s"`
}

var wideModels = calibration.Of[wideModel]("hopper")

// stepCycles is how long a block takes for 128 bytes of K: 64 × 8 outputs, 32 bytes deep,
// take four cycles of the tensor cores, for which wgmma reads its rows once for all its
// columns, and its columns once for every 64 rows.
func (t hopperTile) stepCycles(m *wideModel) float64 {
	multiply := float64(t.rows*t.cols) / 32
	blocks, width := t.rows/64, t.cols // wgmmas of both consumers
	if t.dividesColumns() {
		blocks, width = blocks*hopperConsumers, width/hopperConsumers
	}
	read := float64(blocks*(64+width)*hopperStepBytes) / m.SharedBytes
	return max(multiply, read, float64((t.rows+t.cols)*hopperStepBytes)/m.Port)
}

// area is the tile's, where that of 128×256 is 1.
func (t hopperTile) area() float64 { return float64(t.rows*t.cols) / (128 * 256) }

// absent is how many rows of A the last tile, or pair of tiles along them, lacks.
func (c hopperChoice) absent(p kernels.Problem) float64 {
	rows, tiles, pair := c.rows, c.rowTiles, c.pair == stacked
	if c.transposed {
		rows, tiles, pair = c.cols, c.colTiles, c.pair == sideBySide
	}
	if pair {
		rows *= 2
	}
	return float64(rows*tiles - p.M)
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

// cores is how long the cluster with the most to do keeps its tensor cores busy, at which
// clock in hertz. share is how many steps it gets of the tiles that are cut; once says that all
// work is one round of whole tiles.
func (c hopperChoice) cores(a planning.Arch, m *wideModel, d kernels.DType, step float64) (t, clock, share float64, once bool) {
	clock = m.under(a, d, c.clusters*c.size())
	rounds := planning.DivideUp(c.rowTiles*c.colTiles-c.split, c.clusters)
	once = c.split == 0 && rounds == 1
	if once {
		clock *= m.Once
	}
	clock = a.ClockMHz * 1e6 * min(clock, 1)
	share = float64(c.split) * float64(c.steps) / float64(c.clusters)
	// A stretch of cut tiles begins and ends inside of one.
	pieces := float64(rounds)
	if c.split > 0 {
		pieces += share/float64(c.steps) + 1
	}
	end := m.TileCycles * (1 - m.Area + m.Area*c.area())
	ends := pieces * end
	if c.turns {
		ends = pieces*m.TurnCycles + end
	}
	return ((float64(rounds)*float64(c.steps)+share)*step + ends) / clock, clock, share, once
}

// least is below seconds, for a fraction of what that takes: the tensor cores alone, with
// all that a cluster may gain.
func (c hopperChoice) least(a planning.Arch, d kernels.DType, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	t, _, _, _ := c.cores(a, m, d, step)
	return (t + m.Launch) * (1 - m.ClusterGain) * (1 - 1e-9) // what rounding may take
}

// seconds is what the model expects of one launch: that of the cluster with the most
// to do.
func (c hopperChoice) seconds(a planning.Arch, p kernels.Problem, step float64) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	t, clock, share, once := c.cores(a, m, p.DType, step)
	if a.Bandwidth > 0 {
		memory := p.Shape.Bytes(p.DType) / (a.Bandwidth * m.Memory)
		if once {
			memory += m.Absent * c.absent(p) * float64(c.steps)
		}
		t = math.Pow(math.Pow(t, m.Both)+math.Pow(memory, m.Both), 1/m.Both)
	}
	t += m.Launch
	if c.split > 0 {
		parts := math.Ceil(max(1, float64(c.steps)/share))
		t += m.Cut + m.Take*parts*c.area()
		if tiles := c.rowTiles * c.colTiles; c.split < tiles || c.clusters%tiles != 0 {
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
