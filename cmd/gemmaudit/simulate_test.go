package main

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/trust"
)

func TestTrustVerdict(t *testing.T) {
	broken := trust.Rate{Kind: "clock", Measure: trust.MissedRows, Count: trust.Count{Hits: 9, Of: 100}, Upper: 0.1519, Bound: 0.05}
	thin := trust.Rate{Kind: "quiet", Measure: trust.FalseRows, Count: trust.Count{Of: 20}, Upper: 0.1391, Bound: 0.05}
	for _, c := range []struct {
		name   string
		result trust.Result
		code   int
		text   string
	}{
		{"kept", trust.Result{}, exitClean, ""},
		{"broken", trust.Result{Broken: []trust.Rate{broken}, Thin: []trust.Rate{thin}}, exitGate,
			"1 rate exceeds its bound: missed-rows under clock is 9 of 100, bound 5.00 %"},
		{"several", trust.Result{Broken: []trust.Rate{broken, broken, broken}}, exitGate,
			"3 rates exceed their bounds: missed-rows under clock is 9 of 100, bound 5.00 %, and 2 more"},
		{"thin", trust.Result{Thin: []trust.Rate{thin}}, exitInconclusive,
			"1 rate has too few machines for a comparison with the bound: false-rows under quiet has a count of 20"},
	} {
		err := quietApp().conclude(c.result.Evidence())
		if code := exitCode(err); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		if c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.text)
		}
	}
}
