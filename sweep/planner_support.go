package sweep

import (
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// supported returns the Ms that the kernel can run, and why others were dropped. Ms that the device or
// library failed to check are kept: they are measured, or fail with the reason.
//
// For an inferred series it checks only some Ms if the answers are uniform, since library queries are slow.
func (b *planner) supported(g kernels.Kernel, s PlannedSeries, ms Batches) (Batches, error) {
	refusal := func(m int) error {
		var no *kernels.Unsupported
		if err := g.Supports(task(s.Case(m), m)); errors.As(err, &no) {
			return err
		}
		return nil
	}
	if s.Infer {
		if n, why, ok := alike(ms, refusal); ok {
			return ms[:n:n], why
		}
	}
	var why error
	kept := ms
	for i, m := range ms {
		err := refusal(m)
		if err != nil && why == nil {
			kept, why = slices.Clone(ms[:i]), err
		}
		if err == nil && why != nil {
			kept = append(kept, m)
		}
	}
	return kept, why
}

// The first askedAll Ms are queried one by one, which reveals divisibility conditions. Beyond them the
// spacing is askedShare of M.
const askedAll, askedShare = 64, 1.0 / 16

// alike queries some of ms, and finds the limit if larger ones are refused; otherwise ok is false.
func alike(ms Batches, refusal func(m int) error) (kept int, why error, ok bool) {
	last := len(ms) - 1
	at := []int{}
	for i := 0; i < last; i = max(i+1, int(float64(i)*(1+askedShare))*min(1, i/askedAll)) {
		at = append(at, i)
	}
	at = append(at, last)
	refused := slices.IndexFunc(at, func(i int) bool { return refusal(ms[i]) != nil })
	if refused < 0 {
		return len(ms), nil, true
	}
	for _, i := range at[refused:] {
		if refusal(ms[i]) == nil {
			return 0, nil, false
		}
	}
	from := 0
	if refused > 0 {
		from = at[refused-1] + 1
	}
	kept, _ = slices.BinarySearchFunc(ms[from:at[refused]], true, func(m int, _ bool) int {
		if refusal(m) != nil {
			return 0
		}
		return -1
	})
	kept += from
	return kept, refusal(ms[kept]), true
}
