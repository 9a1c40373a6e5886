package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// DiffKernels compares two kernels of one run as [Diff] compares two runs: each case of b with the same
// product on a. Both were measured in the same rounds, so only the kernel differs, and every interval
// includes only the least scatter between runs. "cublas+cublaslt" is the faster of both at each case, "others"
// the fastest of all but a. It returns an error if the run has no series of a kernel.
func DiffKernels(data Data, a, b string, cfg Config) (*DiffResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	have := map[string]bool{}
	for _, s := range data.Series {
		have[s.Key.Kernel] = true
	}
	inA := strings.Split(a, "+")
	inB := strings.Split(b, "+")
	if b == "others" && !have[b] {
		inB = slices.DeleteFunc(slices.Sorted(maps.Keys(have)), func(kernel string) bool { return slices.Contains(inA, kernel) })
	}
	for _, kernel := range slices.Concat(inA, inB) {
		if !have[kernel] {
			return nil, fmt.Errorf("%s has no series of kernel %q: expected one of %s", data.Name, kernel,
				strings.Join(slices.Sorted(maps.Keys(have)), ", "))
		}
	}
	d := newDiff(a, b, cfg)
	d.Run = data.Name
	if a != b {
		d.Factors = append(d.Factors, results.FactorDiff{Name: "kernel", A: a, B: b})
	}
	d.Clocks = referenceClocks(data, cfg.Basis())
	whole := prepareAt(data, d.Clocks)
	d.Invalid = whole.invalid(whole.resolve(cfg.Basis()), cfg.Basis())
	pa, pb := whole.only(a, inA), whole.only(b, inB)
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
	d.Bands = bandsOf(d.Cases)
	d.Losses = losses(judged(pa.curves), pb.curves, pairs)
	d.Losses.A, d.Losses.B = a, b
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, fmt.Sprintf("%s and %s have no case in common", a, b))
	}
	d.gate()
	return d, nil
}

// only returns the curves of kernels, or of several the fastest row at each case, under a name.
func (p *prepared) only(name string, among []string) *prepared {
	one := *p
	one.curves = nil
	at := map[results.SeriesKey]int{}
	for _, c := range p.curves {
		if !slices.Contains(among, c.series.Key.Kernel) {
			continue
		}
		of := productOf(c.series.Key)
		if i, ok := at[of]; ok {
			one.curves[i] = fastest(one.curves[i], c)
			one.curves[i].series.Key.Kernel = name
			continue
		}
		at[of] = len(one.curves)
		one.curves = append(one.curves, c)
	}
	return &one
}

// fastest returns a curve of the faster row at each M. The lower of two noisy times is rather too short,
// which favors this side of a comparison.
func fastest(a, b *curve) *curve {
	out := *a
	out.series.Rows, out.points = nil, nil
	add := func(c *curve, p point) {
		if p.row >= 0 {
			out.series.Rows = append(out.series.Rows, c.series.Rows[p.row])
			p.row = len(out.series.Rows) - 1
		}
		out.points = append(out.points, p)
	}
	for i, j := 0, 0; i < len(a.points) || j < len(b.points); {
		switch {
		case j == len(b.points) || i < len(a.points) && a.points[i].m < b.points[j].m:
			add(a, a.points[i])
			i++
		case i == len(a.points) || b.points[j].m < a.points[i].m:
			add(b, b.points[j])
			j++
		default:
			if b.points[j].us.Y < a.points[i].us.Y {
				add(b, b.points[j])
			} else {
				add(a, a.points[i])
			}
			i, j = i+1, j+1
		}
	}
	return &out
}
