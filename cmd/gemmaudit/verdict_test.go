package main

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

func TestAuditVerdict(t *testing.T) {
	judged := func(cases, undecided int, status ...rules.Status) *rules.Audit {
		a := &rules.Audit{Run: "r.db", Cases: cases, Undecided: undecided,
			Series: []rules.SeriesAudit{{Cases: cases, Rows: make([]rules.RowVerdict, cases)}}}
		for _, s := range status {
			a.Findings = append(a.Findings, rules.Finding{Status: s})
		}
		return a
	}
	failed := &rules.Audit{Run: "r.db", Cases: 2, Series: []rules.SeriesAudit{{Cases: 2}}}
	for _, tt := range []struct {
		name  string
		audit *rules.Audit
		gate  string
		want  int
	}{
		{"clean", judged(4, 0), gateConfirmed, exitClean},
		{"unconfirmed", judged(4, 0, rules.Unconfirmed), gateConfirmed, exitClean},
		{"any", judged(4, 0, rules.Unconfirmed), gateAny, exitGate},
		{"confirmed", judged(4, 0, rules.Confirmed), gateConfirmed, exitGate},
		{"no gate", judged(4, 0, rules.Confirmed), gateNone, exitClean},
		{"undecided", judged(4, 3), gateConfirmed, exitInconclusive},
		{"every case failed", failed, gateConfirmed, exitInconclusive},
		{"an empty run", &rules.Audit{Run: "r.db"}, gateAny, exitInconclusive},
		{"drift", &rules.Audit{Invalid: "drift of 20 %"}, gateNone, exitInconclusive},
	} {
		if got := exitCode(auditVerdict(tt.audit, tt.gate)); got != tt.want {
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
