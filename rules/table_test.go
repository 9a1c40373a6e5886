package rules

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every rule, and every key below it, must be both in the rules file and in the table.
func TestTheTableOfRulesIsWhole(t *testing.T) {
	keys := map[string][]string{}
	typ := reflect.TypeFor[RuleSet]()
	for i := range typ.NumField() {
		rule := typ.Field(i).Tag.Get("yaml")
		keys[rule] = nil
		for k := range typ.Field(i).Type.NumField() {
			if key := typ.Field(i).Type.Field(k).Tag.Get("yaml"); key != "enabled" {
				keys[rule] = append(keys[rule], key)
			}
		}
	}
	if len(keys) != len(ruleTable) {
		t.Errorf("%d rules in the rules file, %d in the table", len(keys), len(ruleTable))
	}
	defaults := Default()
	for _, r := range ruleTable {
		if r.meaning == "" || r.claim == "" || r.help == "" || r.judge == nil || r.bound == nil {
			t.Errorf("%s: the entry is not whole: %+v", r.name, r)
		}
		var own []string
		for _, s := range r.settings {
			own = append(own, s.key)
			if s.meaning == "" || s.value(defaults) == "" {
				t.Errorf("%s.%s has no meaning or no default", r.name, s.key)
			}
		}
		if want, known := keys[string(r.name)]; !known || !slices.Equal(own, want) {
			t.Errorf("%s: settings %v, in the rules file %v", r.name, own, want)
		}
		if !r.on(defaults) {
			t.Errorf("%s is off by default", r.name)
		}
		only := defaults.Only(r.name)
		if got := only.On(); !slices.Equal(got, []Rule{r.name}) {
			t.Errorf("%s alone: %v", r.name, got)
		}
		if parsed, err := ParseRule(string(r.name)); err != nil || parsed != r.name {
			t.Errorf("%s is read as %q: %v", r.name, parsed, err)
		}
	}
	if got := defaults.On(); !slices.Equal(got, AllRules()) {
		t.Errorf("on by default: %v", got)
	}
}

func TestRulesPage(t *testing.T) {
	const path = "../docs/rules.md"
	page := rulesPage()
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if page != string(want) {
		t.Errorf("%s differs from the tables; run with -update to write it\n%s", path, page)
	}
}

func rulesPage() string {
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	write("<!-- Written by `go test ./rules -run TestRulesPage -update` from rules/. -->")
	write("# Rules\n")
	write("A rule compares each size with another size, kernel or data type, or with the roofline. A finding is a range of M that breaks")
	write("one rule. `--along` compares along N, K, columns or scale instead, the default for one M with 6 such")
	write("sizes. All rules are on by default. Turn one off with `enabled: false` in a rules file, or choose some with")
	write("`gemmaudit audit --rule`. [glossary.md](glossary.md) explains verdicts, statuses and causes.\n")
	write("```yaml")
	write("# rules.yaml, for gemmaudit audit run.db --rules rules.yaml")
	write("threshold: 0.9          # monotonic: smallest allowed share of the best MFU at smaller M")
	write("rules:")
	write("  split: {margin: 0.1}  # a split must gain 10 %%")
	write("  pad: {enabled: false}")
	write("waivers:")
	write("  - {rule: roofline, series: \"cpu/*\", m: 8-64, reason: known, expires: 2030-01-31}")
	write("```\n")
	write("`gemmaudit rules print` shows all keys with their defaults, and `gemmaudit rules check FILE` checks a file.\n")
	write("## Smallest detectable loss\n")
	write("Each run has a resolution: the smallest loss that it can detect. It depends on the variation of the samples, their number, and")
	write("drift. JSON has it as `resolution`. A larger loss is judged, and a smaller one is undecided. A run is invalid if its resolution")
	write("or its drift exceeds `drift_bound`.\n")
	write("If noise only delays samples, the time of a size is their 20th percentile, otherwise their center. JSON has the result of this")
	write("test as `scatter`. Time that other work took from a sample is subtracted if it is known.\n")
	write("## Rules")
	for _, r := range ruleTable {
		write("\n### %s\n", r.name)
		write("%s%s. %s", strings.ToUpper(r.meaning[:1]), r.meaning[1:], r.help)
		if len(r.settings) == 0 {
			continue
		}
		write("\n| key | default | values | meaning |\n| --- | --- | --- | --- |")
		for _, s := range r.settings {
			write("| `rules.%s.%s` | `%s` | %s | %s |", r.name, s.key, s.value(Default()), s.bounds, s.meaning)
		}
	}
	write("\n## What a rule needs\n")
	write("The table shows the outcome for a size if the run lacks something. Such a size never counts as clean, except with")
	write("`judged by observed time`.\n")
	head, line := "| rule |", "| --- |"
	for _, n := range needs() {
		head, line = head+" "+n.name+" |", line+" --- |"
	}
	write("%s\n%s", head, line)
	for _, r := range AllRules() {
		row := fmt.Sprintf("| %s |", r)
		for _, n := range needs() {
			row += " " + cmp.Or(n.without[r], "not needed") + " |"
		}
		write("%s", row)
	}
	write("\n## Causes\n")
	write("The program tests the possible causes of a finding and excludes those that do not fit. [glossary.md](glossary.md#causes)")
	write("explains each cause.")
	return b.String()
}
