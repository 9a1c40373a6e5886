package rules

// rule is everything that belongs to one rule, in one place: the judge, the rules file,
// the help texts and the report read it here.
type rule struct {
	name Rule
	// meaning is what a row does that breaks the rule, as half a sentence.
	meaning string
	// settings are the rule's keys in the rules file beside enabled.
	settings []string
	on       func(RuleSet) bool
	// judge judges the rows of one curve, parallel to its points.
	judge func(*family, *curve) []judgement
	// bound is the loss from which on a finding's row breaks the rule.
	bound func(Config, Finding) float64
	// cause explains a candidate of which the judge itself did not say why; nil looks for
	// the causes that every rule shares.
	cause func(*witness) (Cause, string)
}

// ruleTable lists the rules in the order in which they are judged and shown.
var ruleTable = []rule{
	{
		name: Monotonic, meaning: "MFU falls below threshold × what a smaller M reached",
		on:    func(s RuleSet) bool { return s.Monotonic.Enabled },
		judge: (*family).monotonic,
		bound: func(c Config, _ Finding) float64 { return 1 - c.Threshold },
	},
	{
		name: SplitRule, meaning: "two launches of N1 + N2 = N rows take less time than one of N",
		settings: []string{"margin"},
		on:       func(s RuleSet) bool { return s.Split.Enabled },
		judge:    (*family).split,
		bound:    func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Split.Margin) },
	},
	{
		name: Pad, meaning: "a larger M takes less time",
		settings: []string{"margin"},
		on:       func(s RuleSet) bool { return s.Pad.Enabled },
		judge:    (*family).pad,
		bound:    func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Pad.Margin) },
	},
	{
		name: Parity, meaning: "one data type takes longer than it should beside another",
		settings: []string{"pairs"},
		on:       func(s RuleSet) bool { return s.Parity.Enabled },
		judge:    (*family).parity,
		bound:    parityBound,
		cause:    (*witness).parity,
	},
	{
		name: Alternative, meaning: "another kernel of the device is faster at the same product",
		settings: []string{"margin", "exclude"},
		on:       func(s RuleSet) bool { return s.Alternative.Enabled },
		judge:    (*family).alternative,
		bound:    func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Alternative.Margin) },
		cause:    (*witness).alternative,
	},
	{
		name: Roofline, meaning: "the rate is far below min(peak, intensity × bandwidth), or above what can be",
		settings: []string{"fraction", "tolerance"},
		on:       func(s RuleSet) bool { return s.Roofline.Enabled },
		judge:    (*family).roofline,
		bound:    func(c Config, _ Finding) float64 { return 1 - c.Rules.Roofline.Fraction },
	},
}

// AllRules lists the rules in the order in which they are judged and shown.
func AllRules() []Rule {
	names := make([]Rule, len(ruleTable))
	for i, r := range ruleTable {
		names[i] = r.name
	}
	return names
}

// Meaning is what a row does that breaks the rule, as half a sentence; empty for an
// unknown rule.
func (r Rule) Meaning() string { return entryOf(r).meaning }

// entryOf is the entry of a rule; an empty one of a name that is none.
func entryOf(name Rule) rule {
	for _, r := range ruleTable {
		if r.name == name {
			return r
		}
	}
	return rule{}
}
