package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Rule is the name of a rule, as in the rules file and on the command line.
type Rule string

// rule holds everything about one rule. Judging, the rules file, help texts, reports and docs/rules.md read it.
type rule struct {
	name Rule
	// meaning describes a size that breaks the rule, as a phrase without a period.
	meaning string
	// claim is the short text of a finding.
	claim string
	// help is a paragraph on how the rule judges.
	help string
	// settings are the rule's keys in the rules file except enabled, in the file's order.
	settings []setting
	enabled  func(*RuleSet) *bool
	// applies reports whether the rule judges a subject; nil means all.
	applies func(kernels.Subject) bool
	// judge judges the rows of one curve, parallel to its points.
	judge func(*Facts, *infer.Curve) []Judgement
	// suspect judges the points with too few samples for judge.
	suspect func(*suspicion, *infer.Curve) []Judgement
	// bound is the loss above which a row breaks the rule.
	bound func(Config, Finding) float64
	// cause explains a candidate that judge did not explain; nil tries the causes shared by all rules.
	cause func(*cause.Witness) (cause.Kind, string)
}

// ruleTable lists the rules in the order of judging and output. To add a rule, write a file like theirs, and
// add an entry here, a field of [RuleSet], and defaults in default.yaml.
var ruleTable = []rule{monotonicRule, splitRule, padRule, parityRule, routingRule, fusionRule, alternativeRule, rooflineRule}

// RuleSet switches rules and holds their settings.
type RuleSet struct {
	Monotonic   MonotonicConfig   `yaml:"monotonic"`
	Split       MarginConfig      `yaml:"split"`
	Pad         MarginConfig      `yaml:"pad"`
	Parity      ParityConfig      `yaml:"parity"`
	Routing     RoutingConfig     `yaml:"routing"`
	Fusion      MarginConfig      `yaml:"fusion"`
	Alternative AlternativeConfig `yaml:"alternative"`
	Roofline    RooflineConfig    `yaml:"roofline"`
}

// MarginConfig configures a rule by the smallest gain that counts, as a share.
type MarginConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
}

// AllRules lists the rules in the order of judging and output.
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

// Meaning describes a size that breaks the rule, as a phrase without a period; empty for an unknown rule.
func (r Rule) Meaning() string { return entryOf(r).meaning }

// Claim is the short text of a finding; empty for an unknown rule.
func (r Rule) Claim() string { return entryOf(r).claim }

// Help is a paragraph on how the rule judges; empty for an unknown rule.
func (r Rule) Help() string { return entryOf(r).help }

func entryOf(name Rule) rule {
	for _, r := range ruleTable {
		if r.name == name {
			return r
		}
	}
	return rule{}
}

// ParseRule reads a rule by name. The error lists the valid names.
func ParseRule(s string) (Rule, error) {
	if r := Rule(s); slices.Contains(AllRules(), r) {
		return r, nil
	}
	return "", fmt.Errorf("unknown rule %q: expected one of %s", s, RuleNames())
}

func (r rule) appliesTo(s kernels.Subject) bool { return r.applies == nil || r.applies(s) }

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
