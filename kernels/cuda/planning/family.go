package planning

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Family is one rung of a ladder: a kernel that one can select, in all the tile shapes it
// was built in. P is what it is asked to do, A where the operands lie. A family holds no
// state; everything it decides follows from the GPU and the problem, so that every
// decision is tested without a GPU.
type Family[P, A any] interface {
	// Name is the name by which the kernel is selected and stored: "hopper".
	Name() string
	// Describe is one line for people.
	Describe(a Arch) string
	// Supports returns why p can't run on a, empty when it can.
	Supports(a Arch, p P) string
	// Plan decides how p, which is supported, runs on a.
	Plan(a Arch, p P) Plan[A]
}

// Chooser is a family that tells all the plans among which Plan chooses.
type Chooser[P, A any] interface {
	Family[P, A]
	// Candidates lists the plans, in a fixed order.
	Candidates(a Arch, p P) []Plan[A]
}

// Plan is a decision: what will be launched, and what it is expected to cost.
type Plan[A any] struct {
	// Label names the decision on every row: "128x256x64 stages 4 cluster 2".
	Label string
	// Tiling is how the launch divides its work.
	Tiling kernels.Tiling
	// Stages is how many steps along K are in flight at the same time, Slots how many tiles
	// the GPU computes at the same time; 0 where that is not known.
	Stages, Slots int
	// Seconds is what the model expects of one launch, to be compared with that of
	// other plans only.
	Seconds float64
	// Scratch is the workspace in bytes, with any content. Flags is that of a
	// second one, which holds zeros when the first call begins and must hold
	// zeros when the last one ends. Calls that overlap their predecessor touch
	// neither before they have waited for it.
	Scratch, Flags int64
	// Bind makes the launches for operands at given addresses. The last one is that of the
	// kernel that the label names.
	Bind func(at A) []Call
}

// Pick plans p with every family among those given that can run it and returns the plan
// of least expected time, the earlier family's where two are equal. ok is false when
// none can.
func Pick[P, A any](among []Family[P, A], a Arch, p P) (best Family[P, A], plan Plan[A], ok bool) {
	for _, f := range among {
		if f.Supports(a, p) != "" {
			continue
		}
		if this := f.Plan(a, p); !ok || this.Seconds < plan.Seconds {
			best, plan, ok = f, this, true
		}
	}
	return best, plan, ok
}

// JoinLabel puts what was picked before how it was planned.
func JoinLabel(name, label string) string { return strings.TrimSpace(name + " " + label) }

// Refusals are the families' reasons why none of them runs p, each once.
func Refusals[P, A any](among []Family[P, A], a Arch, p P) string {
	var reasons []string
	for _, f := range among {
		if r := f.Supports(a, p); r != "" && !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	return strings.Join(reasons, "; ")
}

// Fastest is the plan of least expected time, the earlier of equal ones.
func Fastest[A any](plans []Plan[A]) Plan[A] {
	return slices.MinFunc(plans, func(x, y Plan[A]) int { return cmp.Compare(x.Seconds, y.Seconds) })
}
