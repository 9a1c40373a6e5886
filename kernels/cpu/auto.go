package cpu

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotAuto] = newAuto }

// auto picks the kernel with the lowest estimated time. It packs weights once, in the format that all
// candidates read.
type auto struct{ dev *Device }

func newAuto(d *Device) (kernels.Kernel, *kernels.Missing) { return &auto{d}, nil }

func (*auto) Name() string { return "auto" }

func (k *auto) Describe() string {
	s := "picks the least estimated time among gemv, "
	if k.dev.gemm("amx") != nil {
		s += "amx, "
	}
	return s + "tiled: the larger of reading the weights and multiplying padded tiles"
}

func (k *auto) Supports(t kernels.Task) error {
	if t.Scaled() {
		return t.UnsupportedAs(k.Name(), k.dev.gemm("scaled").Supports(t))
	}
	_, err := k.dev.supports(k.Name(), t, kernels.Batches|kernels.QuantizedWeights)
	return err
}

func (k *auto) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if t.Scaled() {
		return k.dev.gemm("scaled").Prepare(t, raw)
	}
	return k.dev.prepare(k, kernels.Batches|kernels.QuantizedWeights, t, raw, k.dev.pack)
}

// Packs implements [kernels.Packer].
func (k *auto) Packs(kernels.Task) bool { return true }

// Bind implements [kernels.Kernel]; the products of a batch run in sequence.
func (k *auto) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand, _ ...kernels.Operand) (kernels.Launch, error) {
	if t.Scaled() {
		return k.labelled(k.dev.gemm("scaled"), "scaled", t, a, w, c)
	}
	p, err := k.dev.supports(k.Name(), t, kernels.Batches|kernels.QuantizedWeights)
	switch {
	case err != nil:
		return nil, err
	case p.Products > 0:
		return k.dev.batchBind(k, p, a, w, c)
	}
	var name, label string
	if p.Quantized() {
		name = k.pickQuantized(p)
		label = name
	} else {
		best := k.pick(p)
		name, label = best.kernel, best.label()
	}
	return k.labelled(k.dev.gemm(name), label, p, a, w, c)
}

// labelled binds a launch of another kernel with auto's label.
func (k *auto) labelled(of kernels.Kernel, label string, p kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (kernels.Launch, error) {
	bound, err := of.Bind(p, a, w, c)
	if err != nil {
		return nil, err
	}
	l, ok := bound.(*launch)
	if !ok {
		return nil, fmt.Errorf("%v: kernel %s bound a %T", p, of.Name(), bound)
	}
	labelled := *l
	labelled.label = label
	return &labelled, nil
}

func (k *auto) tiling(p kernels.Task) kernels.Tiling {
	if own, ok := k.dev.gemm(k.pick(p).kernel).(planner); ok {
		return own.tiling(p)
	}
	return kernels.Tiling{}
}

// Choice implements [kernels.Kernel].
func (k *auto) Choice(p kernels.Task) (kernels.Choice, error) {
	c, err := plannedChoice(k, p)
	if err == nil {
		p, err = p.Normalized()
		c.Label = k.pick(p).label()
	}
	return c, err
}

// estimate is the model's prediction for one kernel, in cycles of the busiest thread.
type estimate struct {
	kernel          string
	rows, columns   int // of the register tile
	memory, compute float64
	// exposed is the time for loading weights that computation doesn't hide.
	exposed float64
}

func (e estimate) cycles() float64 { return math.Max(e.memory, e.compute) + e.exposed }

func (e estimate) label() string {
	bound := "compute"
	if e.memory > e.compute {
		bound = "memory"
	}
	return fmt.Sprintf("%s %dx%d %s", e.kernel, e.rows, e.columns, bound)
}

// Constants of the model. Only their ratios matter, and those are similar on all server cores; they do not
// depend on the shape.
const (
	// bytesPerCycle is one core's memory bandwidth: 32 GB/s at 4 GHz.
	bytesPerCycle = 8
	// latencyCycles is the minimum time of one step of a tile: its sums depend on the previous step's.
	latencyCycles = 4
	// exposedShare is the share of loading that tiled can't overlap, because loading restarts with each slice
	// of a panel.
	exposedShare = 0.25
	// amxShare is the fraction of the tile unit's rate that amx sustains, including loads and stores of
	// tiles.
	amxShare = 0.6
	// preference is the required advantage over a simpler kernel, which comes earlier in the list. Smaller
	// differences are within the model's error.
	preference = 0.95
)

func (k *auto) pick(p kernels.Task) estimate {
	var best estimate
	for _, e := range k.estimates(p) {
		if best.kernel == "" || e.cycles() < preference*best.cycles() {
			best = e
		}
	}
	return best
}

// estimates lists the kernels that support p. The unit of work is one 32-bit word (one fp32, two bf16, four
// int8) of each of a panel's 32 columns.
func (k *auto) estimates(p kernels.Task) []estimate {
	path := k.dev.path(p.DType)
	threads := k.dev.threadsOf(p)
	panels := divideUp(p.N, panelColumns)
	words := math.Ceil(float64(p.K) / float64(path.group))
	tiles, rows := divideUp(p.M, int(path.rows)), k.dev.tileRows(p)
	step := math.Max(latencyCycles, float64(rows)*k.cyclesPerRow(p.DType))

	panelBytes := float64(p.K) * 32 * float64(p.DType.Size())
	whole := float64(divideUp(panels, threads))
	var out []estimate
	if k.can("gemv", p) {
		out = append(out, estimate{kernel: "gemv", rows: rows, columns: panelColumns,
			memory: whole * panelBytes / bytesPerCycle, compute: whole * float64(tiles) * words * step})
	}
	if k.can("tiled", p) {
		// Threads split panels or rows, depending on the balance.
		work := math.Min(whole*float64(tiles), float64(panels*divideUp(tiles, threads)))
		memory := float64(panels) / float64(threads) * panelBytes / bytesPerCycle
		out = append(out, estimate{kernel: "tiled", rows: rows, columns: panelColumns,
			memory: memory, compute: work * words * step, exposed: exposedShare * memory})
	}
	if k.can("amx", p) {
		// A tile multiplication takes 16 cycles for 16 rows × 16 columns × 16 words: two cycles per word of a
		// panel, for up to 16 rows.
		group := 4 / p.DType.Size()
		strips := divideUp(p.M, 16)
		work := math.Min(whole*float64(strips), float64(panels*divideUp(strips, threads)))
		out = append(out, estimate{kernel: "amx", rows: amxRows(p.M), columns: panelColumns,
			memory:  whole * panelBytes / bytesPerCycle,
			compute: work * float64(divideUp(p.K, group)) * 2 / amxShare})
	}
	return out
}

// cyclesPerRow is the time for one word of a panel and one row: the vectors of 32 columns at two
// multiply-adds per cycle. CPUs with AMX do one bf16 dot product per cycle.
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

func (k *auto) can(name string, p kernels.Task) bool {
	g := k.dev.gemm(name)
	return g != nil && g.Supports(p) == nil
}

func divideUp(a, b int) int { return (a + b - 1) / b }
