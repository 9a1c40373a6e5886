package hopper

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

type smallMModel struct {
	// Clock is the fraction of the highest clock under the power limit with normal data. Instruction time is
	// in cycles of that clock; L2 and its transfers use the highest clock.
	Clock float64 `constant:"clock" unit:"1"`
	// Start is the fixed cost of a launch that begins early, before its predecessor ends.
	Start float64 `constant:"start" unit:"cycles"`
	// Memory is the reached fraction of bandwidth. Clusters of other tokens that read the same weights at the
	// same time cost Again of that. Memory time grows by Few times the fraction of multiprocessors without a
	// tile, and by Even if all tiles have equal splits, because all blocks then read at the same distances.
	Memory float64 `constant:"memory" unit:"1"`
	Again  float64 `constant:"again" unit:"1"`
	Few    float64 `constant:"few" unit:"1"`
	Even   float64 `constant:"even" unit:"1"`
	// Step is the producer's and consumers' fixed cost of a step, in cycles of the highest clock. Steps of
	// two blocks of K are longer by Deep if a cluster shares operands, because each waits for both blocks of
	// all operands.
	Step float64 `constant:"step" unit:"cycles"`
	Deep float64 `constant:"deep" unit:"1"`
	// Boxes is the lost fraction of the L2 traffic that sharing in a cluster saves, because tokens come in
	// small boxes. BoxesOfTwo is the loss if two blocks share tokens only; it may exceed 1. Port is a
	// multiprocessor's input, shared or not.
	Boxes      float64 `constant:"boxes" unit:"1"`
	BoxesOfTwo float64 `constant:"boxes_of_two" unit:"1"`
	Port       float64 `constant:"port" unit:"B/cycle"`
	// Weights is that fraction for rows of B, which come in larger boxes.
	Weights float64 `constant:"weights" unit:"1"`
	// Absent is the memory time for each token of a tile that is larger than A, per block of K, because TMA
	// fills in zeros slowly. It applies if blocks that share operands are at the same depth of K. It does not
	// apply to split tiles, to tiles without a cluster, or, as measured, to clusters of four.
	Absent float64 `constant:"absent" unit:"s"`
	// Reads is wgmma's reads from shared memory per cycle.
	Reads float64 `constant:"reads" unit:"B/cycle"`
	// The resources of a multiprocessor overlap: Overlap is the p of the p-norm of their times. Both is the p
	// of the norm with memory.
	Overlap float64 `constant:"overlap" unit:"1"`
	Both    float64 `constant:"both" unit:"1"`
	// Further blocks of a cluster along B's rows cost AlongRows times their number to the power of Further;
	// those along tokens cost AlongTokens each.
	AlongRows   float64 `constant:"along_rows" unit:"cycles"`
	Further     float64 `constant:"further" unit:"1"`
	AlongTokens float64 `constant:"along_tokens" unit:"cycles"`
	// Next is the cost of another tile of 64×128, whose products wait for the previous sums to be stored.
	// Leave is the cost of storing the last tile, for 128×256.
	Next  float64 `constant:"next" unit:"cycles"`
	Leave float64 `constant:"leave" unit:"cycles"`
	// Scattered is the rate of operands if blocks are at different depths of K, as in unevenly split tiles.
	// It combines with the other times in a 3-norm. Blocks with several tiles drift apart as well, by the
	// factor Rounds. Fewer blocks share operands if tiles have equal splits, by the factor Evenly.
	Scattered float64 `constant:"scattered" unit:"B/s"`
	Rounds    float64 `constant:"rounds" unit:"1"`
	Evenly    float64 `constant:"evenly" unit:"1"`
	// A split tile costs HandOver, plus Part for each part after the first. One multiprocessor reads the
	// parts at PartRate, and L2 takes in the nearly simultaneous parts of all blocks at AllParts. Uneven
	// multiplies the cost if clusters hold pieces of two tiles, Behind if whole tiles wait behind it.
	HandOver float64 `constant:"hand_over" unit:"cycles"`
	Part     float64 `constant:"part" unit:"cycles"`
	PartRate float64 `constant:"part_rate" unit:"B/cycle"`
	AllParts float64 `constant:"all_parts" unit:"B/cycle"`
	Uneven   float64 `constant:"uneven" unit:"1"`
	Behind   float64 `constant:"behind" unit:"1"`
}

var smallMModels = calibration.Of[smallMModel]("hopper_narrow")

func (c smallMChoice) seconds(a planning.Arch, p kernels.Task) float64 {
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

// core returns the time of the busiest multiprocessor for products and their L2 traffic.
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
	fromL2 := planning.L2PerClock(a) * crowd(a, c.blocks())
	// 64 × 8 outputs, 32 bytes deep, take four tensor-core cycles, while wgmma reads its 64 rows and the
	// tokens.
	multiply := stepBytes / 32 * float64(c.rows/64) * max(float64(c.tokens)/2, float64(64+c.tokens)*32/m.Reads)
	weights := float64(c.rows) * (m.Weights + (1-m.Weights)/float64(c.clusterTokens))
	fetched := stepBytes * (weights + tokens)
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
	case c.streamed > 0:
		return planning.Norm(3, t, m.Evenly*apart)
	}
	return t
}

func (c smallMChoice) even() bool { return c.streamed == c.tiles && c.clusters%c.streamed == 0 }

// idle returns the fraction of multiprocessors without a tile, averaged over rounds if no tile is split.
func (c smallMChoice) idle(a planning.Arch) float64 {
	if c.streamed > 0 {
		return 1 - float64(c.blocks())/float64(a.SMs)
	}
	return 1 - float64(c.tiles*c.size())/float64(planning.DivideUp(c.tiles, c.clusters)*a.SMs)
}

// mostAgain is how many clusters of other tokens count. Beyond that they share what others fetched.
const mostAgain = 3

// memory returns the memory time, 0 if the bandwidth is unknown.
func (c smallMChoice) memory(a planning.Arch, p kernels.Task, m *smallMModel) float64 {
	t := 0.
	if a.Bandwidth > 0 {
		again := m.Again * float64(min(c.tokenTiles-1, mostAgain)) * float64(p.N) * float64(p.K) * float64(p.DType.Size())
		t = (p.Shape().Bytes(p.DType) + again) / (a.Bandwidth * m.Memory)
		t *= 1 + m.Few*c.idle(a)
		if c.even() {
			t *= 1 + m.Even
		}
	}
	if shared := c.size()*c.tokenTiles > 1; shared && c.size() < 4 && c.streamed == 0 && c.tiles <= c.clusters {
		absent := max(0, c.tokens-p.M) // otherwise the last tile begins earlier
		t += m.Absent * float64(absent) * float64(c.steps*c.depth())
	}
	return t
}
