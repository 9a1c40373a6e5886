package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureDiff() *diff.Result {
	audit := fixtureAudit()
	fixed, fresh, both := audit.Findings[1], audit.Findings[2], audit.Findings[0]
	return &diff.Result{
		Schema: "gemmaudit.diff/1", A: "before.db", B: "after.db", Threshold: 0.02, FDR: 0.05, Family: "Benjamini–Hochberg over 4 cases",
		Factors: []results.FactorDiff{
			{Name: "hostname", A: "node7", B: "node8", Identity: true}, {Name: "governor", A: "performance", B: "powersave"},
			{Name: "kernel", A: "6.1.0-18-amd64"},
		},
		Confounded: "2 factors differ (governor, kernel), so no change can be attributed to one of them",
		Cases: []diff.Case{
			{Series: fixtureKey, M: 64, A: stats.Interval{Lo: 1950, Mid: 1955, Hi: 1960}, B: stats.Interval{Lo: 1949, Mid: 1956, Hi: 1963},
				Ratio: stats.Interval{Lo: 0.996, Mid: 1.0005, Hi: 1.005}, P: 0.9, AdjustedP: 0.9, Change: change.Same},
			{Series: fixtureKey, M: 128, A: stats.Interval{Lo: 3900, Mid: 3910, Hi: 3920}, B: stats.Interval{Lo: 4290, Mid: 4301, Hi: 4312},
				Ratio: stats.Interval{Lo: 1.095, Mid: 1.1, Hi: 1.105}, P: 1e-7, AdjustedP: 2e-7, Change: change.Slower, LabelA: "tile 64",
				LabelB: hostile},
			{Series: fixtureKey, M: 320, A: stats.Interval{Lo: 12800, Mid: 12807, Hi: 12820},
				B: stats.Interval{Lo: 9700, Mid: 9790, Hi: 9880}, Ratio: stats.Interval{Lo: 0.757, Mid: 0.764, Hi: 0.772}, P: 1e-9,
				AdjustedP: 4e-9, Change: change.Faster},
			{Series: fixtureKey, M: 384, A: stats.Interval{Lo: 11500, Mid: 11731, Hi: 12000},
				B: stats.Interval{Lo: 11600, Mid: 11960, Hi: 12300}, Ratio: stats.Interval{Lo: 0.98, Mid: 1.02, Hi: 1.06}, P: 0.4,
				AdjustedP: 0.53, Change: change.Open},
		},
		OnlyA: 1, OnlyB: 2,
		Series: []diff.Series{{Series: fixtureKey, Cases: 4, Ratio: stats.Interval{Lo: 0.955, Mid: 0.962, Hi: 0.97},
			OverRows: stats.Interval{Lo: 0.92, Mid: 0.962, Hi: 1.01}, Slower: 1, Faster: 1}},
		Geomean: stats.Interval{Lo: 0.955, Mid: 0.962, Hi: 0.97}, GeomeanOverRows: stats.Interval{Lo: 0.92, Mid: 0.962, Hi: 1.01},
		Findings: []diff.Finding{{Change: change.New, B: &fresh}, {Change: change.Fixed, A: &fixed},
			{Change: change.Same, A: &both, B: &both}, {Change: change.Open, A: &both}},
		Slower: 1, Faster: 1, Same: 1, Undecided: 1, Gate: true,
		Warnings: []rules.Warning{{Subject: "run", Text: "one machine differs from run to run"}},
	}
}

// The conditions and the banner precede all times.
func TestDiffShowsConditionsFirst(t *testing.T) {
	for _, f := range []Format{Table, Wide, Markdown} {
		var b bytes.Buffer
		if err := WriteDiff(&b, f, fixtureDiff(), nil); err != nil {
			t.Fatal(err)
		}
		at := -1
		for _, want := range []string{"CONFOUNDED: 2 factors", "governor", "geometric mean", "128", "undecided"} {
			i := strings.Index(b.String()[at+1:], want)
			if i < 0 {
				t.Errorf("%s: %q is missing or too early in:\n%s", f, want, b.String())
				break
			}
			at += 1 + i
		}
	}
	plain := fixtureDiff()
	plain.Confounded, plain.Factors = "", nil
	var b bytes.Buffer
	if err := WriteDiff(&b, Table, plain, nil); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "CONFOUNDED") || !strings.Contains(s, "the fingerprints are equal") {
		t.Errorf("equal fingerprints:\n%s", s)
	}
}

func TestInvalidDiffIsSaidFirst(t *testing.T) {
	d := fixtureDiff()
	d.Invalid = "B drifted by 45 %"
	var b strings.Builder
	if err := WriteDiff(&b, Markdown, d, nil); err != nil {
		t.Fatal(err)
	}
	const why = "can't be compared: B drifted by 45 %"
	said, numbers := strings.Index(b.String(), why), strings.Index(b.String(), "Conditions that differ")
	if said < 0 || numbers < 0 || said > numbers || strings.Count(b.String(), why) != 1 {
		t.Errorf("said at %d, the numbers begin at %d:\n%s", said, numbers, &b)
	}
}

// Runs that are not comparable show no ratio or finding by default.
func TestDiffOfNothing(t *testing.T) {
	d := fixtureDiff()
	d.Invalid = "the runs have no case in common"
	for f, listed := range map[Format]bool{Table: false, Wide: true} {
		var b strings.Builder
		if err := WriteDiff(&b, f, d, nil); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(b.String(), "\nFindings\n"); has != listed || strings.Contains(b.String(), "geometric mean") != listed ||
			!listed && !strings.Contains(b.String(), "-o wide lists") {
			t.Errorf("%s lists findings: %v\n%s", f, has, b.String())
		}
	}
}
