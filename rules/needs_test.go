package rules

// need is something that rules need from a run in addition to the judged row.
type need struct {
	name string
	// without is the outcome for a row that lacks it, by rule; rules that do not need it are absent.
	without map[Rule]string
}

func everyRule(without string) map[Rule]string {
	out := map[Rule]string{}
	for _, r := range AllRules() {
		out[r] = without
	}
	return out
}

func needs() []need {
	return []need{
		{"5 samples", everyRule("suspected")},
		{"clock", everyRule("judged by observed time")},
		{"peak", map[Rule]string{Roofline: "not applied"}},
		{"neighbours", map[Rule]string{Monotonic: "unjudged (a smaller M)", SplitRule: "unjudged (two M with this sum)",
			Pad: "unjudged (a larger M)"}},
		{"other kernel", map[Rule]string{Alternative: "unjudged", Parity: "unjudged (another type or weights)",
			Fusion: "unjudged (the parts)"}},
	}
}
