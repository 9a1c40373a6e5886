package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
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

// No table holds the remedy of a grouped product. Recorded routing is not padded, and nothing is split.
func TestStepsOfGroupedProducts(t *testing.T) {
	drawn := kernels.Dims{N: 64, K: 64, Groups: 8, TopK: 2, Skew: 100, Draw: 1}
	even := kernels.Dims{N: 64, K: 64, Groups: 8}
	var text strings.Builder
	for _, c := range []struct {
		name   string
		dims   kernels.Dims
		remedy *rules.Remedy
		others []problem.Other
	}{
		{"drawn, none", drawn, nil, nil},
		{"even, none", even, nil, nil},
		{"drawn, predicted", drawn, &rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "grouped_mm"}, nil},
		{"drawn, two kernels", drawn, &rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "cublas", Pays: true},
			[]problem.Other{{Kernel: "cublas-grouped", FromM: 2, ToM: 32}, {Kernel: "cublas", FromM: 64, ToM: 64}}},
		{"drawn, padded", drawn, &rules.Remedy{Kind: rules.RemedyPad, M: 100, PadTo: 128, Pays: true}, nil},
		{"recorded, none", kernels.Dims{N: 64, K: 64, Groups: 8, Routing: 1}, nil, nil},
		{"even, to a tile", even, &rules.Remedy{Kind: rules.RemedyPad, M: 100, PadTo: 128, Pays: true}, nil},
		{"even, to no tile", even, &rules.Remedy{Kind: rules.RemedyPad, M: 300, PadTo: 352, Pays: true}, nil},
	} {
		subject := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: c.dims}
		p := &problem.Problem{Kernels: []string{"loop"}, Place: problem.Place{Subject: subject}, M: 64, Remedy: c.remedy, Others: c.others,
			US: 20, BetterUS: 10}
		if c.remedy != nil {
			p.M = c.remedy.M
		}
		fmt.Fprintf(&text, "%s: %s\n", c.name, timesSentence(p, true, true))
		for _, s := range remedySteps(p, false) {
			fmt.Fprintf(&text, "  %s\n", s)
		}
	}
	golden.Compare(t, "steps-experts", text.String())
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
