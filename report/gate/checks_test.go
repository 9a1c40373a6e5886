package gate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
)

// everyCheck has a check in each state, with text that each format must escape.
func everyCheck() *Checks {
	at := func(state State, name string) Check {
		return Check{State: state, Rule: "monotonic", Subject: "Card X/lib/bf16/n4096 k4096 nk", Name: name,
			Fingerprint: baseline.Fingerprint(name), Text: name + " loses 12 %"}
	}
	known := at(Noted, "monotonic m48–64")
	known.Baseline, known.Next = rules.BaselineKnown, "it is in the baseline a.db"
	grown := at(Failed, "monotonic m96–112")
	grown.Baseline, grown.Command = rules.BaselineGrown, "gemmaudit sweep --batch 96,64"
	waived := at(Waived, "monotonic m384–512")
	waived.Excuse = "agreed with the vendor, 100 %: see <log>"
	open := at(Open, "undecided")
	open.Rule, open.Next = "undecided", "more --rounds"
	clean := at(Passed, "clean")
	clean.Rule, clean.Subject = "clean", "Card X/hostile,name: \x1b[31m%0A::error::\r\n]]>&\uffff/bf16"
	added := at(Failed, "split m1536")
	added.Rule, added.Baseline = "split", rules.BaselineNew
	return &Checks{Command: "audit", Path: "runs/a,b:c 100%.db", Version: "v1.2.3", List: []Check{grown, known, waived, open, clean, added},
		Outcome:  Outcome{Code: 1, Text: "2 confirmed findings", Hint: "read: them, 100 %"},
		Warnings: []rules.Warning{{Subject: "run: 1,2", Text: "50 % of\nit drifts"}}}
}

func outcomes() []*Checks {
	out := []*Checks{everyCheck(), {Command: "diff", Path: "b.db"}}
	for _, code := range []int{0, 3, 4, 130} {
		c := everyCheck()
		c.Outcome = Outcome{Code: code, Text: "so it ends"}
		out = append(out, c)
	}
	return out
}

func written(t *testing.T, c *Checks, f report.Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestChecksInEveryFormat(t *testing.T) {
	for _, f := range report.GateFormats() {
		golden.Compare(t, "checks."+string(f), string(written(t, everyCheck(), f)))
	}
	if err := everyCheck().Write(io.Discard, report.CSV); err == nil {
		t.Error("CSV is taken for a format of gates")
	}
}

// The schema is OASIS's, without its line breaks.
func TestSARIFKeepsToItsSchema(t *testing.T) {
	schema := sarifSchema(t)
	for _, c := range outcomes() {
		if err := schema.Validate(decoded(t, written(t, c, report.SARIF))); err != nil {
			t.Errorf("exit code %d: %v", c.Outcome.Code, err)
		}
	}
	broken := bytes.Replace(written(t, everyCheck(), report.SARIF), []byte(`"kind": "open"`), []byte(`"kind": "ajar"`), 1)
	if schema.Validate(decoded(t, broken)) == nil {
		t.Error("the schema takes a result of a kind that there is not")
	}
}

func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("testdata/schema/sarif-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sarif.json", decoded(t, text)); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSARIFStates(t *testing.T) {
	var doc struct {
		Runs []struct {
			Results []struct {
				Kind, Level, BaselineState string
				RuleID                     string `json:"ruleId"`
				RuleIndex                  int
				PartialFingerprints        map[string]string
				Suppressions               []struct{ Kind, Status, Justification string }
			}
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Invocations []struct{ ExitCode int }
		}
	}
	if err := json.Unmarshal(written(t, everyCheck(), report.SARIF), &doc); err != nil {
		t.Fatal(err)
	}
	run := doc.Runs[0]
	var got []string
	for i, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("result %d is of %s, its index says %s", i, r.RuleID, run.Tool.Driver.Rules[r.RuleIndex].ID)
		}
		if len(r.PartialFingerprints[sarifFingerprint]) != 16 {
			t.Errorf("result %d has the fingerprints %v", i, r.PartialFingerprints)
		}
		got = append(got, fmt.Sprintf("%s %s %s %d", r.Kind, r.Level, r.BaselineState, len(r.Suppressions)))
	}
	want := []string{"fail error updated 0", "fail note unchanged 0", "fail note  1", "open none  0", "pass none  0", "fail error new 0"}
	if !slices.Equal(got, want) {
		t.Errorf("results are %q, expected %q", got, want)
	}
	if s := run.Results[2].Suppressions; s[0].Status != "accepted" || s[0].Kind != "external" || s[0].Justification == "" {
		t.Errorf("the waiver is %+v", s)
	}
	if run.Invocations[0].ExitCode != 1 {
		t.Errorf("the exit code is %d", run.Invocations[0].ExitCode)
	}
}

// A suite's counts must match its cases, and only gate failures are failures.
func TestJUnitCounts(t *testing.T) {
	for _, c := range outcomes() {
		var doc struct {
			Tests, Failures, Errors int `xml:",attr"`
			Suites                  []struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Errors   int `xml:"errors,attr"`
				Skipped  int `xml:"skipped,attr"`
				Cases    []struct {
					Name, Classname string     `xml:",attr"`
					Failure         []struct{} `xml:"failure"`
					Error           []struct{} `xml:"error"`
					Skipped         []struct{} `xml:"skipped"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(written(t, c, report.JUnit), &doc); err != nil {
			t.Fatal(err)
		}
		failures, errors := 0, 0
		for _, s := range doc.Suites {
			f, e, k := 0, 0, 0
			for _, x := range s.Cases {
				f, e, k = f+len(x.Failure), e+len(x.Error), k+len(x.Skipped)
			}
			if s.Tests != len(s.Cases) || s.Failures != f || s.Errors != e || s.Skipped != k {
				t.Errorf("a suite counts %+v, its cases are %d, %d, %d", s, f, e, k)
			}
			failures, errors = failures+f, errors+e
		}
		wantFailures, wantErrors := 0, 0
		for _, k := range c.List {
			if k.State == Failed {
				wantFailures++
			}
		}
		switch c.Outcome.Code {
		case 0:
		case 1: // a failed check is counted once
			wantFailures = max(1, wantFailures)
		default:
			wantErrors++
		}
		if failures != wantFailures || errors != wantErrors {
			t.Errorf("exit code %d: %d failures and %d errors, expected %d and %d", c.Outcome.Code, failures, errors, wantFailures,
				wantErrors)
		}
	}
}

// Each annotation must be one line; untrusted text must not start another command.
func TestGitHubLines(t *testing.T) {
	for line := range strings.Lines(string(written(t, everyCheck(), report.GitHub))) {
		if !regexp.MustCompile(`^::(error|warning|notice) file=[^,:]*,title=[^,:]*::[^\r\n]*\n$`).MatchString(line) {
			t.Errorf("a line is %q", line)
		}
	}
}
