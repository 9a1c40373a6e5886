package main

import (
	"io"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// quietApp is one whose streams lead nowhere.
func quietApp() *app { return newApp(nil, io.Discard, io.Discard, nil, nil) }

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
		a.Invalid, a.Cards = invalid, &rules.Cards{Outliers: []string{"cuda:1"}}
		return a
	}
	marginal := judged(4, 0)
	marginal.Marginal = 1
	confirmed, whatever, none := auditGate{findings: gateConfirmed}, auditGate{findings: gateAny}, auditGate{findings: gateNone}
	strict := auditGate{findings: gateConfirmed, marginal: true}
	lost := undone{path: "r.db", why: []rules.Undone{{Key: "threshold", Old: "0.95", New: "0.9"}}}
	for _, tt := range []struct {
		name  string
		audit *rules.Audit
		gate  auditGate
		lost  undone
		want  int

		missing int
	}{
		{"clean", judged(4, 0), confirmed, undone{}, exitClean, 0},
		{"unconfirmed", judged(4, 0, rules.Unconfirmed), confirmed, undone{}, exitClean, 0},
		{"any", judged(4, 0, rules.Unconfirmed), whatever, undone{}, exitGate, 0},
		{"confirmed", judged(4, 0, rules.Confirmed), confirmed, undone{}, exitGate, 0},
		{"waived", judged(4, 0, rules.Waived), whatever, undone{}, exitClean, 0},
		{"no gate", judged(4, 0, rules.Confirmed), none, undone{}, exitClean, 0},
		{"undecided", judged(4, 3), confirmed, undone{}, exitInconclusive, 0},
		{"undecided, a finding", judged(4, 3, rules.Confirmed), confirmed, undone{}, exitGate, 0},
		{"undecided, no gate", judged(4, 3), none, undone{}, exitClean, 0},
		{"every case failed", failed, confirmed, undone{}, exitInconclusive, 0},
		{"an empty run", &rules.Audit{Run: "r.db"}, whatever, undone{}, exitInconclusive, 0},
		{"drift", drifted(), none, undone{}, exitInconclusive, 0},
		{"drift, nothing confirmed", drifted(rules.Unconfirmed), confirmed, undone{}, exitInconclusive, 0},
		{"drift, a finding", drifted(rules.Confirmed), confirmed, undone{}, exitGate, 0},
		{"drift, any finding", drifted(rules.Unconfirmed), whatever, undone{}, exitGate, 0},
		{"drift, a finding, no gate", drifted(rules.Confirmed), none, undone{}, exitInconclusive, 0},
		{"drift, a slow card", slowCard("drift of 20 %"), confirmed, undone{}, exitInconclusive, 0},
		{"a slow card", slowCard(""), confirmed, undone{}, exitGate, 0},
		{"marginal", marginal, confirmed, undone{}, exitClean, 0},
		{"marginal fails", marginal, strict, undone{}, exitGate, 0},
		{"no marginal row", judged(4, 0), strict, undone{}, exitClean, 0},
		{"proof undone", judged(4, 0, rules.Unconfirmed), confirmed, lost, exitInconclusive, 0},
		{"proof undone, a finding", judged(4, 0, rules.Confirmed), confirmed, lost, exitGate, 0},
		{"proof undone, no gate", judged(4, 0), none, lost, exitInconclusive, 0},
		{"nothing compared", untested, confirmed, undone{}, exitInconclusive, 0},
		{"nothing compared, no gate", untested, none, undone{}, exitClean, 0},
		{"undecided, an unconfirmed finding", judged(4, 3, rules.Unconfirmed), confirmed, undone{}, exitInconclusive, 0},
		{"undecided, any finding", judged(4, 3, rules.Unconfirmed), whatever, undone{}, exitGate, 0},
		{"undecided, a waived finding", judged(4, 3, rules.Waived), whatever, undone{}, exitInconclusive, 0},
		{"excluded", lacking(), confirmed, undone{}, exitInconclusive, 0},
		{"excluded, a finding", lacking(rules.Confirmed), confirmed, undone{}, exitGate, 0},
		{"unfinished", judged(4, 0), confirmed, undone{}, exitInconclusive, 5},
		{"nearly finished", judged(4, 0), confirmed, undone{}, exitInconclusive, 1},
		{"unfinished, a finding", judged(4, 0, rules.Confirmed), confirmed, undone{}, exitGate, 1},
		{"unfinished, no gate", judged(4, 0), none, undone{}, exitInconclusive, 1},
	} {
		held := rules.Held{Coverage: results.Coverage{Asked: tt.audit.Cases + tt.missing, Held: tt.audit.Cases, Missing: tt.missing}}
		err := quietApp().conclude(tt.gate.evidence(tt.audit, held, tt.lost, nil))
		if got := exitCode(err); got != tt.want {
			t.Errorf("%s: exit code %d, expected %d: %v", tt.name, got, tt.want, err)
		}
	}
}

// TestMarginalCasesOfADiff: they fail the gate of a comparison when they are told to.
func TestMarginalCasesOfADiff(t *testing.T) {
	d := &rules.DiffResult{Same: 3, Cases: []rules.CaseDiff{{Change: rules.Same}, {Change: rules.AtThreshold}}}
	regression := &rules.DiffResult{Slower: 1, Gate: true, Cases: []rules.CaseDiff{{Change: rules.Slower}}}
	for _, tt := range []struct {
		name string
		diff *rules.DiffResult
		opts diffOptions
		want int
	}{
		{"marginal", d, diffOptions{}, exitClean},
		{"marginal fails", d, diffOptions{gate: changeGate{marginal: true}}, exitGate},
		{"all marginal", &rules.DiffResult{Cases: d.Cases[1:]}, diffOptions{}, exitClean},
		{"nothing decided", &rules.DiffResult{Undecided: 1, Cases: []rules.CaseDiff{{Change: rules.Open}}}, diffOptions{}, exitInconclusive},
		{"most lost", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Lost: 4}, diffOptions{maxUndecided: 0.5}, exitInconclusive},
		{"some lost", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Lost: 2}, diffOptions{maxUndecided: 0.5}, exitClean},
		{"one failed", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Lost: 1, Losses: rules.Losses{Failed: 1}}, diffOptions{maxUndecided: 0.5}, exitDevice},
		{"one missing", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Losses: rules.Losses{Missing: 1}}, diffOptions{maxUndecided: 0.5}, exitInconclusive},
		{"one missing, no gate", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Losses: rules.Losses{Missing: 1}}, diffOptions{gate: changeGate{changes: gateNone}}, exitInconclusive},
		{"one missing, accepted", &rules.DiffResult{Same: 3, Cases: make([]rules.CaseDiff, 3), Losses: rules.Losses{Missing: 1}},
			diffOptions{gate: changeGate{accept: rules.Accept{Missing: true}}, maxUndecided: 0.5}, exitClean},
		{"slower", regression, diffOptions{}, exitGate},
		{"slower, no gate", regression, diffOptions{gate: changeGate{changes: gateNone}}, exitClean},
		{"invalid", &rules.DiffResult{Invalid: "drift"}, diffOptions{gate: changeGate{changes: gateNone}}, exitInconclusive},
	} {
		if got := exitCode(quietApp().conclude(tt.opts.evidence(tt.diff, make([]rules.Held, 2)))); got != tt.want {
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
