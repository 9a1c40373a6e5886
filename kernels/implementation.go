package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Task is one execution of a subject.
type Task struct {
	Subject
	M int
	// Threads and PackInside are those of [Problem].
	Threads    int
	PackInside bool
}

// Implementation is one way to compute an operation on one device: a kernel of ours or a
// library. It holds no state of a task and is used by one goroutine at a time, like the
// device that it belongs to.
type Implementation interface {
	// Name is the name by which it is selected and stored: "tiled", "flash".
	Name() string
	// Describe is one line for people.
	Describe() string
	// Supports returns nil, or an [*Unsupported] with the reason.
	Supports(t Task) error
	// PrepareWeights brings the operand that stays in memory into the form that is read,
	// ahead of timing. raw holds [Stored] bytes of it and must outlive the result, unless
	// that is [Detached].
	PrepareWeights(t Task, raw Buffer) (Weights, error)
	// Bind joins a task with its operands: in holds [Subject.InputElements], out
	// receives [Subject.OutputElements].
	Bind(t Task, in Operand, w Weights, out Operand) (Launch, error)
}

// AttentionKernel is one way in which a device computes attention.
type AttentionKernel interface {
	// Name is the name by which the kernel is selected and stored: "flash".
	Name() string
	// Describe is one line for people.
	Describe() string
	// Supports looks at sizes and types, not at operands. It returns nil, or an
	// [*Unsupported] with the reason.
	Supports(a Attention) error
	// Attend binds an attention. The error names the operand or the size that is wrong.
	Attend(a Attention) (Launch, error)
}

// Implementations lists what computes an operation on d, our kernels first.
func Implementations(d Device, o Operation) []Implementation {
	var out []Implementation
	switch o {
	case GEMM:
		for _, g := range d.Gemms() {
			out = append(out, product{g})
		}
	case AttentionPrefill, AttentionDecode:
		for _, k := range AttentionKernels(d) {
			out = append(out, attention{k, d})
		}
	case Softmax, LogSoftmax:
		for _, k := range SoftmaxKernels(d) {
			out = append(out, softmax{k, d})
		}
	}
	return out
}

// AttentionKernels lists the ways in which d computes attention, none where it does not tell.
func AttentionKernels(d Device) []AttentionKernel {
	if l, ok := d.(AttentionLister); ok {
		return l.AttentionKernels()
	}
	return nil
}

// FindImplementation returns what computes an operation on d under a name, which may be
// one of the [Candidates] of another. The error lists the names there are, or gives the
// reason when the kernel is known but missing.
func FindImplementation(d Device, o Operation, name string) (Implementation, error) {
	if o == GEMM {
		g, err := FindGemm(d, name)
		if err != nil {
			return nil, err
		}
		return product{g}, nil
	}
	all := Implementations(d, o)
	if i := slices.IndexFunc(all, func(k Implementation) bool { return k.Name() == name }); i >= 0 {
		return all[i], nil
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no kernel for %v", d.Spec().ID, o)
	}
	have := make([]string, len(all))
	for i, k := range all {
		have[i] = k.Name()
	}
	return nil, fmt.Errorf("unknown kernel %q for %v on %s: expected one of %s", name, o, d.Spec().ID, strings.Join(have, ", "))
}

// CandidateOf returns the nth choice after an implementation's first, n ≥ 1; nil when it
// does not choose. See [Candidates].
func CandidateOf(i Implementation, n int) Implementation {
	if p, ok := i.(product); ok {
		if c, ok := p.Gemm.(Candidates); ok {
			return product{c.Candidate(n)}
		}
	}
	return nil
}

// Packs says that an implementation brings the weights of tasks like t into a form of its own
// before they run. See [Packer]. Kernels of quantised weights do.
func Packs(i Implementation, t Task) bool {
	if p, ok := i.(product); ok {
		if t.Weights != (WeightFormat{}) {
			return p.Supports(t) == nil
		}
		if g, ok := p.Gemm.(Packer); ok {
			return g.Packs(t.problem())
		}
	}
	return false
}

// Extent is the M that the operand which stays in memory serves, those below it
// included: it is the same for M that share one. It is 0 where the operand does not depend
// on M, and else a power of two.
func (s Subject) Extent(m int) int {
	if s.Operation.HasWeights() || !s.Operation.Stores() {
		return 0
	}
	return powerOfTwo(m)
}

func powerOfTwo(least int) int {
	c := CacheGranule
	for c < least {
		c *= 2
	}
	return c
}

// Stored is the size in bytes of that operand, as it is given to
// [Implementation.PrepareWeights]: weights, or a cache with room for the keys and values
// that are read at M = [Subject.Extent]; 0 where the operation has no such operand.
func (s Subject) Stored(m int) int64 {
	if s.Operation.HasWeights() || !s.Operation.Stores() {
		if s.Weights != (WeightFormat{}) && s.Weights.checkIntegers(s.K) == nil {
			return s.Weights.rawWeights(s.N, s.K).Bytes
		}
		return int64(s.StoredBytes(m))
	}
	return int64(s.cacheBits(float64(s.capacity(m))) / 8)
}

// capacity is how many tokens the cache has room for that serves M = m.
func (s Subject) capacity(m int) int {
	if s.Operation == AttentionDecode {
		return powerOfTwo(int(s.context(float64(s.Extent(m)))))
	}
	return s.Extent(m) // of a prompt no token has left the cache yet
}

// quantisation is how the weights of a product are quantised, in the words in which it is asked for
// where there are any; empty for plain ones.
func (t Task) quantisation() string {
	q, ok := QuantisationOf(t.Weights, t.K)
	switch {
	case t.Weights == (WeightFormat{}):
		return ""
	case ok:
		return q.String()
	}
	return t.Weights.String()
}

// product is a matrix product's kernel.
type product struct{ Gemm }

func (t Task) problem() Problem {
	return Problem{
		Shape: Shape{M: t.M, N: t.N, K: t.K}, DType: t.DType, BLayout: t.Layout,
		Threads: t.Threads, PackInside: t.PackInside,
	}
}

// batch is the products of a task that computes several, one right behind the other.
func (t Task) batch() Batch { return Batch{Problem: t.problem(), Products: t.Products} }

// Supports refuses what neither a product of two plain matrices is nor a batch of them.
func (p product) Supports(t Task) error {
	no := func(reason string) error {
		return &Unsupported{Kernel: p.Name(), DType: t.DType, Weights: t.quantisation(), Reason: reason}
	}
	batcher, batches := p.Gemm.(Batcher)
	quantised, quantises := p.Gemm.(QuantisedGemm)
	switch {
	case t.Products > 0 && !batches:
		return no("it computes one product a launch")
	case t.Weights != (WeightFormat{}) && (!quantises || t.Products > 0):
		return no("it takes plain weights")
	case t.Output != "" || t.Accumulator != "":
		return no("its output and accumulator follow from the data type")
	case t.Weights != (WeightFormat{}):
		err := quantised.SupportsQuantised(t.quantised())
		var refused *Unsupported
		if errors.As(err, &refused) {
			return no(refused.Reason)
		}
		return err
	case t.Products > 0:
		return batcher.SupportsBatch(t.batch())
	}
	return p.Gemm.Supports(t.problem())
}

func (p product) PrepareWeights(t Task, raw Buffer) (Weights, error) {
	if b, ok := p.Gemm.(Batcher); ok && t.Products > 0 {
		return b.PrepareBatch(t.batch(), raw)
	}
	if err := p.Supports(t); err != nil {
		return nil, err
	}
	if g, ok := p.Gemm.(QuantisedGemm); ok && t.Weights != (WeightFormat{}) {
		return g.PrepareQuantised(t.quantised(), raw)
	}
	return p.Gemm.PrepareWeights(t.problem(), raw)
}

func (p product) Bind(t Task, in Operand, w Weights, out Operand) (Launch, error) {
	if b, ok := p.Gemm.(Batcher); ok && t.Products > 0 {
		return b.BindBatch(t.batch(), in, w, out)
	}
	if g, ok := p.Gemm.(QuantisedGemm); ok && t.Weights != (WeightFormat{}) {
		return g.BindQuantised(t.quantised(), in, w, out)
	}
	return p.Gemm.Bind(t.problem(), in, w, out)
}
