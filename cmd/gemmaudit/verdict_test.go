package main

import (
	"io"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

func quietApp() *app { return newApp(nil, io.Discard, io.Discard, nil, nil) }

// A baseline that mostly could not decide has no verdict; its findings do not matter here.
func TestBaselineWithoutVerdict(t *testing.T) {
	for undecided, want := range map[int]string{0: "", 2: "", 3: "3 of 4 cases are undecided, more than 50 %"} {
		audit := &rules.Audit{Cases: 4, Undecided: undecided, Series: []rules.SeriesAudit{{Cases: 4, Rows: make([]rules.RowVerdict, 4)}},
			Findings: []rules.Finding{{Status: rules.Confirmed}},
			Judged:   []rules.Judged{{Rule: rules.Monotonic, Rows: 4, Decided: 4 - undecided, Undecided: undecided}}}
		if got := verdict.Undecided(audit); got != want {
			t.Errorf("%d undecided: %q, want %q", undecided, got, want)
		}
	}
}

func TestAuditVerdict(t *testing.T) {
	judged := func(cases, undecided int, status ...rules.Status) *rules.Audit {
		a := &rules.Audit{Run: "r.db", Cases: cases, Undecided: undecided, Tests: cases,
			Judged: []rules.Judged{{Rule: rules.Monotonic, Rows: cases, Decided: cases - undecided, Undecided: undecided}},
			Series: []rules.SeriesAudit{{Cases: cases, Rows: make([]rules.RowVerdict, cases)}}}
		for _, s := range status {
			a.Findings = append(a.Findings, rules.Finding{Status: s})
		}
		return a
	}
	untested := judged(4, 0)
	untested.Judged[0].Decided = 0
	lacking := func(status ...rules.Status) *rules.Audit { // most cases have no sample that counts
		a := judged(4, 0, status...)
		a.Series[0].Rows = a.Series[0].Rows[:1]
		return a
	}
	failed := &rules.Audit{Run: "r.db", Cases: 2, Series: []rules.SeriesAudit{{Cases: 2}}}
	drifted := func(status ...rules.Status) *rules.Audit {
		a := judged(4, 0, status...)
		a.Invalid = "drift of 20 %"
		return a
	}
	slowCard := func(invalid string) *rules.Audit {
		a := judged(4, 0)
		a.Invalid, a.Cards = invalid, &cards.Comparison{Outliers: []string{"cuda:1"}}
		return a
	}
	marginal := judged(4, 0)
	marginal.Marginal = 1
	confirmed, whatever, none := verdict.Gate{Kind: verdict.Confirmed}, verdict.Gate{Kind: verdict.Any}, verdict.Gate{Kind: verdict.None}
	tooFast := judged(4, 0, rules.Confirmed)
	tooFast.Findings[0].Cause = cause.MeasurementError
	tooFast.Findings[0].Rows = 1
	strict := verdict.Gate{Kind: verdict.Confirmed, Marginal: true}
	lost := verdict.Outdated{Path: "r.db", Why: []rules.Undone{{Key: "threshold", Old: "0.95", New: "0.9"}}}
	for _, tt := range []struct {
		name  string
		audit *rules.Audit
		gate  verdict.Gate
		lost  verdict.Outdated
		want  int

		missing int
	}{
		{"clean", judged(4, 0), confirmed, verdict.Outdated{}, exitClean, 0},
		{"unconfirmed", judged(4, 0, rules.Unconfirmed), confirmed, verdict.Outdated{}, exitClean, 0},
		{"any", judged(4, 0, rules.Unconfirmed), whatever, verdict.Outdated{}, exitGate, 0},
		{"confirmed", judged(4, 0, rules.Confirmed), confirmed, verdict.Outdated{}, exitGate, 0},
		{"faster than can be", tooFast, confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"faster than can be, any", tooFast, whatever, verdict.Outdated{}, exitInconclusive, 0},
		{"waived", judged(4, 0, rules.Waived), whatever, verdict.Outdated{}, exitClean, 0},
		{"no gate", judged(4, 0, rules.Confirmed), none, verdict.Outdated{}, exitClean, 0},
		{"undecided", judged(4, 3), confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"undecided, a finding", judged(4, 3, rules.Confirmed), confirmed, verdict.Outdated{}, exitGate, 0},
		{"undecided, no gate", judged(4, 3), none, verdict.Outdated{}, exitClean, 0},
		{"every case failed", failed, confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"an empty run", &rules.Audit{Run: "r.db"}, whatever, verdict.Outdated{}, exitInconclusive, 0},
		{"drift", drifted(), none, verdict.Outdated{}, exitInconclusive, 0},
		{"drift, nothing confirmed", drifted(rules.Unconfirmed), confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"drift, a finding", drifted(rules.Confirmed), confirmed, verdict.Outdated{}, exitGate, 0},
		{"drift, any finding", drifted(rules.Unconfirmed), whatever, verdict.Outdated{}, exitGate, 0},
		{"drift, a finding, no gate", drifted(rules.Confirmed), none, verdict.Outdated{}, exitInconclusive, 0},
		{"drift, a slow card", slowCard("drift of 20 %"), confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"a slow card", slowCard(""), confirmed, verdict.Outdated{}, exitGate, 0},
		{"marginal", marginal, confirmed, verdict.Outdated{}, exitClean, 0},
		{"marginal fails", marginal, strict, verdict.Outdated{}, exitGate, 0},
		{"no marginal row", judged(4, 0), strict, verdict.Outdated{}, exitClean, 0},
		{"proof undone", judged(4, 0, rules.Unconfirmed), confirmed, lost, exitInconclusive, 0},
		{"proof undone, a finding", judged(4, 0, rules.Confirmed), confirmed, lost, exitGate, 0},
		{"proof undone, no gate", judged(4, 0), none, lost, exitInconclusive, 0},
		{"nothing compared", untested, confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"nothing compared, no gate", untested, none, verdict.Outdated{}, exitClean, 0},
		{"undecided, an unconfirmed finding", judged(4, 3, rules.Unconfirmed), confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"undecided, any finding", judged(4, 3, rules.Unconfirmed), whatever, verdict.Outdated{}, exitGate, 0},
		{"undecided, a waived finding", judged(4, 3, rules.Waived), whatever, verdict.Outdated{}, exitInconclusive, 0},
		{"excluded", lacking(), confirmed, verdict.Outdated{}, exitInconclusive, 0},
		{"excluded, a finding", lacking(rules.Confirmed), confirmed, verdict.Outdated{}, exitGate, 0},
		{"unfinished", judged(4, 0), confirmed, verdict.Outdated{}, exitInconclusive, 5},
		{"nearly finished", judged(4, 0), confirmed, verdict.Outdated{}, exitInconclusive, 1},
		{"unfinished, a finding", judged(4, 0, rules.Confirmed), confirmed, verdict.Outdated{}, exitGate, 1},
		{"unfinished, no gate", judged(4, 0), none, verdict.Outdated{}, exitInconclusive, 1},
	} {
		held := outcome.Held{Coverage: results.Coverage{Asked: tt.audit.Cases + tt.missing, Held: tt.audit.Cases, Missing: tt.missing}}
		err := quietApp().conclude(tt.gate.Audit(tt.audit, held, tt.lost.Grounds(), nil))
		if got := exitCode(err); got != tt.want {
			t.Errorf("%s: exit code %d, expected %d: %v", tt.name, got, tt.want, err)
		}
	}
}

// Marginal cases must fail a comparison's gate with --fail-marginal.
func TestMarginalCasesOfADiff(t *testing.T) {
	d := &diff.Result{Same: 3, Cases: []diff.Case{{Change: change.Same}, {Change: change.AtThreshold}}}
	regression := &diff.Result{Slower: 1, Gate: true, Cases: []diff.Case{{Change: change.Slower}}}
	for _, tt := range []struct {
		name string
		diff *diff.Result
		opts diffOptions
		want int
	}{
		{"marginal", d, diffOptions{}, exitClean},
		{"marginal fails", d, diffOptions{gate: verdict.Gate{Marginal: true}}, exitGate},
		{"all marginal", &diff.Result{Cases: d.Cases[1:]}, diffOptions{}, exitClean},
		{"nothing decided", &diff.Result{Undecided: 1, Cases: []diff.Case{{Change: change.Open}}}, diffOptions{},
			exitInconclusive},
		{"most lost", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Lost: 4}, diffOptions{maxUndecided: 0.5},
			exitInconclusive},
		{"some lost", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Lost: 2}, diffOptions{maxUndecided: 0.5}, exitClean},
		{"one failed", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Lost: 1, Losses: outcome.Losses{Failed: 1}},
			diffOptions{maxUndecided: 0.5}, exitDevice},
		{"one missing", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Losses: outcome.Losses{Missing: 1}},
			diffOptions{maxUndecided: 0.5}, exitInconclusive},
		{"one missing, no gate", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Losses: outcome.Losses{Missing: 1}},
			diffOptions{gate: verdict.Gate{Kind: verdict.None}}, exitInconclusive},
		{"one missing, accepted", &diff.Result{Same: 3, Cases: make([]diff.Case, 3), Losses: outcome.Losses{Missing: 1}},
			diffOptions{gate: verdict.Gate{Accept: outcome.Accept{Missing: true}}, maxUndecided: 0.5}, exitClean},
		{"slower", regression, diffOptions{}, exitGate},
		{"slower, no gate", regression, diffOptions{gate: verdict.Gate{Kind: verdict.None}}, exitClean},
		{"invalid", &diff.Result{Invalid: "drift"}, diffOptions{gate: verdict.Gate{Kind: verdict.None}}, exitInconclusive},
	} {
		if got := exitCode(quietApp().conclude(tt.opts.evidence(tt.diff, make([]outcome.Held, 2)))); got != tt.want {
			t.Errorf("%s: exit code %d, expected %d", tt.name, got, tt.want)
		}
	}
}

func TestAllFailed(t *testing.T) {
	row := func(failed string, samples int) results.Row {
		return results.Row{Failed: failed, Samples: make([]results.Sample, samples)}
	}
	for _, tt := range []struct {
		name string
		rows []results.Row
		want bool
	}{
		{"nothing", nil, false},
		{"not measured yet", []results.Row{row("", 0)}, false},
		{"one failed", []results.Row{row("no memory", 0), row("", 3)}, false},
		{"failed later", []results.Row{row("lost", 2)}, false},
		{"all failed", []results.Row{row("no memory", 0), row("no memory", 0)}, true},
	} {
		if _, got := allFailed([]results.Series{{Rows: tt.rows}}); got != tt.want {
			t.Errorf("%s: %v, expected %v", tt.name, got, tt.want)
		}
	}
}
