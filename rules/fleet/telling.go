package fleet

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
)

// For returns the group with which a machine's device is compared, or nil if the baseline lacks its model.
// model is the model name used.
func (b *Baseline) For(meta results.Meta, device string) (g *BaselineGroup, model string) {
	p := newProcess(runs.Run{Meta: meta}, device)
	return b.Group(p.model, p.factors), p.model
}

// Telling orders the cases by information on a card. Kernels and data types, memory-bound or not, alternate,
// each by variation between processes. The first few cases cover every kind of work.
func (g *BaselineGroup) Telling() []BaselineCase {
	type family struct {
		kernel, operation, dtype string
		memory                   bool
	}
	order := func(a, b family) int {
		return cmp.Or(cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.operation, b.operation), cmp.Compare(a.dtype, b.dtype),
			falseFirst(a.memory, b.memory))
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

func falseFirst(a, b bool) int {
	number := map[bool]int{true: 1}
	return number[a] - number[b]
}
