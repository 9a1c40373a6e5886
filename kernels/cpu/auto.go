package cpu

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotAuto] = newAuto }

// auto picks among our kernels by an estimate of what each would take, and keeps
// the weights once, in the form that all of them read.
type auto struct{ dev *Device }

func newAuto(d *Device) (kernels.Gemm, *kernels.Missing) { return &auto{d}, nil }

func (*auto) Name() string { return "auto" }

// Describe says among what auto picks.
func (k *auto) Describe() string {
	s := "picks the least estimated time among gemv, "
	if k.dev.gemm("amx") != nil {
		s += "amx, "
	}
	return s + "tiled: the larger of reading the weights and multiplying padded tiles"
}

func (k *auto) Supports(p kernels.Problem) error { return k.dev.supports(k.Name(), p) }

func (k *auto) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.pack(p, raw)
}

// Packs implements [kernels.Packer].
func (k *auto) Packs(kernels.Problem) bool { return true }

func (k *auto) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	best := k.pick(p)
	bound, err := k.dev.gemm(best.kernel).Bind(p, a, w, c)
	if err != nil {
		return nil, err
	}
	l, ok := bound.(*launch)
	if !ok {
		return nil, fmt.Errorf("%v: kernel %s bound a %T", p.Shape, best.kernel, bound)
	}
	labelled := *l
	labelled.label = best.label()
	return &labelled, nil
}

// tiling is that of the kernel that is picked.
func (k *auto) tiling(p kernels.Problem) kernels.Tiling {
	if own, ok := k.dev.gemm(k.pick(p).kernel).(planner); ok {
		return own.tiling(p)
	}
	return kernels.Tiling{}
}

// Choice implements [kernels.ChoiceTeller].
func (k *auto) Choice(p kernels.Problem) (kernels.Choice, error) {
	c, err := plannedChoice(k, p)
	if err == nil {
		p, err = p.Normalized()
		c.Label = k.pick(p).label()
	}
	return c, err
}

// estimate is what the model says of one kernel, in cycles of the busiest thread.
type estimate struct {
	kernel          string
	rows, columns   int // of the register tile
	memory, compute float64
	// exposed is the part of the weights' stream that multiplication doesn't hide.
	exposed float64
}

func (e estimate) cycles() float64 { return math.Max(e.memory, e.compute) + e.exposed }

// label is "gemv 1x32 memory": what was picked, its tile, and what bounds it.
func (e estimate) label() string {
	bound := "compute"
	if e.memory > e.compute {
		bound = "memory"
	}
	return fmt.Sprintf("%s %dx%d %s", e.kernel, e.rows, e.columns, bound)
}

// The constants of the model. Only their proportions matter, and those are much
// alike from one server core to the next; none belongs to a shape.
const (
	// bytesPerCycle is what one core draws from memory: 32 GB/s at 4 GHz.
	bytesPerCycle = 8
	// latencyCycles is the least time of one step of a tile, however few its rows:
	// the sums of the next step wait for those of the last.
	latencyCycles = 4
	// exposedShare is the part of the stream that tiled shows beside its
	// multiplication: it begins anew with every slice of every panel.
	exposedShare = 0.25
	// amxShare is the part of the tile unit's rate that amx sustains while it loads
	// and stores tiles.
	amxShare = 0.6
	// preference is how much better a kernel must be than one before it in the
	// list, which is simpler: less is within the error of the model.
	preference = 0.95
)

// pick returns the estimate of the kernel of least estimated time.
func (k *auto) pick(p kernels.Problem) estimate {
	var best estimate
	for _, e := range k.estimates(p) {
		if best.kernel == "" || e.cycles() < preference*best.cycles() {
			best = e
		}
	}
	return best
}

// estimates lists what can run p. The unit of work is one word (32 bits: one fp32,
// two bf16, four int8) of each of the 32 columns of a panel.
func (k *auto) estimates(p kernels.Problem) []estimate {
	path := k.dev.path(p.DType)
	threads := k.dev.threadsOf(p)
	panels := divideUp(p.N, panelColumns)
	words := math.Ceil(float64(p.K) / float64(path.group))
	tiles, rows := divideUp(p.M, int(path.rows)), k.dev.tileRows(p)
	step := math.Max(latencyCycles, float64(rows)*k.cyclesPerRow(p.DType))

	panelBytes := float64(p.K) * 32 * float64(p.DType.Size())
	whole := float64(divideUp(panels, threads)) // panels of the busiest thread
	var out []estimate
	if k.can("gemv", p) {
		out = append(out, estimate{kernel: "gemv", rows: rows, columns: panelColumns,
			memory: whole * panelBytes / bytesPerCycle, compute: whole * float64(tiles) * words * step})
	}
	if k.can("tiled", p) {
		// Threads divide panels or rows, whichever is more even.
		work := math.Min(whole*float64(tiles), float64(panels*divideUp(tiles, threads)))
		memory := float64(panels) / float64(threads) * panelBytes / bytesPerCycle
		out = append(out, estimate{kernel: "tiled", rows: rows, columns: panelColumns,
			memory: memory, compute: work * words * step, exposed: exposedShare * memory})
	}
	if k.can("amx", p) {
		// A multiplication of tiles takes 16 cycles for 16 rows × 16 columns × 16
		// words: two cycles a word of a panel, for up to 16 rows.
		group := 4 / p.DType.Size()
		strips := divideUp(p.M, 16)
		work := math.Min(whole*float64(strips), float64(panels*divideUp(strips, threads)))
		out = append(out, estimate{kernel: "amx", rows: amxRows(p.M), columns: panelColumns,
			memory:  whole * panelBytes / bytesPerCycle,
			compute: work * float64(divideUp(p.K, group)) * 2 / amxShare})
	}
	return out
}

// cyclesPerRow is the time of one word of a panel and one row: the vectors of 32
// columns, two multiply-adds a cycle. CPUs with AMX do one dot product of bf16 a cycle.
func (k *auto) cyclesPerRow(t kernels.DType) float64 {
	f, vectors := k.dev.features, 8.0
	switch {
	case f.AVX512:
		vectors = 2
	case f.AVX2:
		vectors = 4
	}
	if t == kernels.BF16 && f.AVX512BF16 && f.AMX {
		return vectors
	}
	return vectors / 2
}

// can says whether the kernel of that name is here and takes p.
func (k *auto) can(name string, p kernels.Problem) bool {
	g := k.dev.gemm(name)
	return g != nil && g.Supports(p) == nil
}

func divideUp(a, b int) int { return (a + b - 1) / b }

// SupportsBatch implements [kernels.Batcher].
func (k *auto) SupportsBatch(batch kernels.Batch) error { return batchSupports(k, batch) }

// PrepareBatch implements [kernels.Batcher].
func (k *auto) PrepareBatch(batch kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.batchPrepare(k, batch, raw)
}

// BindBatch implements [kernels.Batcher]: the products run one after the other.
func (k *auto) BindBatch(batch kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return k.dev.batchBind(k, batch, a, w, c)
}
