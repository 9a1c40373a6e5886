package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Rule is the name of a rule, as in the rules file and on the command line.
type Rule string

// rule is everything that belongs to one rule, in one place: judging, the rules file,
// help texts, reports and docs/rules.md read it here.
type rule struct {
	name Rule
	// meaning is what a row does that breaks the rule, as half a sentence.
	meaning string
	// claim is what a finding says, to one who reads the first of them.
	claim string
	// help says in a paragraph how the rule judges.
	help string
	// settings are the rule's keys in the rules file beside enabled, in the file's order.
	settings []setting
	enabled  func(*RuleSet) *bool
	// applies says to which subjects the rule does; nil is to all.
	applies func(kernels.Subject) bool
	// judge judges the rows of one curve, parallel to its points.
	judge func(*evidence, *curve) []judgement
	// suspect judges those of its points that have too few samples for judge.
	suspect func(*suspicion, *curve) []judgement
	// bound is the loss from which on a finding's row breaks the rule.
	bound func(Config, Finding) float64
	// cause explains a candidate of which the judge itself did not say why; nil looks for
	// the causes that every rule shares.
	cause func(*witness) (Cause, string)
}

// ruleTable lists the rules in the order in which they are judged and shown. Another rule is
// a file like theirs, an entry here, a field of [RuleSet], and its defaults in default.yaml.
var ruleTable = []rule{monotonicRule, splitRule, padRule, parityRule, alternativeRule, rooflineRule}

// RuleSet switches rules and holds their settings.
type RuleSet struct {
	Monotonic   MonotonicConfig   `yaml:"monotonic"`
	Split       MarginConfig      `yaml:"split"`
	Pad         MarginConfig      `yaml:"pad"`
	Parity      ParityConfig      `yaml:"parity"`
	Alternative AlternativeConfig `yaml:"alternative"`
	Roofline    RooflineConfig    `yaml:"roofline"`
}

// MarginConfig is a rule with a gain, as a share, that it must find.
type MarginConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
}

// AllRules lists the rules in the order in which they are judged and shown.
func AllRules() []Rule {
	names := make([]Rule, len(ruleTable))
	for i, r := range ruleTable {
		names[i] = r.name
	}
	return names
}

// RuleNames are the names of all rules in the order of [AllRules]: "monotonic, split, pad".
func RuleNames() string { return RuleList(AllRules()) }

// RuleList names rules: "monotonic, split".
func RuleList(list []Rule) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// Meaning is what a row does that breaks the rule, as half a sentence; empty for an
// unknown rule.
func (r Rule) Meaning() string { return entryOf(r).meaning }

// Claim is what a finding of the rule says, as half a sentence; empty for an unknown rule.
func (r Rule) Claim() string { return entryOf(r).claim }

// Help says in a paragraph how the rule judges; empty for an unknown rule.
func (r Rule) Help() string { return entryOf(r).help }

// entryOf is the entry of a rule; an empty one of a name that is none.
func entryOf(name Rule) rule {
	for _, r := range ruleTable {
		if r.name == name {
			return r
		}
	}
	return rule{}
}

// ParseRule reads a rule by name. The error lists what was expected.
func ParseRule(s string) (Rule, error) {
	if r := Rule(s); slices.Contains(AllRules(), r) {
		return r, nil
	}
	return "", fmt.Errorf("unknown rule %q: expected one of %s", s, RuleNames())
}

// appliesTo says whether the rule judges curves of a subject.
func (r rule) appliesTo(s kernels.Subject) bool { return r.applies == nil || r.applies(s) }

// on says whether the rule is switched on.
func (r rule) on(c Config) bool { return *r.enabled(&c.Rules) }

// On lists the rules that are on, in the order of [AllRules].
func (c Config) On() []Rule {
	var names []Rule
	for _, r := range ruleTable {
		if r.on(c) {
			names = append(names, r.name)
		}
	}
	return names
}

// Only returns c with the given rules switched on and all others off.
func (c Config) Only(on ...Rule) Config {
	for _, r := range ruleTable {
		*r.enabled(&c.Rules) = slices.Contains(on, r.name)
	}
	return c
}
