package gate

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureMeta() results.Meta {
	return results.Meta{Fingerprint: results.Fingerprint{Devices: []kernels.Spec{{ID: "cpu", Name: "a CPU"}}}}
}

// fixtureAudit has a finding of each status, and a row of each verdict.
func fixtureAudit() *rules.Audit {
	key := results.SeriesKey{Device: "cpu", Kernel: "amx", Subject: kernels.Product(kernels.BF16, 14336, 4096)}
	audit := &rules.Audit{Method: rules.MethodInterval, Cases: 5}
	series := rules.SeriesAudit{Key: key, Cases: 5}
	for i, v := range []rules.Verdict{rules.Clean, rules.Anomalous, rules.Undecided, rules.Marginal} {
		series.Rows = append(series.Rows, rules.RowVerdict{M: 64 * (i + 1), Verdict: v})
	}
	audit.Series = []rules.SeriesAudit{series}
	for i, status := range []rules.Status{rules.Confirmed, rules.Waived, rules.Unconfirmed} {
		audit.Findings = append(audit.Findings, rules.Finding{Rule: rules.AllRules()[i], Series: key, FromM: 128, ToM: 128, Rows: 1,
			WorstM: 128, Status: status, Loss: stats.Interval{Lo: 0.1, Mid: 0.2, Hi: 0.3}, Waiver: "known"})
	}
	return audit
}

// Checks of audits, comparisons and verifications must match the schemas, with unique names and fingerprints.
func TestChecksOfResults(t *testing.T) {
	audit, meta := fixtureAudit(), fixtureMeta()
	for i := range audit.Findings {
		if audit.Findings[i].Status == rules.Unconfirmed {
			audit.Findings[i].Baseline = rules.BaselineGrown
		}
	}
	confirmed := func(f rules.Finding) bool { return f.Status == rules.Confirmed }
	key := audit.Findings[0].Series
	verified := &report.Verification{Path: "t.json", Differences: []results.FactorDiff{{Name: "driver", A: "550", B: "560"}},
		Checks: []remedy.RowCheck{
			{Name: "lib/bf16", From: 64, To: 128, M: 64, Verdict: remedy.Pays, Gain: stats.Interval{Lo: 1.1, Mid: 1.2, Hi: 1.3},
				Promised: 1.1},
			{Name: "lib/bf16", From: 64, To: 128, M: 128, Verdict: remedy.Rejected, Reason: "it is slower"},
			{Name: "lib/bf16", From: 256, To: 256, M: 256, Verdict: "undecided"},
		}}
	about := stats.Interval{Lo: 1.05, Mid: 1.06, Hi: 1.07}
	diff := &diff.Result{Threshold: 0.03,
		Cases: []diff.Case{{Series: key, M: 64, Change: change.Slower, Ratio: about},
			{Series: key, M: 96, Change: change.Slower, Ratio: about},
			{Series: key, M: 128, Change: change.Open}, {Series: key, M: 256, Change: change.AtThreshold},
			{Series: key, M: 512, Change: change.Same}},
		Series: []diff.Series{{Series: key, Cases: 5, Change: change.Slower, Ratio: about,
			Stretches: []diff.Stretch{{FromM: 64, ToM: 96, Cases: 2, Ratio: about},
				{FromM: 80, ToM: 90, Cases: 2, Ratio: about}}}},
		Findings: []diff.Finding{{Change: change.New, B: &audit.Findings[0]}, {Change: change.Fixed, A: &audit.Findings[0]}}}
	tests := []struct {
		name  string
		list  []Check
		state map[State]int
	}{
		{"table check", OfTable(verified, false), map[State]int{Passed: 1, Failed: 2, Open: 1}},
		{"table check --anyway", OfTable(verified, true),
			map[State]int{Passed: 1, Failed: 1, Noted: 1, Open: 1}},
		{"diff", OfDiff(meta, diff, func(change.Kind) bool { return true }),
			map[State]int{Failed: 6, Open: 1, Noted: 1}},
		{"diff --no-gate", OfDiff(meta, diff, func(change.Kind) bool { return false }),
			map[State]int{Noted: 7, Open: 1}},
		{"audit", OfAudit(meta, audit, confirmed, false, true), nil},
	}
	schema := sarifSchema(t)
	for _, x := range tests {
		names, prints, states := map[string]bool{}, map[string]bool{}, map[State]int{}
		for _, c := range x.list {
			states[c.State]++
			if name := c.Subject + "|" + c.Name; names[name] || prints[c.Fingerprint] {
				t.Errorf("%s: %q is the name or %s the fingerprint of two checks", x.name, name, c.Fingerprint)
			} else {
				names[name], prints[c.Fingerprint] = true, true
			}
			if ruleMeaning(c.Rule) == "" {
				t.Errorf("%s: the rule %q has no meaning", x.name, c.Rule)
			}
			if c.State == Open && c.Next == "" {
				t.Errorf("%s: %q is open and does not say what to do", x.name, c.Name)
			}
		}
		for state, n := range x.state {
			if states[state] != n {
				t.Errorf("%s: %d are %s, expected %d", x.name, states[state], state, n)
			}
		}
		all := &Checks{Command: x.name, Path: "r.db", List: x.list}
		if err := schema.Validate(decoded(t, written(t, all, report.SARIF))); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if wrong := junitErrors(junitSchema(t), written(t, all, report.JUnit)); len(wrong) > 0 {
			t.Errorf("%s: %q", x.name, wrong)
		}
	}
	failed, waived := 0, 0
	for _, f := range audit.Findings {
		switch f.Status {
		case rules.Confirmed:
			failed++
		case rules.Waived:
			waived++
		}
	}
	states := map[State]int{}
	for _, c := range tests[len(tests)-1].list {
		states[c.State]++
	}
	if failed == 0 || states[Failed] != failed || states[Waived] != waived {
		t.Errorf("of an audit with %d confirmed and %d waived findings checks are %v", failed, waived, states)
	}
}

// A check is named by its finding's Ms, not by the octave of its fingerprint; a shifted finding keeps the
// fingerprint.
func TestChecksNameTheFindingsOwnRange(t *testing.T) {
	named := func(from, to int) Check {
		audit := fixtureAudit()
		f := audit.Findings[0]
		f.FromM, f.ToM = from, to
		audit.Findings = []rules.Finding{f}
		return OfAudit(fixtureMeta(), audit, func(rules.Finding) bool { return true }, false, false)[0]
	}
	first, shifted := named(304, 384), named(312, 384)
	if want := string(fixtureAudit().Findings[0].Rule) + " m304–384, " + first.Fingerprint; first.Name != want {
		t.Errorf("the check is named %q, expected %q", first.Name, want)
	}
	if first.Fingerprint != shifted.Fingerprint {
		t.Errorf("a row later the fingerprint is %s, it was %s", shifted.Fingerprint, first.Fingerprint)
	}
}
