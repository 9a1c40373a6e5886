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

// No table holds the remedy of a grouped product, and neither pad nor split exists.
func TestStepsOfGroupedProducts(t *testing.T) {
	subject := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16,
		Dims: kernels.Dims{N: 64, K: 64, Groups: 8, TopK: 2, Skew: 100, Draw: 1}}
	other := &rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "grouped", Pays: true}
	for want, r := range map[string]*rules.Remedy{"call grouped for these M and this routing": other, "Measure more kernels": nil} {
		p := &problem.Problem{Kernels: []string{"loop"}, Place: problem.Place{Subject: subject}, Remedy: r, US: 20, BetterUS: 10}
		var text string
		for _, s := range remedySteps(p, false) {
			text += s.String()
		}
		if !strings.Contains(text, want) || strings.Contains(text, "table") || strings.Contains(text, "pad") {
			t.Errorf("steps are %q", text)
		}
		if got := timesSentence(p, true, true); !strings.Contains(got, "(8 experts, 2 for each ") {
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
