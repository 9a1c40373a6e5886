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

// TestTheTableOfRulesIsWhole holds the entries against the rules file: every rule is a key
// of it, and every key below a rule is a setting of the rule's entry.
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

// TestRulesPage keeps docs/rules.md what the tables say; -update writes it.
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
		t.Errorf("%s is not what the tables say; run with -update to write it\n%s", path, page)
	}
}

// rulesPage words the tables of rules and causes.
func rulesPage() string {
	var b strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	write("<!-- Written by `go test ./rules -run TestRulesPage -update` from the tables in rules/. -->")
	write("# Rules and causes\n")
	write("A finding is an interval of rows that breaks one rule. All rules are on unless a rules file says")
	write("`enabled: false`; `gemmaudit audit --rule` chooses some. `go doc ./rules` specifies the verdicts and")
	write("the rest of the rules file.\n")
	write("## What a run can see\n")
	write("Every run has a resolution, printed as `differences below 12 %% cannot be seen on this machine now` and as the field")
	write("`resolution` in JSON. It follows from how samples scatter, from their number, and from drift of the sentinels that is not")
	write("explained. A loss that exceeds it is judged, a smaller one leaves its row undecided. A run is invalid only where its resolution is")
	write("coarser than `drift_bound`. Where noise only delays, a row's time is the 20th percentile of its samples, not their centre: the field")
	write("`scatter` holds the test's result and the choice. Time that other work took from a block is subtracted where it is known.\n")
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
	write("What happens to a row without it. A row that is suspected, unjudged or not applied to is never counted as clean.\n")
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
	write("| cause | meaning |\n| --- | --- |")
	for _, c := range causeTable {
		write("| %s | %s |", c.name, c.meaning)
	}
	return b.String()
}
