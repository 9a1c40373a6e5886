package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// CompareKernels compares two kernels of one run as [Compare] compares two runs: each case of b with the same
// product on a. Both were measured in the same rounds, so only the kernel differs, and every interval
// includes only the least scatter between runs. "cublas+cublaslt" is the faster of both at each case, "others"
// the fastest of all but a. It returns an error if the run has no series of a kernel.
func CompareKernels(data infer.Data, a, b string, cfg rules.Config) (*Result, error) {
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
		inB = slices.DeleteFunc(slices.Sorted(maps.Keys(have)), func(kernel string) bool {
			return slices.Contains(inA, kernel) || slices.ContainsFunc(inA, func(a string) bool { return !kernels.Peers(a, kernel) })
		})
	}
	all := slices.Concat(inA, inB)
	for _, kernel := range all {
		if !have[kernel] {
			return nil, fmt.Errorf("%s has no series of kernel %q: expected one of %s", data.Name, kernel,
				strings.Join(slices.Sorted(maps.Keys(have)), ", "))
		}
	}
	for i, x := range all {
		for _, y := range all[:i] {
			if !kernels.Comparable(x, y) {
				return nil, fmt.Errorf("%s: kernels %s and %s can't be compared: launches of %s overlap, those of others wait for the "+
					"one before", data.Name, y, x, kernels.Overlapping)
			}
		}
	}
	d := newDiff(a, b, cfg)
	d.Run = data.Name
	if a != b {
		d.Factors = append(d.Factors, results.FactorDiff{Name: "kernel", A: a, B: b})
	}
	d.Clocks = infer.ReferenceClocks(data, cfg.Basis())
	whole := infer.PreparePairs(data, d.Clocks)
	d.Invalid = whole.Invalid(whole.Resolve(cfg.Basis()), cfg.Basis())
	pa, pb := onlyKernel(whole, a, inA), onlyKernel(whole, b, inB)
	var pairs []curvePair
	byProduct := make(map[results.SeriesKey]*infer.Curve, len(pa.Curves))
	for _, x := range pa.Curves {
		byProduct[rules.ProductOf(x.Series.Key)] = x
	}
	for _, y := range pb.Curves {
		if x := byProduct[rules.ProductOf(y.Series.Key)]; x != nil {
			pairs = append(pairs, curvePair{x, y})
		}
	}
	d.cases(pairs, pa, pb, cfg)
	d.Bands = bandsOf(d.Cases)
	d.Losses = losses(infer.FirstChoices(pa.Curves), pb.Curves, pairs)
	d.Losses.A, d.Losses.B = a, b
	d.findings(pairs, pa, pb, cfg)
	if len(d.Cases) == 0 {
		d.Invalid = cmp.Or(d.Invalid, fmt.Sprintf("%s and %s have no case in common", a, b))
	}
	d.gate()
	return d, nil
}

// onlyKernel returns the curves of kernels, or of several the fastest row at each case, under a name.
func onlyKernel(p *infer.Estimates, name string, among []string) *infer.Estimates {
	one := *p
	one.Curves = nil
	at := map[results.SeriesKey]int{}
	for _, c := range p.Curves {
		if !slices.Contains(among, c.Series.Key.Kernel) {
			continue
		}
		of := rules.ProductOf(c.Series.Key)
		if i, ok := at[of]; ok {
			one.Curves[i] = fastest(one.Curves[i], c)
			one.Curves[i].Series.Key.Kernel = name
			continue
		}
		at[of] = len(one.Curves)
		one.Curves = append(one.Curves, c)
	}
	return &one
}

// fastest returns a curve of the faster row at each M. The lower of two noisy times is rather too short,
// which favors this side of a comparison.
func fastest(a, b *infer.Curve) *infer.Curve {
	out := *a
	out.Series.Rows, out.Points = nil, nil
	add := func(c *infer.Curve, p infer.Point) {
		if p.Row >= 0 {
			out.Series.Rows = append(out.Series.Rows, c.Series.Rows[p.Row])
			p.Row = len(out.Series.Rows) - 1
		}
		out.Points = append(out.Points, p)
	}
	for i, j := 0, 0; i < len(a.Points) || j < len(b.Points); {
		switch {
		case j == len(b.Points) || i < len(a.Points) && a.Points[i].M < b.Points[j].M:
			add(a, a.Points[i])
			i++
		case i == len(a.Points) || b.Points[j].M < a.Points[i].M:
			add(b, b.Points[j])
			j++
		default:
			if b.Points[j].US.Y < a.Points[i].US.Y {
				add(b, b.Points[j])
			} else {
				add(a, a.Points[i])
			}
			i, j = i+1, j+1
		}
	}
	return &out
}
