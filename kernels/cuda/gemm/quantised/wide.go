package quantised

import (
	"fmt"

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
	scaledWalk
	pair widePair
}

func (p widePair) size() int {
	if p == wideSingle {
		return 1
	}
	return 2
}

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
	if p.Weights.GroupK == scaledGroup && p.Weights.GroupN != scaledBlock {
		return nil
	}
	for _, t := range wideTiles {
		for _, pair := range []widePair{wideSingle, wideStacked, wideBeside} {
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
			c := wideChoice{t, newScaledWalk(p, pair.size(), planning.DivideUp(p.M, high), planning.DivideUp(p.N, wide)), pair}
			c.stages = scaledStages(c.shared)
			for _, c.scaledWalk = range c.splits(a) {
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
	return c.scaledWalk.plan(a, p, c.label(), [2]int{c.tokens, c.columns}, c.seconds(a, p.Task), c.call)
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
	c.rest(&k, p, at, p.M, p.N, c.pair == wideStacked, c.tokens)
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
	fetched := c.tokens + c.columns
	switch c.pair {
	case wideStacked:
		fetched -= c.columns / 2
	case wideBeside:
		fetched -= c.tokens / 2
	}
	step := planning.Norm(scaledBoth, float64(c.tokens*c.columns)/32/wideCores/clock, float64(fetched*scaledGroup*c.blocks)/scaledFromL2)
	step += wideStep / clock
	return c.scaledWalk.seconds(a, p, step, wideEnd, c.tokens*c.columns)
}
