package report

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// `explain` must know each column header of the default table.
func TestHeadsOfProblemsAreExplained(t *testing.T) {
	for _, f := range problemFields {
		if len(explain.Find(f.Head)) == 0 {
			t.Errorf("the column %q is not explained", f.Head)
		}
	}
}

// No engine can apply a remedy to gemmaudit's own kernels.
func TestOwnKernelsHaveNoEngineSteps(t *testing.T) {
	pad := &rules.Remedy{}
	pad.Kind, pad.M, pad.PadTo, pad.Pays = rules.RemedyPad, 100, 128, true
	for _, remedy := range []*rules.Remedy{nil, pad} {
		p := &problem.Problem{Kernels: []string{"auto"}, Own: true, Remedy: remedy}
		for _, s := range remedySteps(p, false) {
			if text := s.String(); !strings.Contains(text, "auto is a kernel of gemmaudit") || strings.Contains(text, "librar") ||
				strings.Contains(text, "vLLM") {
				t.Errorf("remedy %v: %s", remedy != nil, text)
			}
		}
	}
}

// No table holds the remedy of a grouped product. Only even routing can be padded, and nothing is split.
func TestStepsOfGroupedProducts(t *testing.T) {
	drawn := kernels.Dims{N: 64, K: 64, Groups: 8, TopK: 2, Skew: 100, Draw: 1}
	even := kernels.Dims{N: 64, K: 64, Groups: 8}
	for _, c := range []struct {
		dims   kernels.Dims
		remedy *rules.Remedy
		others []problem.Other
		want   string
	}{
		{drawn, nil, nil, "No remedy is known. Measure more kernels, or report it to the library's maker with the command below."},
		{even, nil, nil, "No remedy is known. Report it to the library's maker with the command below, or search more sizes: a pad or a " +
			"split needs other sizes that were measured."},
		{drawn, &rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "grouped_mm"}, nil,
			"This remedy is predicted, not measured. `gemmaudit splits RUN --execute` measures it on the machine of the run.\n" +
				"With tokens drawn with skew 100, use grouped_mm for M 64: the busiest expert has 16 rows."},
		{drawn, &rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "cublas", Pays: true},
			[]problem.Other{{Kernel: "cublas-grouped", FromM: 2, ToM: 32}, {Kernel: "cublas", FromM: 64, ToM: 64}},
			"With tokens drawn with skew 100, use cublas-grouped for M 2 to 32: the busiest expert has 1 to 7 rows. cublas-grouped " +
				"is one cublasGemmGroupedBatchedEx for all experts with rows.\n" +
				"With tokens drawn with skew 100, use cublas for M 64: the busiest expert has 16 rows. cublas is one cublasGemmEx after " +
				"the other, for each expert with rows."},
		{even, &rules.Remedy{Kind: rules.RemedyPad, M: 100, PadTo: 128, Pays: true}, nil,
			"When you sort the rows by expert, leave room for 16 rows of each expert instead of 13, the next multiple of 16, and " +
				"skip the added rows of the result: M is then 128.\nPyTorch: offsets = (-(-sizes // 16) * 16).cumsum(0)"},
		{even, &rules.Remedy{Kind: rules.RemedyPad, M: 300, PadTo: 352, Pays: true}, nil,
			"When you sort the rows by expert, leave room for 44 rows of each expert instead of 38, the next multiple of 44, and skip " +
				"the added rows of the result: M is then 352.\nPyTorch: offsets = (-(-sizes // 44) * 44).cumsum(0)"},
	} {
		subject := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: c.dims}
		p := &problem.Problem{Kernels: []string{"loop"}, Place: problem.Place{Subject: subject}, M: 64, Remedy: c.remedy, Others: c.others,
			US: 20, BetterUS: 10}
		if c.remedy != nil {
			p.M = c.remedy.M
		}
		var lines []string
		for _, s := range remedySteps(p, false) {
			lines = append(lines, s.String())
		}
		if text := strings.Join(lines, "\n"); text != c.want {
			t.Errorf("steps are %q, expected %q", text, c.want)
		}
		if got := timesSentence(p, true, true); c.remedy != nil && !strings.Contains(got, "(8 experts, ") {
			t.Errorf("times are %q", got)
		}
	}
}

// Heads of sizes name the dimension of the curves.
func TestHeadsNameTheDimension(t *testing.T) {
	along := func(dimension string) (out results.SeriesKey) {
		if dimension != "" {
			out.Along = kernels.Along{Dimension: dimension, M: 64}
		}
		return out
	}
	for want, dimensions := range map[string][]string{"m": {"", ""}, "n": {"n", "n"}, "scale": {"scale"}, "size": {"n", "k"}} {
		var findings []rules.Finding
		var rows []remedy.Row
		for _, d := range dimensions {
			findings = append(findings, rules.Finding{Series: along(d)})
			rows = append(rows, remedy.Row{Series: along(d)})
		}
		found, splits := FindingSheet(results.Meta{}, &rules.Audit{Findings: findings}), SplitSheet(rows)
		for _, head := range []string{found.column("interval").Name, strings.TrimPrefix(found.column("worst_m").Name, "worst "),
			splits.column("m").Name} {
			if head != want {
				t.Errorf("along %v: %q, want %q", dimensions, head, want)
			}
		}
	}
}

func TestAnswerOfAnEmptyRun(t *testing.T) {
	if got := strings.Join((&Answer{}).Sentences(), "|"); got != "Nothing was measured." {
		t.Error(got)
	}
}

// The grammar of a count of one.
func TestOneSuspectedSize(t *testing.T) {
	for n, want := range map[int]string{1: "it needs to be, but was", 2: "they need to be, but were"} {
		a := &Answer{Summary: problem.Summary{Sizes: 40, Suspected: n}}
		if got := a.count(); !strings.Contains(got, want) {
			t.Errorf("%d suspected: %q, want %q", n, got, want)
		}
	}
}
