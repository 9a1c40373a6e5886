package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is a key of the rules file that touches what a device has shown.
type setting struct {
	key string
	// rules are those whose findings the key touches, nil for all of them.
	rules []Rule
	// findings and remedies say which of the two it touches.
	findings, remedies bool
	value              func(Config) string
}

// settings are the keys on which kept verdicts rest. Every other key is applied to
// them as they are, or says how much is measured for them and not what comes out.
var settings = []setting{
	{"method", nil, true, true, func(c Config) string { return c.Method }},
	{"threshold", []Rule{Monotonic}, true, true, func(c Config) string { return number(c.Threshold) }},
	{"fdr", nil, true, true, func(c Config) string { return number(c.FDR) }},
	{"confidence", nil, true, true, func(c Config) string { return number(c.Confidence) }},
	{"clock_mhz", nil, true, true, func(c Config) string { return number(c.ClockMHz) }},
	{"min_samples", nil, true, true, func(c Config) string { return strconv.Itoa(c.MinSamples) }},
	// The drift of a sweep that is past the bound takes stretches apart. What was
	// confirmed side by side stands whatever the sweep did.
	{"drift_bound", nil, false, true, func(c Config) string { return number(c.DriftBound) }},
	{"remedy.margin", nil, false, true, func(c Config) string { return number(c.Remedy.Margin) }},
	{"remedy.slower", nil, false, true, func(c Config) string { return number(c.Remedy.Slower) }},
	{"remedy.max_parts", nil, false, true, func(c Config) string { return strconv.Itoa(c.Remedy.MaxParts) }},
	{"rules.split.margin", []Rule{SplitRule}, true, false, func(c Config) string { return number(c.Rules.Split.Margin) }},
	{"rules.pad.margin", []Rule{Pad}, true, false, func(c Config) string { return number(c.Rules.Pad.Margin) }},
	{"rules.parity.pairs", []Rule{Parity}, true, false, func(c Config) string {
		pairs := make([]string, len(c.Rules.Parity.Pairs))
		for i, p := range c.Rules.Parity.Pairs {
			pairs[i] = fmt.Sprintf("%s than %s %s", p.DType, p.Than, number(p.Ratio))
		}
		return list(pairs)
	}},
	{"rules.alternative.margin", []Rule{Alternative}, true, false, func(c Config) string { return number(c.Rules.Alternative.Margin) }},
	{"rules.alternative.exclude", []Rule{Alternative}, true, false, func(c Config) string { return list(c.Rules.Alternative.Exclude) }},
	{"rules.roofline.fraction", []Rule{Roofline}, true, false, func(c Config) string { return number(c.Rules.Roofline.Fraction) }},
	{"rules.roofline.tolerance", []Rule{Roofline}, true, false, func(c Config) string { return number(c.Rules.Roofline.Tolerance) }},
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func list(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

// settingsOf are the values on which the findings of a rule rest.
func settingsOf(rule Rule, cfg Config) map[string]string {
	out := map[string]string{}
	for _, s := range settings {
		if s.findings && (s.rules == nil || slices.Contains(s.rules, rule)) {
			out[s.key] = s.value(cfg)
		}
	}
	return out
}

// remedySettings are the values on which executed remedies rest. A search that had
// bounds of its own rests on these instead of the rules file's.
func remedySettings(cfg Config, o SplitOptions) map[string]string {
	out := map[string]string{}
	for _, s := range settings {
		switch {
		case !s.remedies:
		case s.key == "remedy.max_parts" && o.MaxParts != 0:
		case s.key == "threshold" && o.Among == AmongAll:
		default:
			out[s.key] = s.value(cfg)
		}
	}
	return out
}

// Undone says by which key kept proof no longer holds.
type Undone struct {
	// Key is a key of the rules file, or "samples" when the sweep has gone on since.
	Key string
	// Old is the value that the proof rests on, New the one that is asked for.
	Old, New string
	// Rules are those whose proof it is; nil for that of remedies.
	Rules []Rule
}

// String says what has changed: "threshold was 0.95 and is 0.9".
func (u Undone) String() string { return fmt.Sprintf("%s was %s and is %s", u.Key, u.Old, u.New) }

// changed lists the keys whose values differ, in the order of [settings].
func changed(was, is map[string]string) []Undone {
	var out []Undone
	for _, s := range settings {
		v, held := was[s.key]
		here, asked := is[s.key]
		if held && asked && v != here {
			out = append(out, Undone{Key: s.key, Old: v, New: here})
		} else if !held && asked {
			out = append(out, Undone{Key: s.key, Old: "not known", New: here})
		}
	}
	return out
}

// On lists the rules that are on, in the order of [AllRules].
func (c Config) On() []Rule {
	on := map[Rule]bool{Monotonic: c.Rules.Monotonic.Enabled, SplitRule: c.Rules.Split.Enabled, Pad: c.Rules.Pad.Enabled,
		Parity: c.Rules.Parity.Enabled, Alternative: c.Rules.Alternative.Enabled, Roofline: c.Rules.Roofline.Enabled}
	return slices.DeleteFunc(AllRules(), func(r Rule) bool { return !on[r] })
}
