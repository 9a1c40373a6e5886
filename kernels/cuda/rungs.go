package cuda

import (
	"cmp"
	"slices"
	"strings"
)

// family is one rung of a ladder: a kernel that one can select, in all the tile shapes it
// was built in. P is what it is asked to do, A where the operands lie. A family holds no
// state; everything it decides follows from the GPU and the problem, so that every
// decision is tested without a GPU.
type family[P, A any] interface {
	// Name is the name by which the kernel is selected and stored: "hopper".
	Name() string
	// Describe is one line for people.
	Describe(a arch) string
	// Supports returns why p can't run on a, empty when it can.
	Supports(a arch, p P) string
	// Plan decides how p, which is supported, runs on a.
	Plan(a arch, p P) planned[A]
}

// chooser is a family that tells all the plans among which Plan chooses.
type chooser[P, A any] interface {
	family[P, A]
	// Candidates lists the plans, in a fixed order.
	Candidates(a arch, p P) []planned[A]
}

// planned is a decision: what will be launched, and what it is expected to cost.
type planned[A any] struct {
	// label names the decision on every row: "128x256x64 stages 4 cluster 2".
	label string
	// seconds is what the model expects of one launch, to be compared with that of
	// other plans only.
	seconds float64
	// scratch is the workspace in bytes, with any content. flags is that of a
	// second one, which holds zeros when the first call begins and must hold
	// zeros when the last one ends. Calls that overlap their predecessor touch
	// neither before they have waited for it.
	scratch, flags int64
	// bind makes the launches for operands at given addresses.
	bind func(at A) []call
}

// pick plans p with every family among those given that can run it and returns the plan
// of least expected time, the earlier family's where two are equal. ok is false when
// none can.
func pick[P, A any](among []family[P, A], a arch, p P) (best family[P, A], plan planned[A], ok bool) {
	for _, f := range among {
		if f.Supports(a, p) != "" {
			continue
		}
		if this := f.Plan(a, p); !ok || this.seconds < plan.seconds {
			best, plan, ok = f, this, true
		}
	}
	return best, plan, ok
}

// joinLabel puts what was picked before how it was planned.
func joinLabel(name, label string) string { return strings.TrimSpace(name + " " + label) }

// refusals are the families' reasons why none of them runs p, each once.
func refusals[P, A any](among []family[P, A], a arch, p P) string {
	var reasons []string
	for _, f := range among {
		if r := f.Supports(a, p); r != "" && !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	return strings.Join(reasons, "; ")
}

// fastest is the plan of least expected time, the earlier of equal ones.
func fastest[A any](plans []planned[A]) planned[A] {
	return slices.MinFunc(plans, func(x, y planned[A]) int { return cmp.Compare(x.seconds, y.seconds) })
}
