package hopper

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// smallMModel is the constants of the kernel's times.
type smallMModel struct {
	// Clock is what the power limit leaves of the highest clock while multiprocessors multiply normal data. What
	// they do by instructions takes cycles of that; L2, and what comes of it, those of the highest clock.
	Clock float64 `constant:"clock" unit:"1"`
	// Start is what a launch takes beside its work, when its predecessor lets it
	// begin early.
	Start float64 `constant:"start" unit:"cycles"`
	// Memory is the part of the memory's bandwidth that is reached. What clusters of
	// other tokens fetch of the same weights at the same time costs Again of that. Memory takes longer by Few
	// times the part of the multiprocessors that has no tile, and by Even where all tiles are cut into the same
	// parts: then all blocks read at the same distances.
	Memory float64 `constant:"memory" unit:"1"`
	Again  float64 `constant:"again" unit:"1"`
	Few    float64 `constant:"few" unit:"1"`
	Even   float64 `constant:"even" unit:"1"`
	// Step is what producer and consumers take for a step, in cycles of the highest clock. Steps of two blocks of K take
	// longer by Deep where a cluster shares operands: each waits for both blocks of all of them.
	Step float64 `constant:"step" unit:"cycles"`
	Deep float64 `constant:"deep" unit:"1"`
	// What blocks of a cluster share comes once from L2, but for tokens, which come in
	// small boxes: Boxes of what sharing would save is lost, BoxesOfTwo where two blocks share them and nothing
	// else: there it may be more than all. Port is what a multiprocessor takes in, shared or not.
	Boxes      float64 `constant:"boxes" unit:"1"`
	BoxesOfTwo float64 `constant:"boxes_of_two" unit:"1"`
	Port       float64 `constant:"port" unit:"B/cycle"`
	// Absent is how long the memory system takes for each token of a tile that A
	// does not have, in every block of K: TMA is slow to fill in zeros. That shows where
	// blocks that share operands are at the same depth of K: not in cut tiles, nor in
	// tiles of all tokens without a cluster; nor was it found in clusters of four.
	Absent float64 `constant:"absent" unit:"s"`
	// Reads is how many bytes of shared memory wgmma reads in a cycle.
	Reads float64 `constant:"reads" unit:"B/cycle"`
	// The resources of a multiprocessor work side by side, Overlap is the p of the p-norm of their
	// times, and so they do with memory, Both that of theirs.
	Overlap float64 `constant:"overlap" unit:"1"`
	Both    float64 `constant:"both" unit:"1"`
	// Further blocks of a cluster along B's rows cost AlongRows times their number to
	// the power of Further, those along tokens AlongTokens each.
	AlongRows   float64 `constant:"along_rows" unit:"cycles"`
	Further     float64 `constant:"further" unit:"1"`
	AlongTokens float64 `constant:"along_tokens" unit:"cycles"`
	// Next is what it costs to go on to another tile of 64×128: its sums leave
	// before the next products begin. Leave is that of the last tile, of 128×256.
	Next  float64 `constant:"next" unit:"cycles"`
	Leave float64 `constant:"leave" unit:"cycles"`
	// Scattered is the rate at which operands come where blocks are at different depths of K, as
	// those of cut tiles are unless all are cut alike: the 3-norm of both times counts. Blocks that have
	// several tiles part as well, by Rounds of that.
	Scattered float64 `constant:"scattered" unit:"B/s"`
	Rounds    float64 `constant:"rounds" unit:"1"`
	// A cut tile costs HandOver, Part for each of its parts but one, the time in which one multiprocessor
	// reads the parts at PartRate, and that in which L2 takes in the parts of all blocks, which come at
	// about the same time, at AllParts; Uneven times that where clusters hold
	// pieces of two tiles, and Behind times where whole tiles wait behind it.
	HandOver float64 `constant:"hand_over" unit:"cycles"`
	Part     float64 `constant:"part" unit:"cycles"`
	PartRate float64 `constant:"part_rate" unit:"B/cycle"`
	AllParts float64 `constant:"all_parts" unit:"B/cycle"`
	Uneven   float64 `constant:"uneven" unit:"1"`
	Behind   float64 `constant:"behind" unit:"1"`
}

var smallMModels = calibration.Of[smallMModel]("hopper_narrow")

// seconds is what the model expects of one launch.
func (c smallMChoice) seconds(a planning.Arch, p kernels.Problem) float64 {
	m := smallMModels.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	pieces := planning.DivideUp(c.tiles-c.streamed, c.clusters) + planning.DivideUp(c.streamed, c.clusters)
	size := float64(c.rows * c.tokens)
	beside := m.Start + m.AlongTokens*float64(c.clusterTokens-1) + m.Next*float64(pieces-1)*size/(64*128) + m.Leave*size/(128*256)
	if c.clusterRows > 1 {
		beside += m.AlongRows * math.Pow(float64(c.clusterRows-1), m.Further)
	}
	if c.streamed > 0 {
		parts := float64(planning.DivideUp(c.clusters, c.streamed))
		cut := m.HandOver + m.Part*(parts-1) + 4*size*(parts/m.PartRate+float64(c.blocks())/m.AllParts)
		switch {
		case c.streamed < c.tiles:
			cut *= m.Behind
		case !c.even():
			cut *= m.Uneven
		}
		beside += cut
	}
	return planning.Norm(m.Both, c.core(a, m), c.memory(a, p, m)) + beside/clock
}

// core is how long the busiest multiprocessor takes for its products, and for what they need out of L2.
func (c smallMChoice) core(a planning.Arch, m *smallMModel) float64 {
	clock := a.ClockMHz * 1e6
	stepBytes := float64(c.depth() * smallMBlockBytes)
	tokens := float64(c.tokens)
	switch {
	case c.clusterRows == 2 && c.clusterTokens == 1:
		tokens *= m.BoxesOfTwo + (1-m.BoxesOfTwo)/2
	case c.clusterRows > 1:
		tokens *= m.Boxes + (1-m.Boxes)/float64(c.clusterRows)
	}
	fromL2 := planning.L2PerClock(a)
	if c.blocks() <= a.SMs/2 {
		fromL2 *= 2 // two multiprocessors share one way to it
	}
	// 64 × 8 outputs, 32 bytes deep, take four cycles of the tensor cores; meanwhile wgmma
	// reads its 64 rows and the tokens.
	multiply := stepBytes / 32 * float64(c.rows/64) * max(float64(c.tokens)/2, float64(64+c.tokens)*32/m.Reads)
	fetched := stepBytes * (float64(c.rows)/float64(c.clusterTokens) + tokens)
	steps := float64(c.busiest())
	t := steps / clock * planning.Norm(m.Overlap,
		multiply*clock/a.LoadClock(m.Clock),
		m.Step,
		fetched/fromL2,
		stepBytes*float64(c.rows+c.tokens)/m.Port)
	if c.depth() > 1 && c.size() > 1 {
		t *= 1 + m.Deep
	}
	apart := steps * fetched * float64(c.blocks()) / m.Scattered
	switch {
	case c.streamed == 0 && c.tiles > c.clusters:
		return planning.Norm(3, t, m.Rounds*apart)
	case c.streamed > 0 && !c.even():
		return planning.Norm(3, t, apart)
	}
	return t
}

// even says that every tile is cut into as many parts as any other.
func (c smallMChoice) even() bool { return c.streamed == c.tiles && c.clusters%c.streamed == 0 }

// idle is the part of the multiprocessors that has no tile: where none is cut, on average over the rounds.
func (c smallMChoice) idle(a planning.Arch) float64 {
	if c.streamed > 0 {
		return 1 - float64(c.blocks())/float64(a.SMs)
	}
	return 1 - float64(c.tiles*c.size())/float64(planning.DivideUp(c.tiles, c.clusters)*a.SMs)
}

// memory is how long the memory takes, 0 where its bandwidth is not known.
func (c smallMChoice) memory(a planning.Arch, p kernels.Problem, m *smallMModel) float64 {
	t := 0.
	if a.Bandwidth > 0 {
		again := m.Again * float64(c.tokenTiles-1) * float64(p.N) * float64(p.K) * float64(p.DType.Size())
		t = (p.Shape.Bytes(p.DType) + again) / (a.Bandwidth * m.Memory)
		t *= 1 + m.Few*c.idle(a)
		if c.even() {
			t *= 1 + m.Even
		}
	}
	if shared := c.size()*c.tokenTiles > 1; shared && c.size() < 4 && c.streamed == 0 && c.tiles <= c.clusters {
		absent := c.tokenTiles*c.tokens*c.clusterTokens - p.M
		t += m.Absent * float64(absent) * float64(c.steps*c.depth())
	}
	return t
}
