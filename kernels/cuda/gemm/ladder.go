//go:build cuda

package gemm

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Kernel is one family on a device, or auto, which picks among all families.
type Kernel struct {
	dev      *driver.Device
	name     string
	describe string
	among    Families
	serial   bool // launches wait for the end of the previous one
	picked   planning.Kept[Problem, picked]
}

type picked struct {
	planning.Choice[Problem, Addresses]
	refusal string // empty if there is a choice
}

// pick plans a product once for all copies of its weights. Planning takes up to a millisecond, the rest of
// binding a few microseconds.
func (r *Kernel) pick(p Problem) picked {
	return r.picked.Choice(p, func() (c picked) {
		c.Choice, c.refusal = planning.Choose(r.among.of(p.Task), r.dev.Arch(), p)
		return c
	})
}

// NewKernel makes a kernel of families on a device; describe is its one-line description.
func NewKernel(d *driver.Device, name, describe string, among Families) *Kernel {
	return &Kernel{dev: d, name: name, describe: describe, among: among}
}

// Ladder lists our kernels on a device, auto first, and those that don't run there. auto-serial is among them
// if launches overlap on the GPU.
func Ladder(d *driver.Device, families Families) ([]kernels.Kernel, []kernels.Missing) {
	there, missing := families.Present(d.Arch())
	if len(there.Plain) == 0 {
		return nil, missing
	}
	gemms := []kernels.Kernel{NewKernel(d, "auto", DescribeAuto(d.Arch(), there.Plain), there)}
	if d.Arch().Overlaps() {
		serial := NewKernel(d, "auto-serial", "auto without launch overlap: each launch waits for the end of the previous one", there)
		serial.serial = true
		gemms = append(gemms, serial)
	}
	for _, f := range there.Plain {
		gemms = append(gemms, newFamilyKernel(d, f, func(f Family) Families { return Families{Plain: []Family{f}} }))
	}
	for _, f := range there.Quantized {
		gemms = append(gemms, newFamilyKernel(d, f, func(f Family) Families { return Families{Quantized: []Family{f}} }))
	}
	for _, f := range there.Scaled {
		gemms = append(gemms, newFamilyKernel(d, f, func(f Family) Families { return Families{Scaled: []Family{f}} }))
	}
	return gemms, missing
}

// Name returns the kernel's name for selection.
func (r *Kernel) Name() string { return r.name }

// Describe returns a one-line description.
func (r *Kernel) Describe() string { return r.describe }

// task returns the normalized t, or why the kernel has no family for its weights.
func (r *Kernel) task(t kernels.Task) (kernels.Task, error) {
	var extras kernels.Extras
	if len(r.among.Quantized) > 0 {
		extras |= kernels.QuantizedWeights
	}
	if len(r.among.Scaled) > 0 {
		extras |= kernels.ScaledWeights
	}
	q, err := t.Product(r.name, extras)
	if err == nil && len(r.among.of(q)) == 0 {
		err = t.Unsupported(r.name, r.among.weights())
	}
	return q, err
}

// Supports implements [kernels.Kernel]: it asks the families.
func (r *Kernel) Supports(t kernels.Task) error {
	q, err := r.task(t)
	if err != nil {
		return err
	}
	among := r.among.of(q)
	for _, f := range among {
		if f.Supports(r.dev.Arch(), Problem{Task: q}) == "" {
			return nil
		}
	}
	return t.Unsupported(r.name, planning.Refusals(among, r.dev.Arch(), Problem{Task: q}))
}

// Packs implements [kernels.Packer].
func (r *Kernel) Packs(p kernels.Task) bool { return driver.Packs(p) }

// Prepare packs B, or integers into records. All our kernels share one matrix's packed weights.
func (r *Kernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := r.task(t)
	if err != nil {
		return nil, err
	}
	if p.Scaled() {
		w, err := r.dev.KeepScaled(p, raw)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	if p.Quantized() {
		if err := r.Supports(p); err != nil {
			return nil, err
		}
		w, err := r.dev.PackRecords(p, raw)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	w, err := r.dev.Pack(p, raw)
	if err != nil {
		return nil, err // a nil *PackedWeights in the interface would not be nil
	}
	return w, nil
}

// Bind plans the product for its operands' addresses and alignment.
func (r *Kernel) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	p, err := r.task(t)
	if err != nil {
		return nil, err
	}
	l, err := r.bind(p, a, w, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	if r.serial {
		l.Serialize()
	}
	return l, nil
}

func (r *Kernel) bind(p kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
	at, first, err := r.weights(p, w)
	if err != nil {
		return nil, err
	}
	if at.A, err = r.dev.Matrix("A", a, p.M, p.K, p.LDA, p.DType); err != nil {
		return nil, err
	}
	if at.ScalesA, err = r.dev.ActivationScales(p, a); err != nil {
		return nil, err
	}
	if at.C, err = r.dev.Matrix("C", c, p.M, p.N, p.LDC, p.DType.Output()); err != nil {
		return nil, err
	}
	if of, ok := p.ActivationScales(); ok && of.Groups > 1 && at.ScalesA%16 != 0 {
		return nil, p.Unsupported(r.name, "scales of activations are not at a multiple of 16 bytes: TMA reads them")
	}
	q := At(p, at.A, at.C)
	choice := r.pick(q)
	if choice.refusal != "" {
		return nil, p.Unsupported(r.name, choice.refusal)
	}
	problem := fmt.Sprintf("%s %v lda %d ldc %d, aligned to %d and %d, %d calls first", p.DType, p, p.LDA, p.LDC, q.Aligned.A, q.Aligned.C,
		len(first))
	return driver.Planned(r.dev, choice.Choice, problem, first, func(scratch, flags uint64) Addresses {
		at.Scratch, at.Flags = scratch, flags
		return at
	}, a.Buffer, w, c.Buffer)
}

// weights returns the addresses of B, and the calls that precede each launch.
func (r *Kernel) weights(p kernels.Task, w kernels.Weights) (at Addresses, first []planning.Call, err error) {
	if p.Scaled() {
		at.B, at.ScalesB, err = r.dev.BindScaled(r.name, p, w)
		return at, nil, err
	}
	if p.Quantized() {
		records, err := r.dev.BindRecords(r.name, p, w)
		if err != nil {
			return at, nil, err
		}
		return Addresses{B: records.Address}, nil, nil
	}
	packed, first, err := r.dev.BindPacked(r.name, p, w)
	if err != nil {
		return at, nil, err
	}
	return Addresses{B: packed.Address, LDB: packed.LDB}, first, nil
}

// Expected returns the time that planning expects of a product with operands at the beginning of buffers; ok is false if no
// family computes it.
func (r *Kernel) Expected(p kernels.Task) (seconds float64, ok bool) {
	choice := r.pick(InBuffers(p))
	return choice.Plan.Seconds, choice.refusal == ""
}

var _ kernels.ManyTellers = (*Kernel)(nil)

// Tellers implements [kernels.ManyTellers]: planning has no state.
func (r *Kernel) Tellers(n int) ([]kernels.Kernel, error) {
	return slices.Repeat([]kernels.Kernel{r}, n), nil
}

// Choice implements [kernels.Kernel]: a plan depends only on the GPU and the problem.
func (r *Kernel) Choice(p kernels.Task) (kernels.Choice, error) {
	q, err := r.task(p)
	if err != nil {
		return kernels.Choice{}, err
	}
	c, ok := ChoiceOf(r.among.of(q), r.dev.Arch(), q)
	if !ok {
		return kernels.Choice{}, r.Supports(p)
	}
	return c, nil
}

// chooser is the kernel of a family that chooses among plans; each of them is a kernel, too.
type chooser struct {
	*Kernel
	family planning.Chooser[Problem, Addresses]
	alone  func(Family) Families
}

var _ kernels.Planned = chooser{}

// newFamilyKernel makes the kernel of a family; alone lists it by the weights that it takes.
func newFamilyKernel(d *driver.Device, f Family, alone func(Family) Families) kernels.Kernel {
	k := NewKernel(d, f.Name(), f.Describe(d.Arch()), alone(f))
	if choosing, ok := f.(planning.Chooser[Problem, Addresses]); ok {
		return chooser{k, choosing, alone}
	}
	return k
}

// Plan implements [kernels.Planned].
func (c chooser) Plan(n int) kernels.Kernel {
	f := nth{planning.Nth[Problem, Addresses]{Chooser: c.family, N: n}}
	return NewKernel(c.dev, kernels.CandidateName(c.name, n), f.Describe(c.dev.Arch()), c.alone(f))
}

type nth struct {
	planning.Nth[Problem, Addresses]
}

// Supports counts the plans for operands at the beginning of buffers.
func (f nth) Supports(a planning.Arch, p Problem) string {
	if why := f.Chooser.Supports(a, p); why != "" {
		return why
	}
	return f.Nth.Supports(a, InBuffers(p.Task))
}
