package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Decode is attention_decode.cu: one row of queries, the sequence split among
// blocks that merge in their order.
type Decode struct{}

// What attention_decode.cu fixes.
const (
	decodeWarps     = 8
	decodeTile      = 16 // keys
	decodeSplits    = 64 // at most
	decodeMostHeads = 8  // of a block
	decodeMostDim   = 256
)

// decodeKernel is one of the kernels: which, how many heads of a group its blocks take,
// and how many blocks a multiprocessor runs at a time.
type decodeKernel struct {
	name    string // behind the type
	heads   int
	perSM   int
	tensors bool
	bulk    bool // tiles by bulk copies, with tensors
}

// Name is the name by which the kernel is selected.
func (Decode) Name() string { return "decode" }

// Describe is one line for people.
func (Decode) Describe(planning.Arch) string {
	return "one row against the cache: the heads of a group share a block, the sequence split among blocks"
}

// Supports returns why p can't run on a, empty when it can.
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

// decodeKernel is the kernel for p.
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

// chunks is how many blocks share the heads of a group.
func (k decodeKernel) chunks(h kernels.Heads) int { return planning.DivideUp(h.Query/h.KV, k.heads) }

// decodeChoice is a kernel and how often the sequence is split.
type decodeChoice struct {
	decodeKernel
	splits int
}

// mostSplits is how often the sequence may be split: all blocks must be on the GPU at once,
// since they wait for each other.
func (k decodeKernel) mostSplits(a planning.Arch, h kernels.Heads) int {
	return min(decodeSplits, a.SMs*k.perSM/(h.KV*k.chunks(h)))
}

// decodeModel is the constants of attention_decode.cu's times.
type decodeModel struct {
	// Start is what a launch takes beside its work, Block what each block of a
	// multiprocessor adds, most of it where it leaves the next launch no room to begin,
	// Split what each split does, and Merged, on tensor cores, what each element
	// does of the output that a block merges.
	Start  float64 `constant:"start" unit:"s"`
	Block  float64 `constant:"block" unit:"s"`
	Split  float64 `constant:"split" unit:"s"`
	Merged float64 `constant:"merged" unit:"s"`
	// Latency is how long a step of a warp takes that only waits for its loads.
	Latency float64 `constant:"latency" unit:"s"`
	// Reached is the part of the memory's bandwidth that is reached.
	Reached float64 `constant:"reached" unit:"1"`
	// Bulk is what it takes to begin with bulk copies.
	Bulk float64 `constant:"bulk" unit:"s"`
}

var decodeModels = calibration.Of[decodeModel]("attention_decode")

// steps is how many loads of a tile wait for each other.
func (k decodeKernel) steps() float64 {
	if k.tensors {
		return 1
	}
	return 4
}

// seconds is what the model expects: rounds in which every warp loads a tile, in steps of
// a load's latency, or of what memory or a multiprocessor takes for them. Of bulk copies,
// which are asked for long before they are waited for, the longest of the three hides the
// others; a block with them gets no more of the bandwidth than if all multiprocessors had one.
func (c decodeChoice) seconds(a planning.Arch, p Problem) float64 {
	m := decodeModels.For(a.CC, a.SMs, a.Bandwidth)
	blocks := p.heads.KV * c.chunks(p.heads) * c.splits
	tiles := float64(planning.DivideUp(p.width(), decodeTile)) / float64(c.splits) // of a block
	perSM := float64(planning.DivideUp(blocks, a.SMs))
	bytes := min(decodeWarps, tiles) * 2 * float64(decodeTile*p.heads.Dim*p.DType.Size()) / c.steps() // of a block's step
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

// decodeChoices are the ways to split p.
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

// Plan decides how p, which is supported, runs on a.
func (Decode) Plan(a planning.Arch, p Problem) attentionPlan {
	return PlanRotated(a, p, Rotation{})
}

func (Decode) Candidates(a planning.Arch, p Problem) []attentionPlan {
	return RotatedPlans(a, p, Rotation{})
}

// PlanRotated is the plan with a rotation on the way in.
func PlanRotated(a planning.Arch, p Problem, r Rotation) attentionPlan {
	return planning.Fastest(RotatedPlans(a, p, r))
}

// RotatedPlans are those among which [PlanRotated] chooses.
func RotatedPlans(a planning.Arch, p Problem, r Rotation) []attentionPlan {
	var plans []attentionPlan
	for _, c := range decodeChoices(a, p) {
		plans = append(plans, c.plan(a, p, r))
	}
	return plans
}

// Rotation is what a launch that rotates needs beside attention's operands; its
// queries are the raw row. A table at 0 stands for none.
type Rotation struct {
	Table     uint64
	Positions int
}

// plan is the choice's, r that of the rotation on the way in.
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

// tiling is how the launch divides its work: a block has the columns of some heads of the
// one row, and every splits-th part of the keys.
func (c decodeChoice) tiling(a planning.Arch, p Problem) kernels.Tiling {
	return kernels.Tiling{
		Tile:  [3]int{1, c.headsOf(p.heads) * p.heads.Dim, decodeWarps * decodeTile},
		Waves: planning.Waves(a, p.heads.KV*c.chunks(p.heads)*c.splits, c.perSM), Split: c.splits,
	}
}

// headsOf is how many heads the blocks have that have the most.
func (k decodeKernel) headsOf(h kernels.Heads) int { return min(k.heads, h.Query/h.KV) }

// recordWords is the size of what one block tells another: struct Record.
func (c decodeChoice) recordWords(h kernels.Heads) int {
	heads := c.headsOf(h)
	return 2*planning.DivideUp(heads, 2)*2 + planning.DivideUp(heads*h.Dim, 4*c.splits)*4
}

// decodeAhead is how many tiles each warp has L2 fetch before its launch begins.
const decodeAhead = 2

// ahead is decodeAhead where these blocks leave room on the GPU for those of the next launch;
// else that begins when these have ended, and to find out what to fetch only costs time. The
// kernels that load to tensor cores do without: between products, which leave memory no time
// to spare, it delays them. Bulk copies gain by it there, which is where a rotation is on the
// way in, and lose by themselves.
func (c decodeChoice) ahead(a planning.Arch, h kernels.Heads, r Rotation) int {
	switch {
	case c.bulk && r.Table != 0:
		return decodeAhead
	case a.CC < 90 || c.tensors || 2*h.KV*c.chunks(h)*c.splits > a.SMs*c.perSM:
		return 0
	}
	return decodeAhead
}

// call launches attention_decode.cu: struct Params there.
func (c decodeChoice) call(a planning.Arch, p Problem, at Addresses, r Rotation) planning.Call {
	chunks, heads := c.chunks(p.heads), c.headsOf(p.heads)
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_attention_decode_%s_%s", p.DType, c.name),
		Grid:   planning.Dim3{X: c.splits, Y: p.heads.KV * chunks}, Block: planning.Dim3{X: 32 * decodeWarps},
		// What is copied, the warps' sums, then what comes of the other blocks.
		Shared:  4*(decodeWarps*heads*p.heads.Dim+c.splits*c.recordWords(p.heads)) + c.copied(p),
		Overlap: a.CC >= 90, Cooperative: c.splits > 1,
	}
	k.Args.Pointer(at.q).Pointer(at.keys).Pointer(at.values).Pointer(at.out).Pointer(at.position).Pointer(r.Table).Pointer(at.Flags)
	k.Args.Int32(p.heads.Query, p.heads.KV, p.heads.Query/p.heads.KV, chunks, p.heads.Dim, p.capacity, p.window, p.length)
	k.Args.Int32(r.Positions, c.ahead(a, p.heads, r), planning.OneIf(p.aligned == 16 && p.heads.Dim*p.DType.Size()%16 == 0)).Float32(p.scale * math.Log2E)
	return k
}

// copied is how many bytes a block's bulk copies bring at a time: a tile of each warp.
func (k decodeKernel) copied(p Problem) int {
	if !k.bulk {
		return 0
	}
	return decodeWarps * 2 * decodeTile * p.heads.Dim * p.DType.Size()
}
