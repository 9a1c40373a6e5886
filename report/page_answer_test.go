package report

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A card names the data type if another card of the page has a different one.
func TestProblemCardShowsTheType(t *testing.T) {
	of := func(d kernels.DType) *problem.Problem {
		p := &problem.Problem{Number: 1, Kernels: []string{"openblas"}, M: 64, US: 100}
		p.DType = d
		return p
	}
	half, single := of(kernels.BF16), of(kernels.FP32)
	for _, c := range []struct {
		name string
		all  []*problem.Problem
		want bool
	}{{"two types", []*problem.Problem{half, single}, true}, {"one type", []*problem.Problem{half, half}, false}} {
		var b strings.Builder
		(&shownProblem{Problem: half, account: &account{}, around: around{problem: half}}).html(&b, c.all)
		if got := strings.Contains(b.String(), "<dt>type</dt><dd>bf16</dd>"); got != c.want {
			t.Errorf("%s: the type is shown: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTriedRemedy(t *testing.T) {
	p := &problem.Problem{Number: 1, Kernels: []string{"openblas"}, M: 12, US: 4510, ExpectedUS: 611, Possible: "auto",
		Tried: &rules.Remedy{Kind: rules.RemedyOther, Kernel: "onednn", M: 12, Executed: true,
			Gain: stats.Interval{Lo: 3.985, Mid: 9.868, Hi: 10.57}}}
	if got := timesSentence(p, false, false); !strings.Contains(got, "with onednn (9.87x)") || strings.Contains(got, "auto") {
		t.Errorf("the sentence is %q", got)
	}
	if got := toCell(problemRemedy(p)).Text(); got != "use onednn (unproven)" {
		t.Errorf("the table shows %q", got)
	}
	if s := remedySteps(p, false); len(s) != 1 || !strings.Contains(s[0].text, "splits RUN --execute") {
		t.Errorf("steps %q", s)
	}
}
