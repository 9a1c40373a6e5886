package rules

// need is what rules need of a run beyond the row that is judged.
type need struct {
	name string
	// without is what happens to a row that lacks it, by rule; a rule that does not need it is not there.
	without map[Rule]string
}

// everyRule is the same for all rules.
func everyRule(without string) map[Rule]string {
	out := map[Rule]string{}
	for _, r := range AllRules() {
		out[r] = without
	}
	return out
}

// needs are the needs of all rules, for the documentation.
func needs() []need {
	return []need{
		{"5 samples", everyRule("suspected")},
		{"clock", everyRule("judged as observed")},
		{"peak", map[Rule]string{Roofline: "not applied"}},
		{"neighbours", map[Rule]string{Monotonic: "unjudged (a smaller M)", SplitRule: "unjudged (two M of that sum)", Pad: "unjudged (a larger M)"}},
		{"other kernel", map[Rule]string{Alternative: "unjudged", Parity: "unjudged (another type or weights)"}},
	}
}
