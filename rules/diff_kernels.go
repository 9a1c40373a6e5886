package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// DiffKernels compares two kernels of one run as [Diff] compares two runs: each case of b
// with the same product on a. Both were measured in the same rounds, so that nothing but the
// kernel differs, and the least scatter between runs is in every interval. The error names a
// kernel of which the run has no series.
func DiffKernels(data Data, a, b string, cfg Config) (*DiffResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	have := map[string]bool{}
	for _, s := range data.Series {
		have[s.Key.Kernel] = true
	}
	for _, kernel := range []string{a, b} {
		if !have[kernel] {
			return nil, fmt.Errorf("%s has no series of kernel %q: expected one of %s", data.Name, kernel, strings.Join(slices.Sorted(maps.Keys(have)), ", "))
		}
	}
	d := newDiff(a, b, cfg)
	d.Run = data.Name
	if a != b {
		d.Factors = append(d.Factors, results.FactorDiff{Name: "kernel", A: a, B: b})
	}
	d.Clocks = referenceClocks(data, cfg)
	whole := prepareAt(data, d.Clocks)
	d.Invalid = whole.invalid(whole.resolve(cfg), cfg)
	pa, pb := whole.only(a), whole.only(b)
	var pairs []curvePair
	byProduct := make(map[results.SeriesKey]*curve, len(pa.curves))
	for _, x := range pa.curves {
		byProduct[productOf(x.series.Key)] = x
	}
	for _, y := range pb.curves {
		if x := byProduct[productOf(y.series.Key)]; x != nil {
			pairs = append(pairs, curvePair{x, y})
		}
	}
	d.cases(pairs, pa, pb, cfg)
	d.Losses = losses(judged(pa.curves), pb.curves, pairs)
	d.Losses.A, d.Losses.B = a, b
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, fmt.Sprintf("%s and %s have no case in common", a, b))
	}
	d.gate()
	return d, nil
}

// only is what was prepared of one kernel.
func (p *prepared) only(kernel string) *prepared {
	one := *p
	one.curves = slices.DeleteFunc(slices.Clone(p.curves), func(c *curve) bool { return c.series.Key.Kernel != kernel })
	return &one
}
