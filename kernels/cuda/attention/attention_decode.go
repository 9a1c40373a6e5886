package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Decode is attention_decode.cu: one row of queries. The sequence is split among blocks, which merge in
// order.
type Decode struct{}

// Constants of attention_decode.cu.
const (
	decodeWarps     = 8
	decodeTile      = 16 // keys
	decodeSplits    = 64 // at most
	decodeMostHeads = 8  // of a block
	decodeMostDim   = 256
)

// decodeKernel is one kernel variant, the number of a group's heads per block, and the resident blocks per
// multiprocessor.
type decodeKernel struct {
	name    string // behind the type
	heads   int
	perSM   int
	tensors bool
	bulk    bool // bulk copies, with tensor cores
}

// Name implements [planning.Family].
func (Decode) Name() string { return "decode" }

// Describe implements [planning.Family].
func (Decode) Describe(planning.Arch) string {
	return "one row against the cache: the heads of a group share a block, the sequence split among blocks"
}

// Supports implements [planning.Family].
func (Decode) Supports(a planning.Arch, p Problem) string {
	switch reason := planning.TypeReason(a, p.DType); {
	case reason != "":
		return reason
	case p.rows != 1:
		return fmt.Sprintf("takes one row of queries, not %d", p.rows)
	case p.heads.Dim > decodeMostDim:
		return fmt.Sprintf("takes heads of up to %d elements, not %d", decodeMostDim, p.heads.Dim)
	}
	if k := p.decodeKernel(a); k.mostSplits(a, p.heads) < 1 {
		return fmt.Sprintf("%d heads of keys and values are more than blocks that run at once", p.heads.KV)
	}
	return ""
}

func (p Problem) decodeKernel(a planning.Arch) decodeKernel {
	dim := p.heads.Dim
	if a.CC >= 80 && p.DType.Size() == 2 && (dim == 64 || dim == 128) && p.aligned == 16 && p.capacity <= math.MaxInt32/dim {
		return decodeKernel{name: fmt.Sprintf("tensor_%d", dim), heads: decodeMostHeads, perSM: 2, tensors: true}
	}
	switch {
	case dim <= 64:
		return decodeKernel{name: "64", heads: 8, perSM: 1}
	case dim <= 128:
		return decodeKernel{name: "128", heads: 4, perSM: 1}
	}
	return decodeKernel{name: "256", heads: 2, perSM: 1}
}

// chunks returns how many blocks share the heads of a group.
func (k decodeKernel) chunks(h kernels.Heads) int { return planning.DivideUp(h.Query/h.KV, k.heads) }

type decodeChoice struct {
	decodeKernel
	splits int
}

// mostSplits keeps all blocks resident at once, because they wait for each other.
func (k decodeKernel) mostSplits(a planning.Arch, h kernels.Heads) int {
	return min(decodeSplits, a.SMs*k.perSM/(h.KV*k.chunks(h)))
}

type decodeModel struct {
	// Start is the fixed cost of a launch. Block is the cost of each block on a multiprocessor, mainly
	// because it delays the start of the next launch. Split is the cost per split. Merged, on tensor cores,
	// is the cost per output element that a block merges.
	Start  float64 `constant:"start" unit:"s"`
	Block  float64 `constant:"block" unit:"s"`
	Split  float64 `constant:"split" unit:"s"`
	Merged float64 `constant:"merged" unit:"s"`
	// Latency is the time of a warp's step that only waits for loads.
	Latency float64 `constant:"latency" unit:"s"`
	// Reached is the reachable fraction of memory bandwidth.
	Reached float64 `constant:"reached" unit:"1"`
	// Bulk is the startup time of bulk copies.
	Bulk float64 `constant:"bulk" unit:"s"`
}

var decodeModels = calibration.Of[decodeModel]("attention_decode")

// steps returns how many loads of a tile depend on each other.
func (k decodeKernel) steps() float64 {
	if k.tensors {
		return 1
	}
	return 4
}

// seconds models rounds; in each, every warp loads a tile. A step is bound by load latency, by L2 or by
// memory. With bulk copies, which are issued far ahead, the slowest of the three hides the others; otherwise
// they add up partly. A block with bulk copies gets at most the bandwidth share of one multiprocessor.
func (c decodeChoice) seconds(a planning.Arch, p Problem) float64 {
	m := decodeModels.For(a.CC, a.SMs, a.Bandwidth)
	blocks := p.heads.KV * c.chunks(p.heads) * c.splits
	tiles := float64(planning.DivideUp(p.width(), decodeTile)) / float64(c.splits) // of a block
	perSM := float64(planning.DivideUp(blocks, a.SMs))
	bytes := min(decodeWarps, tiles) * 2 * float64(decodeTile*p.heads.Dim*p.DType.Size()) / c.steps() // bytes of a block's step
	times := []float64{m.Latency, perSM * bytes / (planning.L2PerClock(a) * a.ClockMHz * 1e6)}
	if a.Bandwidth > 0 {
		share := blocks // of the bandwidth
		if c.bulk {
			share = max(blocks, a.SMs)
		}
		times = append(times, float64(share)*bytes/(a.Bandwidth*m.Reached))
	}
	step, begin := 0., 0.
	if c.bulk {
		step, begin = slices.Max(times), m.Bulk
	} else {
		for _, t := range times {
			step += t * t
		}
		step = math.Sqrt(step)
	}
	merged := 0.
	if c.tensors {
		merged = float64(c.headsOf(p.heads)*p.heads.Dim) / float64(c.splits)
	}
	return m.Start + begin + m.Block*perSM + m.Split*float64(c.splits) + m.Merged*merged +
		max(1, tiles/decodeWarps)*c.steps()*step
}

func decodeChoices(a planning.Arch, p Problem) []decodeChoice {
	kernels := []decodeKernel{p.decodeKernel(a)}
	if k := kernels[0]; a.CC == 90 && k.tensors && p.heads.Dim == 128 {
		k.name, k.perSM, k.bulk = "bulk_128", 1, true
		if k.mostSplits(a, p.heads) > 0 {
			kernels = append(kernels, k)
		}
	}
	var all []decodeChoice
	for _, k := range kernels {
		most := k.mostSplits(a, p.heads)
		for _, splits := range []int{1, 2, 4, 8, 16, 32} {
			if splits < most {
				all = append(all, decodeChoice{k, splits})
			}
		}
		all = append(all, decodeChoice{k, most})
	}
	return all
}

// Plan implements [planning.Family].
func (Decode) Plan(a planning.Arch, p Problem) attentionPlan {
	return PlanRotated(a, p, Rotation{})
}

func (Decode) Candidates(a planning.Arch, p Problem) []attentionPlan {
	return RotatedPlans(a, p, Rotation{})
}

// PlanRotated returns the plan with rotation of the inputs in the same launch.
func PlanRotated(a planning.Arch, p Problem, r Rotation) attentionPlan {
	return planning.Fastest(RotatedPlans(a, p, r))
}

// RotatedPlans returns the candidates of [PlanRotated].
func RotatedPlans(a planning.Arch, p Problem, r Rotation) []attentionPlan {
	var plans []attentionPlan
	for _, c := range decodeChoices(a, p) {
		plans = append(plans, c.plan(a, p, r))
	}
	return plans
}

// Rotation has the extra operands of a launch with rotation; its queries are the unrotated row. Table 0 means
// no rotation.
type Rotation struct {
	Table     uint64
	Positions int
}

func (c decodeChoice) plan(a planning.Arch, p Problem, r Rotation) attentionPlan {
	groups := int64(p.heads.KV * c.chunks(p.heads))
	return attentionPlan{
		Label:   fmt.Sprintf("%s %d splits", c.name, c.splits),
		Tiling:  c.tiling(a, p),
		Seconds: c.seconds(a, p),
		Flags:   groups * int64(c.splits*c.splits*c.recordWords(p.heads)) * 4,
		Bind:    func(at Addresses) []planning.Call { return []planning.Call{c.call(a, p, at, r)} },
	}
}

// tiling returns the division of work: a block has some heads' columns of the one row, and every splits-th
// part of the keys.
func (c decodeChoice) tiling(a planning.Arch, p Problem) kernels.Tiling {
	return kernels.Tiling{
		Tile:  [3]int{1, c.headsOf(p.heads) * p.heads.Dim, decodeWarps * decodeTile},
		Waves: planning.Waves(a, p.heads.KV*c.chunks(p.heads)*c.splits, c.perSM), Split: c.splits,
	}
}

// headsOf returns the largest number of heads per block.
func (k decodeKernel) headsOf(h kernels.Heads) int { return min(k.heads, h.Query/h.KV) }

// recordWords is the size of struct Record, which blocks exchange.
func (c decodeChoice) recordWords(h kernels.Heads) int {
	heads := c.headsOf(h)
	return 2*planning.DivideUp(heads, 2)*2 + planning.DivideUp(heads*h.Dim, 4*c.splits)*4
}

// decodeAhead is the number of tiles that each warp prefetches to L2 before its launch begins.
const decodeAhead = 2

// ahead returns decodeAhead if these blocks leave room on the GPU for the next launch's blocks; otherwise
// prefetching costs time. It returns 0 for kernels that load directly to tensor cores: next to memory-bound
// products, prefetching delays them. Bulk copies gain from it there, with rotation, and lose when run alone.
func (c decodeChoice) ahead(a planning.Arch, h kernels.Heads, r Rotation) int {
	switch {
	case c.bulk && r.Table != 0:
		return decodeAhead
	case a.CC < 90 || c.tensors || 2*h.KV*c.chunks(h)*c.splits > a.SMs*c.perSM:
		return 0
	}
	return decodeAhead
}

func (c decodeChoice) call(a planning.Arch, p Problem, at Addresses, r Rotation) planning.Call {
	chunks, heads := c.chunks(p.heads), c.headsOf(p.heads)
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_attention_decode_%s_%s", p.DType, c.name),
		Grid:   planning.Dim3{X: c.splits, Y: p.heads.KV * chunks}, Block: planning.Dim3{X: 32 * decodeWarps},
		// Bulk-copy tiles, the warps' sums, then the other blocks' records.
		Shared:  4*(decodeWarps*heads*p.heads.Dim+c.splits*c.recordWords(p.heads)) + c.copied(p),
		Overlap: a.Overlaps(), Cooperative: c.splits > 1,
	}
	k.Args.Pointer(at.q).Pointer(at.keys).Pointer(at.values).Pointer(at.out).Pointer(at.position).Pointer(r.Table).Pointer(at.Flags)
	k.Args.Int32(p.heads.Query, p.heads.KV, p.heads.Query/p.heads.KV, chunks, p.heads.Dim, p.capacity, p.window, p.length)
	k.Args.Int32(r.Positions, c.ahead(a, p.heads, r),
		planning.OneIf(p.aligned == 16 && p.heads.Dim*p.DType.Size()%16 == 0)).Float32(p.scale * math.Log2E)
	return k
}

// copied returns the bytes of a block's bulk copies in flight: one tile per warp.
func (k decodeKernel) copied(p Problem) int {
	if !k.bulk {
		return 0
	}
	return decodeWarps * 2 * decodeTile * p.heads.Dim * p.DType.Size()
}
