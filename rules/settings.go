package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// setting is a key of the rules file that affects kept verdicts.
type setting struct {
	// key is its path, "remedy.margin"; in a rule's entry, the part after the rule's own path.
	key string
	// meaning is a phrase that describes the value; set for the rules' settings only.
	meaning string
	// rules are the rules whose findings the key affects, nil for all.
	rules []Rule
	// findings and remedies are true if it affects them.
	findings, remedies bool
	value              func(Config) string
	// optional keys are kept only if they differ from usual: earlier runs lack them.
	optional bool
	usual    string
	// bounds describes the valid values, and check returns an error for others; path is the value's place in
	// the file. Both are set for the rules' settings only.
	bounds string
	check  func(path []string, c Config) error
}

type span struct {
	lo, hi           float64
	openLo, openHigh bool
}

// closed includes both ends; above excludes lo, between excludes both.
func closed(lo, hi float64) span  { return span{lo, hi, false, false} }
func above(lo, hi float64) span   { return span{lo, hi, true, false} }
func between(lo, hi float64) span { return span{lo, hi, true, true} }

// String is the range in words: "above 0 and at most 1".
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

func (i span) check(path []string, v float64) error {
	if (v > i.lo || v == i.lo && !i.openLo) && (v < i.hi || v == i.hi && !i.openHigh) {
		return nil
	}
	return &fieldError{path, fmt.Sprintf(" is %v, expected %s", v, i)} // NaN, too
}

func number(key, meaning string, in span, at func(*Config) *float64) setting {
	return setting{
		key: key, meaning: meaning, findings: true, bounds: in.String(),
		value: func(c Config) string { return plain(*at(&c)) },
		check: func(path []string, c Config) error { return in.check(path, *at(&c)) },
	}
}

// commonSettings are the keys outside of the rules that kept verdicts depend on.
var commonSettings = []setting{
	{key: "method", findings: true, remedies: true, value: func(c Config) string { return c.Method }},
	{key: "along", optional: true, usual: infer.AlongAuto, findings: true, remedies: true, value: func(c Config) string { return c.Along }},
	{key: "threshold", rules: []Rule{Monotonic}, findings: true, remedies: true,
		value: func(c Config) string { return plain(c.Threshold) }},
	{key: "fdr", findings: true, remedies: true, value: func(c Config) string { return plain(c.FDR) }},
	{key: "confidence", findings: true, remedies: true, value: func(c Config) string { return plain(c.Confidence) }},
	{key: "clock_mhz", findings: true, remedies: true, value: func(c Config) string { return plain(c.ClockMHz) }},
	{key: "min_samples", findings: true, remedies: true, value: func(c Config) string { return strconv.Itoa(c.MinSamples) }},
	// A sweep with too much drift invalidates the rows between executed ones, but not findings, which were
	// confirmed side by side.
	{key: "drift_bound", remedies: true, value: func(c Config) string { return plain(c.DriftBound) }},
	{key: "remedy.margin", remedies: true, value: func(c Config) string { return plain(c.Remedy.Margin) }},
	{key: "remedy.slower", remedies: true, value: func(c Config) string { return plain(c.Remedy.Slower) }},
	{key: "remedy.max_parts", remedies: true, value: func(c Config) string { return strconv.Itoa(c.Remedy.MaxParts) }},
}

// settings are the keys that kept verdicts depend on, the rules' last. Every other key either applies to kept
// verdicts without undoing them, or controls only how much is measured.
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

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func list(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

func settingsOf(rule Rule, cfg Config) map[string]string {
	out := map[string]string{}
	for _, s := range settings() {
		if v := s.value(cfg); s.findings && (s.rules == nil || slices.Contains(s.rules, rule)) && !(s.optional && v == s.usual) {
			out[s.key] = v
		}
	}
	return out
}

// RemedySettings are the values of the keys that executed remedies depend on, but for the keys replaced.
func RemedySettings(cfg Config, replaced ...string) map[string]string {
	out := map[string]string{}
	for _, s := range settings() {
		v := s.value(cfg)
		if s.remedies && !slices.Contains(replaced, s.key) && !(s.optional && v == s.usual) {
			out[s.key] = v
		}
	}
	return out
}

// Undone is a key whose change undoes kept proof.
type Undone struct {
	// Key is a key of the rules file, or "samples" if the sweep has continued since.
	Key string
	// Old is the value that the proof rests on, New the current one.
	Old, New string
	// Rules are the rules whose proof is undone; nil for remedies.
	Rules []Rule
}

// String describes the change: "threshold was 0.95 and is 0.9".
func (u Undone) String() string { return fmt.Sprintf("%s was %s and is %s", u.Key, u.Old, u.New) }

// Changed lists the settings that differ between two records of their values.
func Changed(was, is map[string]string) []Undone {
	var out []Undone
	for _, s := range settings() {
		v, held := was[s.key]
		here, asked := is[s.key]
		if s.optional {
			v, here, held, asked = cmp.Or(v, s.usual), cmp.Or(here, s.usual), true, true
		}
		if held && asked && v != here {
			out = append(out, Undone{Key: s.key, Old: v, New: here})
		} else if !held && asked {
			out = append(out, Undone{Key: s.key, Old: "not known", New: here})
		}
	}
	return out
}
