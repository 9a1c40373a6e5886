package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// action is the part of action.yml that GitHub reads.
type action struct {
	Inputs  map[string]struct{ Description, Default string }
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			Name, ID, Shell, Run string
			Env                  map[string]string
		}
	}
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z0-9.-]+) *\}\}`)

// do runs the steps of the action in a folder, as GitHub does, until one fails. It returns their output, the
// action's outputs, the job summary and the exit code of the last step.
func (x *action) do(t *testing.T, folder string,
	given map[string]string) (printed string, outputs map[string]string, summary string, code int) {
	t.Helper()
	values := map[string]string{}
	for name, in := range x.Inputs {
		values["inputs."+name] = in.Default
	}
	for name, v := range given {
		if _, ok := x.Inputs[name]; !ok {
			t.Fatalf("the action has no input %q", name)
		}
		values["inputs."+name] = v
	}
	evaluate := func(s string) string {
		return expression.ReplaceAllStringFunc(s, func(e string) string {
			name := expression.FindStringSubmatch(e)[1]
			v, ok := values[name]
			if !ok && code == 0 {
				t.Errorf("the action refers to %q, which there is not", name)
			}
			return v
		})
	}
	summaries := filepath.Join(folder, "summary.md")
	var all strings.Builder
	for _, step := range x.Runs.Steps {
		if step.Shell != "bash" || strings.Contains(step.Run, "${{") {
			t.Fatalf("step %q runs in %q, or its text has an expression, which anybody's input could be part of", step.Name, step.Shell)
		}
		dir := t.TempDir()
		script, kept := filepath.Join(dir, "step.sh"), filepath.Join(dir, "outputs")
		for path, text := range map[string]string{script: step.Run, kept: ""} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GITHUB_OUTPUT="+kept, "GITHUB_STEP_SUMMARY="+summaries)
		for name, v := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+evaluate(v))
		}
		text, err := cmd.CombinedOutput()
		all.Write(text)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		told, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(told)) {
			name, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			values["steps."+step.ID+".outputs."+name] = v
		}
		if code != 0 {
			break
		}
	}
	outputs = map[string]string{}
	for name, out := range x.Outputs {
		outputs[name] = evaluate(out.Value)
	}
	written, _ := os.ReadFile(summaries) // missing if a step fails early
	return all.String(), outputs, string(written), code
}

func readAction(t *testing.T) *action {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var x action
	if err := yaml.Unmarshal(text, &x); err != nil {
		t.Fatal(err)
	}
	return &x
}

// On a simulated device, the action must measure, annotate, write its reports, and fail on new findings.
func TestAction(t *testing.T) {
	x := readAction(t)
	for _, name := range slices.Sorted(maps.Keys(x.Inputs)) {
		if x.Inputs[name].Description == "" {
			t.Errorf("input %s has no description", name)
		}
	}
	if x.Runs.Using != "composite" || len(x.Runs.Steps) == 0 {
		t.Fatalf("the action is %q of %d steps", x.Runs.Using, len(x.Runs.Steps))
	}
	folder := filepath.Join(t.TempDir(), "a folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// Users write several lines; each must count.
	sweep := "--shape n256k256 --batch 32:160:8\n--dtype fp32 --rounds 12\n\n--rounds-for all --kernel "
	dented := map[string]string{"program": "gemmaudit-sim", "run": "first run.db", "sweep": sweep + "dented", "baseline": "not there.db"}

	printed, outputs, summary, code := x.do(t, folder, dented)
	if code != 1 || outputs["exit-code"] != "1" ||
		!regexp.MustCompile(`(?m)^::error file=first run\.db,title=monotonic`).MatchString(printed) {
		t.Errorf("a dent ends in %d, outputs %v and\n%s", code, outputs, printed)
	}
	if !strings.Contains(summary, "n256 k256") {
		t.Errorf("the summary is %q", summary)
	}
	for name, has := range map[string]string{outputs["junit"]: "<failure", outputs["sarif"]: `"level": "error"`,
		"gemmaudit-reports/audit.json": `"status": "confirmed"`} {
		report, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(report), has) {
			t.Errorf("%s has no %s: %v", name, has, err)
		}
	}

	known := maps.Clone(dented)
	known["run"], known["baseline"], known["reports"] = "second.db", "first run.db", "$(touch evil)"
	if printed, outputs, _, code := x.do(t, folder, known); code != 0 || outputs["exit-code"] != "0" ||
		strings.Contains(printed, "::error") {
		t.Errorf("what the baseline has ends in %d, outputs %v and\n%s", code, outputs, printed)
	}
	if _, err := os.Stat(filepath.Join(folder, "evil")); err == nil {
		t.Error("an input was run")
	}

	lone := map[string]string{"program": "gemmaudit-sim", "run": "first run.db", "gate": "none"}
	if printed, _, _, code := x.do(t, folder, lone); code != 0 {
		t.Errorf("a run that is there, without a gate, ends in %d and\n%s", code, printed)
	}
	lone["run"] = "none.db"
	if printed, outputs, _, code := x.do(t, folder, lone); code != 3 || outputs["exit-code"] != "3" {
		t.Errorf("a run that is not there ends in %d, outputs %v and\n%s", code, outputs, printed)
	}
}
