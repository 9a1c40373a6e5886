package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

var problemFields = field.Of([]field.Field[*problem.Problem]{
	{Name: "number", Head: "#", Kind: field.Count, Keep: true, Words: "number of the problem in its run, by worth"},
	{Name: "kernels", Head: "kernel", Keep: true, Words: "kernels that have it",
		Value: func(p *problem.Problem) any { return strings.Join(p.Kernels, ",") }},
	{Name: "dtype", Head: "type", Keep: true, Words: "type of A and B", Only: func(all []*problem.Problem) bool {
		return differ(all, func(p *problem.Problem) kernels.DType { return p.DType })
	}},
	{Name: "product", Head: "product", JSON: "-", Keep: true, Words: "dimensions of the product",
		Value: func(p *problem.Problem) any { return p.Curve() }},
	{Name: "m", Head: "M", Kind: field.Count, Keep: true, Words: "the M that stands for it"},
	{Name: "us", Head: "now us", Unit: field.Micros, Keep: true, Words: "time of that row",
		Value: func(p *problem.Problem) any { return digits3(p.US) }},
	{Name: "better_us", Head: "better us", Unit: field.Micros, Words: "time with the remedy",
		Value: func(p *problem.Problem) any { return digits3(p.BetterUS) }},
	{Name: "gain", Head: "gain", Unit: field.Factor, Keep: true, Words: "time now over the better time",
		Value: func(p *problem.Problem) any { return gain3(p.Gain.Mid) }},
	{Name: "remedy", Head: "remedy", Keep: true, Words: "what to do instead",
		Value: func(p *problem.Problem) any { return problemRemedy(p) }},
	{Name: "cause", Head: "why", Words: "why it is slow", Value: func(p *problem.Problem) any { return whyText(p) }},
	{Name: "interval", Head: "slow sizes", JSON: "-", Words: "how many measured sizes are slow, and their first and last M",
		Value: func(p *problem.Problem) any {
			return when(p.Sizes >= 2, fmt.Sprintf("%d in %s", p.Sizes, IntervalText(p.FromM, p.ToM)))
		}},
	{Name: "baseline", Head: "baseline", Keep: true, Words: "new, grown or known, compared with the baseline",
		Only: func(all []*problem.Problem) bool {
			return slices.ContainsFunc(all, func(p *problem.Problem) bool { return p.Baseline != "" })
		}},
	{Name: "status", Head: "status", Kind: field.Text, Words: "how far it is proven", Only: func(all []*problem.Problem) bool {
		return slices.ContainsFunc(all, func(p *problem.Problem) bool { return p.Status != rules.Confirmed })
	}},
	{Name: "device", Head: "device", Kind: field.Text, Words: "model of the device", Only: func(all []*problem.Problem) bool {
		return differ(all, func(p *problem.Problem) string { return p.Device })
	}},
})

func differ[T any, F ~string](records []T, fact func(T) F) bool {
	return slices.ContainsFunc(records, func(r T) bool { return fact(r) != fact(records[0]) })
}

// problemSheet lists some of all problems. Columns such as the data type are left out where all agree.
func problemSheet(problems, all []*problem.Problem) Sheet {
	sheet := sheetAmong("", problemFields, problems, all)
	nameAxis(&sheet, axisOf(problems, func(p *problem.Problem) results.SeriesKey { return p.Series }))
	return sheet
}
