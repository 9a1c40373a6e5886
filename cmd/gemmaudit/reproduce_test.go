package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gemmaudit/gemmaudit/rules"
)

// reproduceFinding runs the command of a rule's first finding in a shell, as printed but on the simulated
// device. It requires the finding's status in a new audit and the exit code of its gate: reproduce RUN RULE
// STATUS [FLAG...].
func reproduceFinding(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: reproduce RUN RULE STATUS [FLAG...]")
	}
	find := func(run string, flags ...string) *rules.Finding {
		words := append([]string{"audit", run, "--rule", args[1], "--gate", "none", "-o", "json"}, flags...)
		ts.Check(ts.Exec("gemmaudit-sim", words...))
		var audit rules.Audit
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &audit))
		i := slices.IndexFunc(audit.Findings, func(f rules.Finding) bool { return string(f.Rule) == args[1] })
		if i < 0 {
			return nil
		}
		return &audit.Findings[i]
	}
	f := find(args[0], args[3:]...)
	if f == nil {
		ts.Fatalf("%s has no finding of %s", args[0], args[1])
	}
	want := "<nil>"
	if args[2] == string(rules.Confirmed) {
		want = "exit status 1"
	}
	if got := fmt.Sprint(ts.Exec("sh", "-c", strings.ReplaceAll(f.Reproduce, "gemmaudit ", "gemmaudit-sim "))); got != want {
		ts.Fatalf("%s: %s, expected %s", f.Reproduce, got, want)
	}
	again := find(fmt.Sprintf("%s-m%d.db", f.Rule, f.WorstM), args[3:]...)
	if again == nil || string(again.Status) != args[2] || again.Series != f.Series || again.WorstM != f.WorstM {
		ts.Fatalf("%s found %+v, expected %s of m%d of %s", f.Reproduce, again, args[2], f.WorstM, f.Series)
	}
}
