package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel computes an operation on one device: our kernel or a library's. It holds no task state and may be
// used by one goroutine at a time, like its device.
type Kernel interface {
	// Name selects the kernel and is stored in runs: "tiled", "flash".
	Name() string
	// Describe returns one line for people: instruction set, tile sizes, version.
	Describe() string
	// Supports returns nil, or an [*Unsupported] with the reason.
	Supports(t Task) error
	// Prepare converts the stored operand to the kernel's format before timing: packed, uploaded, or
	// unchanged. raw holds its [Subject.Stored] bytes, or B as the task describes it, and must outlive the
	// weights unless they are [Detached]. The format does not depend on M, but for [Subject.Extent].
	Prepare(t Task, raw Buffer) (Weights, error)
	// Bind joins a task with its operands: in holds [Subject.InputElements], or A; out receives
	// [Subject.OutputElements], or C. Offsets are in elements, so parts of a split can write into one output.
	// further are operands of operations with more than one in and one out, such as routing and scales, in the
	// order of the operation's documentation.
	Bind(t Task, in Operand, w Weights, out Operand, further ...Operand) (Launch, error)
	// Choice returns what a launch of t would run with operands aligned by the device. It runs nothing and
	// allocates no operands. The error is an [*Unsupported] for an unsupported t, [ErrUntold] if the kernel
	// can't report its choice (see [TellsNothing]), or says why the choice is unknown.
	Choice(t Task) (Choice, error)
}

// Find returns the kernel of an operation on d by name, which may be one of another's [Candidates] or algorithms
// ([AlgorithmTaker]). The error lists the names, or is an [*UnavailableError] for a known but missing kernel.
func Find(d Device, o Operation, name string) (Kernel, error) {
	base, n := SplitCandidate(name)
	library, algorithm, exact := SplitAlgorithm(name)
	if exact {
		base = library
	}
	all := d.Kernels(o)
	have := make([]string, len(all))
	for i, k := range all {
		if k.Name() == name {
			return k, nil
		}
		have[i] = k.Name()
	}
	at := slices.Index(have, base)
	switch {
	case at >= 0 && n > 0:
		if c := CandidateOf(all[at], n); c != nil {
			return c, nil
		}
		return nil, fmt.Errorf("unknown kernel %q on %s: %s does not choose among algorithms", name, d.Spec().ID, base)
	case at >= 0 && exact:
		if t, ok := all[at].(AlgorithmTaker); ok {
			return t.WithAlgorithm(algorithm), nil
		}
		return nil, fmt.Errorf("unknown kernel %q on %s: %s takes no algorithm by its attributes", name, d.Spec().ID, base)
	case len(all) == 0 && !o.IsDefault():
		return nil, fmt.Errorf("%s has no kernel for %v", d.Spec().ID, o)
	}
	for _, m := range d.Missing() {
		// Libraries compute grouped and fused products too, in several ways.
		if o.HasWeights() && (m.Name == name || m.Name == base || o != GEMM && m.Name == PackageOf(base)) {
			return nil, &UnavailableError{Kernel: name, Device: d.Spec().ID, Reason: m.Reason}
		}
	}
	of := ""
	if !o.IsDefault() {
		of = fmt.Sprintf(" for %v", o)
	}
	return nil, fmt.Errorf("unknown kernel %q%s on %s: expected one of %s", name, of, d.Spec().ID, strings.Join(have, ", "))
}

// Products lists a device's kernels of matrix products.
func Products(d Device) []Kernel { return d.Kernels(Projections.Operation()) }

// FindProduct is [Find] for a kernel of matrix products.
func FindProduct(d Device, name string) (Kernel, error) {
	return Find(d, Projections.Operation(), name)
}

// CandidateOf returns the nth choice after a kernel's first, n ≥ 1, or nil if it has no choices. See
// [Candidates] and [Planned].
func CandidateOf(k Kernel, n int) Kernel {
	switch c := k.(type) {
	case Candidates:
		return c.Candidate(n)
	case Planned:
		return c.Plan(n)
	}
	return nil
}

// Packs reports whether a kernel packs weights before tasks like t. See [Packer]. Kernels of quantized weights
// always do.
func Packs(k Kernel, t Task) bool {
	if t.Quantized() {
		return k.Supports(t) == nil
	}
	p, ok := k.(Packer)
	return ok && p.Packs(t)
}

// Extent returns the largest M that the stored operand for m can serve. Values of M with the same extent
// share the operand. It is 0 if the operand does not depend on M, otherwise a power of two.
func (s Subject) Extent(m int) int {
	if s.Operation.definition().Room == nil {
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

// Stored returns the size in bytes of the operand for [Kernel.Prepare]: weights, or a cache
// with room for the keys and values of M = [Subject.Extent]; 0 if there is none.
func (s Subject) Stored(m int) int64 {
	switch room := s.Operation.definition().Room; {
	case room != nil:
		return int64(room(s, s.Extent(m)) / 8)
	case s.Operation.definition().Held != nil:
		return int64(s.Operation.definition().Held(s) / 8)
	case s.Quantized() && s.Weights.check(s.K) == nil:
		return s.Weights.rawWeights(s.N, s.K).Bytes
	}
	return int64(s.StoredBytes(m))
}

// Missing is an unavailable kernel, library or device, with the reason.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Broken is true if it is present but fails.
	Broken bool `json:"broken,omitempty"`
}

// Operand is a matrix inside a buffer, starting at Offset elements.
type Operand struct {
	Buffer Buffer
	Offset int
}

// Weights is B in one kernel's format.
type Weights interface {
	// Bytes is the memory held, which one launch reads.
	Bytes() int64
	Close() error
}

// Launch is a product ready for [Device.Execute].
type Launch interface {
	// Label names the library kernel, algorithm or tile that the kernel chose; empty if it has no choice.
	Label() string
}
