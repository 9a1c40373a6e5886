package report

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// waysOfExperts say how libraries compute grouped products.
var waysOfExperts = map[string]string{
	"cublas":           "one cublasGemmEx after the other, for each expert with rows",
	"cublaslt":         "one cublasLtMatmul after the other, for each expert with rows",
	"cublas-streams":   "cublasGemmEx for each expert with rows, in four streams with a handle and a workspace each",
	"cublaslt-streams": "cublasLtMatmul for each expert with rows, in four streams with a workspace each",
	"cublas-grouped":   "one cublasGemmGroupedBatchedEx for all experts with rows",
}

// otherExpertsSteps say from which M to which another kernel of grouped products is faster, and what it is.
func otherExpertsSteps(p *problem.Problem) []step {
	others := p.Others
	if len(others) == 0 { // predicted
		others = []problem.Other{{Kernel: p.Remedy.Kernel, FromM: p.M, ToM: p.M}}
	}
	var out []step
	for _, o := range others {
		text := fmt.Sprintf("With %s, use %s for M %s: the busiest expert has %s rows.", p.RoutedRows(), o.Kernel,
			rangeText(o.FromM, o.ToM), rangeText(busiest(p, o.FromM), busiest(p, o.ToM)))
		if way := waysOfExperts[o.Kernel]; way != "" {
			text += fmt.Sprintf(" %s is %s.", o.Kernel, way)
		}
		out = append(out, step{text: text})
	}
	return out
}

// padExpertsSteps say how engines pad the rows of experts. With even routing, experts differ by a row at most; with drawn routing,
// more rows are those of further tokens.
func padExpertsSteps(p *problem.Problem) []step {
	if p.Draw != 0 {
		tokens := (p.Remedy.PadTo + p.TopK - 1) / p.TopK
		return []step{{text: fmt.Sprintf("Pad the batch to %d tokens, as for a captured graph, and skip the added rows of the result: "+
			"with %s, M is then %d, and the busiest expert has %d rows instead of %d.", tokens, p.RoutedRows(), p.Remedy.PadTo,
			busiest(p, p.Remedy.PadTo), busiest(p, p.M))}}
	}
	now, padded := busiest(p, p.M), busiest(p, p.Remedy.PadTo)
	tile := padded & -padded // a power of two
	if (now+tile-1)/tile*tile != padded {
		tile = padded
	}
	return []step{
		{text: fmt.Sprintf("When you sort the rows by expert, leave room for %d rows of each expert instead of %d, the next multiple "+
			"of %d, and skip the added rows of the result: M is then %d.", padded, now, tile, p.Remedy.PadTo)},
		{engine: "PyTorch", code: fmt.Sprintf("offsets = (-(-sizes // %d) * %[1]d).cumsum(0)", tile)},
	}
}

// busiest returns the most rows of an expert.
func busiest(p *problem.Problem, m int) int {
	rows, err := p.GroupRows(m)
	if err != nil || len(rows) == 0 {
		return m
	}
	return slices.Max(rows)
}

// rangeText is "64", or "16 to 64".
func rangeText(from, to int) string {
	if from == to {
		return itoa(from)
	}
	return itoa(from) + " to " + itoa(to)
}
