package planning

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Family is a selectable kernel in all its tile shapes. P is the problem, A the operands' addresses. A family
// has no state: decisions depend only on the GPU and the problem, so tests need no GPU.
type Family[P, A any] interface {
	// Name returns the name for selection and storage: "hopper".
	Name() string
	// Describe returns a one-line description.
	Describe(a Arch) string
	// Supports returns why p can't run on a, or "".
	Supports(a Arch, p P) string
	// Plan plans p, which must be supported, for a.
	Plan(a Arch, p P) Plan[A]
}

// Chooser is a family that lists the candidates of Plan.
type Chooser[P, A any] interface {
	Family[P, A]
	// Candidates lists the plans, in a fixed order.
	Candidates(a Arch, p P) []Plan[A]
}

// Plan is a launch and its expected cost.
type Plan[A any] struct {
	// Label describes the plan in each row: "128x256x64 stages 4 cluster 2".
	Label string
	// Tiling is the launch's division of work.
	Tiling kernels.Tiling
	// Stages is the number of steps along K in flight, Slots the number of tiles that the GPU computes
	// concurrently; 0 means unknown.
	Stages, Slots int
	// Seconds is the modeled time of a launch. Compare it with other plans' only.
	Seconds float64
	// Scratch is the size of the workspace in bytes; its content is undefined. Flags is the size of a second
	// workspace, which holds zeros before the first call and must hold zeros after the last. Calls that
	// overlap their predecessor must wait for it before they access either.
	Scratch, Flags int64
	// Bind makes the launches for operands at given addresses. The last is the kernel that the label names.
	Bind func(at A) []Call
}

// Pick plans p with each supporting family in among, and returns the plan with the least expected time. On a
// tie the earlier family wins. ok is false if no family supports p.
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

// Choice is a picked plan.
type Choice[P, A any] struct {
	Family Family[P, A]
	Plan   Plan[A]
	Label  string // the plan's, after the family's name if there was a choice of families
}

// Choose is [Pick] with a launch's label. If no family supports p, refusal has the reasons.
func Choose[P, A any](among []Family[P, A], a Arch, p P) (c Choice[P, A], refusal string) {
	best, plan, ok := Pick(among, a, p)
	if !ok {
		return c, cmp.Or(Refusals(among, a, p), "no kernel runs here")
	}
	c = Choice[P, A]{best, plan, plan.Label}
	if len(among) > 1 {
		c.Label = c.Name()
	}
	return c, ""
}

// Name returns the names of the family and its plan.
func (c Choice[P, A]) Name() string { return JoinLabel(c.Family.Name(), c.Plan.Label) }

// JoinLabel joins a kernel's name and its plan's label.
func JoinLabel(name, label string) string { return strings.TrimSpace(name + " " + label) }

// Refusals joins the families' reasons against p, without duplicates.
func Refusals[P, A any](among []Family[P, A], a Arch, p P) string {
	var reasons []string
	for _, f := range among {
		if r := f.Supports(a, p); r != "" && !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	return strings.Join(reasons, "; ")
}

// Fastest returns the plan with the least expected time, the first on a tie.
func Fastest[A any](plans []Plan[A]) Plan[A] {
	return slices.MinFunc(plans, func(x, y Plan[A]) int { return cmp.Compare(x.Seconds, y.Seconds) })
}
