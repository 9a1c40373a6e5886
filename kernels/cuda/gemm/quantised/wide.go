package quantised

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// wideTile is a tile of hopper_scaled_wide.cu: tokens and columns of C.
type wideTile struct{ tokens, columns int }

var wideTiles = []wideTile{{64, 128}, {64, 192}, {64, 256}, {128, 64}, {128, 128}, {128, 192}, {128, 256}, {256, 128}}

// widePair says how the two blocks of a cluster lie.
type widePair int

const (
	wideSingle  widePair = iota
	wideStacked          // of the same columns
	wideBeside           // of the same tokens
)

// wideChoice is a launch of hopper_scaled_wide.cu.
type wideChoice struct {
	wideTile
	pair               widePair
	stages             int
	rowTiles, colTiles int // of a cluster
	steps, blocks      int
	split              int // tiles that are split along K
	grouped            bool
}

func (p widePair) size() int {
	if p == wideSingle {
		return 1
	}
	return 2
}

func (c wideChoice) tiles() int    { return c.rowTiles * c.colTiles }
func (c wideChoice) clusters() int { return c.blocks / c.pair.size() }

// shared returns the bytes of the boxes of C, of a ring with its barriers, and of the scales.
func (c wideChoice) shared(stages int) int {
	stage, scales := (c.tokens+c.columns)*scaledGroup+2*8, 4*c.columns
	if c.tokens >= 128 && c.columns < 256 {
		scales *= 2 // each consumer has those of all columns
	}
	if c.grouped {
		stage, scales = stage+4*c.tokens, 0
	}
	return scaledBoxes + scales + stages*stage
}

// wideChoices returns the launches for a task; there are none for scales of single columns in groups.
func wideChoices(a planning.Arch, p kernels.Task) (all []wideChoice) {
	grouped := p.Weights.GroupK == scaledGroup
	if grouped && p.Weights.GroupN != scaledBlock {
		return nil
	}
	for _, t := range wideTiles {
		for _, pair := range []widePair{wideSingle, wideStacked, wideBeside} {
			c := wideChoice{wideTile: t, pair: pair, steps: planning.DivideUp(p.K, scaledGroup), grouped: grouped}
			high, wide := t.tokens, t.columns
			switch pair {
			case wideStacked:
				high *= 2
			case wideBeside:
				wide *= 2
			}
			if pair != wideSingle && (a.SMs < 2 || p.M <= high-t.tokens || p.N <= wide-t.columns) || 2*p.M < t.tokens {
				continue // half of the cluster or more of the tile would be empty
			}
			c.rowTiles, c.colTiles = planning.DivideUp(p.M, high), planning.DivideUp(p.N, wide)
			c.stages = min(scaledMostStages, (planning.Shared90-c.shared(0))/(c.shared(1)-c.shared(0)))
			clusters := a.SMs / pair.size()
			for _, c.split = range scaledSplits(c.tiles(), clusters, c.steps) {
				c.blocks = clusters * pair.size()
				if c.split == 0 {
					c.blocks = min(c.tiles(), clusters) * pair.size()
				}
				all = append(all, c)
			}
		}
	}
	return all
}

func (c wideChoice) label() string {
	s := fmt.Sprintf("%dx%d stages %d", c.tokens, c.columns, c.stages)
	switch c.pair {
	case wideStacked:
		s += " cluster 2x1"
	case wideBeside:
		s += " cluster 1x2"
	}
	if c.split > 0 {
		s += fmt.Sprintf(" split %d of %d", c.split, c.tiles())
	}
	return s
}

func (c wideChoice) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	plan := gemm.Plan{
		Label: c.label(), Stages: c.stages, Slots: a.SMs, Scratch: rows.Copied, Seconds: c.seconds(a, p.Task) + rows.Seconds(a),
		Tiling: kernels.Tiling{
			Tile: [3]int{c.tokens, c.columns, scaledGroup}, Waves: float64(c.tiles()*c.pair.size()) / float64(a.SMs), Split: 1,
		},
	}
	if c.split > 0 {
		plan.Tiling.Split = 2
		plan.Scratch += int64(c.blocks) * int64(c.tokens*c.columns) * 4
		plan.Flags = int64(c.blocks) * 2 * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, c.call(p, at, lda))
	}
	return plan
}

func (c wideChoice) call(p gemm.Problem, at gemm.Addresses, lda int) planning.Call {
	by := "column"
	if c.grouped {
		by = "block"
	}
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_scaled_wide_%s_%dx%d", by, c.tokens, c.columns), Shared: c.shared(c.stages), Overlap: true,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: scaledThreads},
	}
	boxA, boxB := c.tokens, c.columns
	switch c.pair {
	case wideStacked:
		boxB /= 2
	case wideBeside:
		boxA /= 2
	}
	if c.pair != wideSingle {
		k.Cluster = planning.Dim3{X: 2}
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: boxA, BoxCols: scaledGroup, Swizzle: 128,
	}).TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.N, Cols: p.K, LD: p.K, BoxRows: boxB, BoxCols: scaledGroup, Swizzle: 128,
	})
	cut := c.split * c.steps
	scaledRest(&k, p, at, []int{p.M, p.N, c.steps, c.rowTiles, c.colTiles, min(scaledTogether, c.rowTiles), c.split, cut / c.clusters(),
		cut % c.clusters(), planning.OneIf(c.pair == wideStacked), 0}, c.tokens, c.stages)
	return k
}

// What hopper_scaled_wide.cu reaches, measured on an H200: tensor-core cycles as a part of a step's, cycles of a step beside them,
// and cycles of a tile's end; constants of hopper_scaled.cu hold for the rest.
const (
	wideCores = 0.775
	wideStep  = 83
	wideEnd   = 2000
)

// seconds is the expected time of a launch.
func (c wideChoice) seconds(a planning.Arch, p kernels.Task) float64 {
	clock := a.LoadClock(scaledClock)
	size := c.pair.size()
	fetched := c.tokens + c.columns
	switch c.pair {
	case wideStacked:
		fetched -= c.columns / 2
	case wideBeside:
		fetched -= c.tokens / 2
	}
	step := planning.Norm(scaledBoth, float64(c.tokens*c.columns)/32/wideCores/clock, float64(fetched*scaledGroup*c.blocks)/scaledFromL2)
	step += wideStep / clock
	rounds := float64(planning.DivideUp(c.tiles()-c.split, c.clusters())) + float64(c.split)/float64(c.clusters())
	t := rounds*float64(c.steps)*step + math.Ceil(rounds)*wideEnd/clock
	if a.Bandwidth > 0 {
		idle := 1 - min(1, float64(c.blocks)/float64(a.SMs))
		memory := p.Subject.Bytes(p.M) / (a.Bandwidth * scaledMemory) * (1 + scaledIdle*idle)
		t = planning.Norm(scaledBoth, t, memory)
	}
	t += scaledStart
	if size > 1 {
		t += scaledPair
	}
	if c.split > 0 {
		parts := max(1, float64(c.clusters())/float64(c.split))
		t += scaledCut + scaledTake*parts*float64(c.tokens*c.columns)/(128*128)
	}
	return t
}
