package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is a key of the rules file that touches what a device has shown.
type setting struct {
	// key is its path, "remedy.margin"; in the entry of a rule what follows the rule's.
	key string
	// meaning says what the value is for, as half a sentence; of the rules' settings only.
	meaning string
	// rules are those whose findings the key touches, nil for all of them.
	rules []Rule
	// findings and remedies say which of the two it touches.
	findings, remedies bool
	value              func(Config) string
	// bounds words what the value may be, and check names what is wrong with it; path is
	// where it stands. Both are of the rules' settings only.
	bounds string
	check  func(path []string, c Config) error
}

// span is the numbers that a setting may be.
type span struct {
	lo, hi           float64
	openLo, openHigh bool
}

// closed is from lo to hi, both included; above leaves lo out, between both.
func closed(lo, hi float64) span  { return span{lo, hi, false, false} }
func above(lo, hi float64) span   { return span{lo, hi, true, false} }
func between(lo, hi float64) span { return span{lo, hi, true, true} }

// String words the bounds: "above 0 and at most 1".
func (i span) String() string {
	from, to := "at least", "at most"
	if i.openLo {
		from = "above"
	}
	if i.openHigh {
		to = "below"
	}
	return fmt.Sprintf("%s %v and %s %v", from, i.lo, to, i.hi)
}

// check returns an error when v, which stands at path, lies outside.
func (i span) check(path []string, v float64) error {
	if (v > i.lo || v == i.lo && !i.openLo) && (v < i.hi || v == i.hi && !i.openHigh) {
		return nil
	}
	return &fieldError{path, fmt.Sprintf(" is %v, expected %s", v, i)} // NaN, too
}

// number is a setting of a rule that touches its findings and is a number.
func number(key, meaning string, in span, at func(*Config) *float64) setting {
	return setting{
		key: key, meaning: meaning, findings: true, bounds: in.String(),
		value: func(c Config) string { return plain(*at(&c)) },
		check: func(path []string, c Config) error { return in.check(path, *at(&c)) },
	}
}

// commonSettings are the keys outside of the rules on which kept verdicts rest.
var commonSettings = []setting{
	{key: "method", findings: true, remedies: true, value: func(c Config) string { return c.Method }},
	{key: "threshold", rules: []Rule{Monotonic}, findings: true, remedies: true, value: func(c Config) string { return plain(c.Threshold) }},
	{key: "fdr", findings: true, remedies: true, value: func(c Config) string { return plain(c.FDR) }},
	{key: "confidence", findings: true, remedies: true, value: func(c Config) string { return plain(c.Confidence) }},
	{key: "clock_mhz", findings: true, remedies: true, value: func(c Config) string { return plain(c.ClockMHz) }},
	{key: "min_samples", findings: true, remedies: true, value: func(c Config) string { return strconv.Itoa(c.MinSamples) }},
	// The drift of a sweep that is past the bound takes stretches apart. What was
	// confirmed side by side stands whatever the sweep did.
	{key: "drift_bound", remedies: true, value: func(c Config) string { return plain(c.DriftBound) }},
	{key: "remedy.margin", remedies: true, value: func(c Config) string { return plain(c.Remedy.Margin) }},
	{key: "remedy.slower", remedies: true, value: func(c Config) string { return plain(c.Remedy.Slower) }},
	{key: "remedy.max_parts", remedies: true, value: func(c Config) string { return strconv.Itoa(c.Remedy.MaxParts) }},
}

// settings are the keys on which kept verdicts rest, those of the rules last. Every other
// key is applied to them as they are, or says how much is measured for them and not what
// comes out.
func settings() []setting {
	all := slices.Clone(commonSettings)
	for _, r := range ruleTable {
		for _, s := range r.settings {
			s.key, s.rules = "rules."+string(r.name)+"."+s.key, []Rule{r.name}
			all = append(all, s)
		}
	}
	return all
}

// plain words a number as briefly as it can be.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func list(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

// settingsOf are the values on which the findings of a rule rest.
func settingsOf(rule Rule, cfg Config) map[string]string {
	out := map[string]string{}
	for _, s := range settings() {
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
	for _, s := range settings() {
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
	for _, s := range settings() {
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
