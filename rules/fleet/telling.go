package fleet

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
)

// For is the group with which a device of a machine is compared, nil where the baseline has none of its model; model is what the
// device counts as.
func (b *Baseline) For(meta results.Meta, device string) (g *BaselineGroup, model string) {
	p := newProcess(runs.Run{Meta: meta}, device)
	return b.Group(p.model, p.factors), p.model
}

// Telling are the cases in the order in which they tell most of a card: families take turns, a family being a kernel with what it
// computes on, where memory binds or where it does not; each begins with the cases that scatter least between processes. So the
// first few are of every kind of work.
func (g *BaselineGroup) Telling() []BaselineCase {
	type family struct {
		kernel, operation, dtype string
		memory                   bool
	}
	order := func(a, b family) int {
		return cmp.Or(cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.operation, b.operation), cmp.Compare(a.dtype, b.dtype), falseFirst(a.memory, b.memory))
	}
	of := map[family][]BaselineCase{}
	var families []family
	for _, c := range g.Cases {
		f := family{c.Series.Kernel, c.Series.Operation.String(), string(c.Series.DType), c.Memory}
		if of[f] == nil {
			families = append(families, f)
		}
		of[f] = append(of[f], c)
	}
	slices.SortFunc(families, order)
	longest := 0
	for f, cases := range of {
		slices.SortStableFunc(cases, func(a, b BaselineCase) int {
			if a.Process == nil || b.Process == nil {
				return cmp.Or(falseFirst(a.Process == nil, b.Process == nil), cmp.Compare(a.US, b.US))
			}
			return cmp.Or(cmp.Compare(*a.Process, *b.Process), cmp.Compare(a.US, b.US))
		})
		of[f] = cases
		longest = max(longest, len(cases))
	}
	out := make([]BaselineCase, 0, len(g.Cases))
	for i := range longest {
		for _, f := range families {
			if i < len(of[f]) {
				out = append(out, of[f][i])
			}
		}
	}
	return out
}

// falseFirst compares truths.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
