package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// The states of a run that every gate must report.
const (
	whole       = "whole"
	casesFailed = "cases failed"
	casesGone   = "cases missing"
	noneJudged  = "nothing judged"
	damagedFile = "damaged file"
	twoHosts    = "two hosts in one run"
	halfDone    = "unfinished plan"
)

var runStates = []string{whole, casesFailed, casesGone, noneJudged, damagedFile, twoHosts, halfDone}

// neverGate lists the commands whose exit code only reports success or failure of the command.
var neverGate = []string{
	"gemmaudit", "gemmaudit choices", "gemmaudit completion", "gemmaudit devices", "gemmaudit explain", "gemmaudit export",
	"gemmaudit import", "gemmaudit man", "gemmaudit mistral", "gemmaudit mistral bench", "gemmaudit mistral chat",
	"gemmaudit mistral generate", "gemmaudit mistral perplexity",
	"gemmaudit report", "gemmaudit rules", "gemmaudit rules check", "gemmaudit rules diff", "gemmaudit rules print", "gemmaudit table",
	"gemmaudit table convert", "gemmaudit table lookup", "gemmaudit table show", "gemmaudit version",
}

// gating is the exit code of each other command for a run in each state. States that the command cannot meet
// are missing; why explains them.
type gating struct {
	do   func(t *testing.T, g *gated, state string) int
	want map[string]int
	why  string
}

// byRuns holds the exit codes of commands that read runs without measuring.
var byRuns = map[string]int{whole: exitClean, casesFailed: exitDevice, casesGone: exitInconclusive, noneJudged: exitInconclusive,
	damagedFile: exitDevice, twoHosts: exitInconclusive, halfDone: exitInconclusive}

// but copies expectations with changes; -1 removes a state.
func but(want map[string]int, changes map[string]int) map[string]int {
	out := maps.Clone(want)
	for state, code := range changes {
		if out[state] = code; code < 0 {
			delete(out, state)
		}
	}
	return out
}

var gatingCommands = map[string]gating{
	"gemmaudit audit": {do: func(t *testing.T, g *gated, state string) int {
		return g.run("audit", "--rules", g.rules, g.in(t, state))
	}, want: byRuns},
	"gemmaudit splits": {do: func(t *testing.T, g *gated, state string) int {
		return g.run("splits", "--execute=false", g.in(t, state))
	},
		want: but(byRuns, map[string]int{noneJudged: -1}),
		why:  "a search that finds nothing has judged all that it searched; without a sample it exits 4, as splits.txtar holds"},
	"gemmaudit advise": {do: func(t *testing.T, g *gated, state string) int {
		return g.run("advise", g.in(t, state), "--model", g.model)
	}, want: but(byRuns, map[string]int{noneJudged: exitUsage}),
		why: "products that are missing altogether are a usage error that names them"},
	"gemmaudit diff": {do: func(t *testing.T, g *gated, state string) int {
		other := g.in(t, whole) // not a copy: diff has no verdict on copies
		altered(t, other, `UPDATE meta SET value = 'another' WHERE key = 'run'`)
		b := g.run("diff", other, g.in(t, state))
		if state != noneJudged { // a complete run of one case has no lost case
			if a := g.run("diff", g.in(t, state), other); a != b {
				t.Errorf("diff exits %d with %s in B, and %d in A\n%s", b, state, a, g.said)
			}
		}
		return b
	}, want: byRuns},
	"gemmaudit history": {do: func(t *testing.T, g *gated, state string) int {
		args := []string{"history", g.in(t, state)}
		for i := range 11 {
			if state == noneJudged && i > 1 {
				break
			}
			args = append(args, g.cloned(t, fmt.Sprintf("old%d", i)))
		}
		return g.run(args...)
	}, want: byRuns},
	"gemmaudit fleet": {do: func(t *testing.T, g *gated, state string) int {
		args := []string{"fleet", g.in(t, state)}
		if state != noneJudged {
			args = append(args, g.cloned(t, "node1"), g.cloned(t, "node2"), g.cloned(t, "node3"))
		}
		return g.run(args...)
	}, want: but(byRuns, map[string]int{twoHosts: exitDevice}),
		why: "a run each of whose cases several machines measured is no card's, and is named as not read"},
	"gemmaudit merge": {do: func(t *testing.T, g *gated, state string) int {
		return g.run("merge", filepath.Join(t.TempDir(), "all.db"), g.in(t, state))
	}, want: but(byRuns, map[string]int{noneJudged: -1}), why: "merge judges nothing"},
	"gemmaudit sweep": {do: func(t *testing.T, g *gated, state string) int {
		if state == casesFailed {
			t.Setenv("SIMULATED_FAULTS", "fail:flat:64")
			return g.run(append(g.plan("sweep"), "--out", filepath.Join(t.TempDir(), "r.db"))...)
		}
		return g.run("sweep", "--resume", "--out", g.in(t, state))
	}, want: but(byRuns, map[string]int{casesGone: exitClean, halfDone: exitClean, noneJudged: -1}),
		why: "resuming measures what is missing; that a sweep leaves cases out, night.txtar holds; it judges nothing"},
	"gemmaudit run": {do: func(t *testing.T, g *gated, state string) int {
		folder := filepath.Join(t.TempDir(), "out")
		switch state {
		case casesFailed:
			t.Setenv("SIMULATED_FAULTS", "fail:flat:64")
			return g.run(append(g.plan("run"), "--rules", g.rules, "--images", "svg", "--out", folder)...)
		case noneJudged:
			return g.run("run", "--shape", "n64k64", "--batch", "64", "--dtype", "fp32", "--kernel", "flat", "--rules", g.rules, "--images",
				"svg", "--out", folder)
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(g.in(t, state), filepath.Join(folder, "run.db")); err != nil {
			t.Fatal(err)
		}
		return g.run("run", "--resume", "--rules", g.rules, "--images", "svg", "--out", folder)
	}, want: but(byRuns, map[string]int{casesGone: exitClean, halfDone: exitClean}), why: "resuming measures what is missing"},
	"gemmaudit triage": {do: func(t *testing.T, g *gated, state string) int {
		folder := filepath.Join(t.TempDir(), "out")
		shapes := filepath.Join(t.TempDir(), "shapes.csv")
		if err := os.WriteFile(shapes, []byte("m,n,k,dtype,calls\n16,128,128,fp32,9\n64,128,128,fp32,9\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		begin := func() int {
			return g.run("triage", shapes, "--kernel", "flat", "--rules", g.rules, "--out", folder)
		}
		db := filepath.Join(folder, "run.db")
		switch state {
		case casesFailed:
			t.Setenv("SIMULATED_FAULTS", "fail:flat:64")
			return begin()
		case whole:
			return begin()
		case damagedFile:
			begin()
			altered(t, db, `DELETE FROM cases WHERE id = 1`)
		case twoHosts:
			begin()
			altered(t, db, `INSERT INTO origins SELECT 2, run, 'another', device, card, labels FROM origins WHERE id = 1`,
				`UPDATE samples SET origin = 2 WHERE round >= 5`)
		case halfDone, casesGone:
			begin()
			altered(t, db, `DELETE FROM samples WHERE case_id > 2`, `UPDATE state SET value = 'interrupted' WHERE key = 'status'`)
		}
		return g.run("triage", "--resume", "--rules", g.rules, "--out", folder)
	}, want: but(byRuns, map[string]int{casesGone: exitClean, halfDone: exitClean, noneJudged: -1}),
		why: "resuming measures what is missing; a product has its neighbours to be compared with"},
	"gemmaudit check": {do: func(t *testing.T, g *gated, state string) int {
		o := checkOptions{app: g.app(), held: outcome.Held{Name: "the check"}}
		c := report.NodeCheck{Fit: true, Devices: []fleet.Check{{Device: "cuda:0", Verdict: fleet.Fine}}}
		switch state {
		case casesFailed:
			o.held.Failed = 1
		case casesGone, halfDone:
			o.held.Missing = 1
		case twoHosts:
			o.held.Mixed = []results.MixedDevice{{Device: "cuda:0", Parts: []results.MixedPart{{Name: "a"}, {Name: "b"}}}}
		case noneJudged:
			c.Devices[0].Verdict = fleet.Unjudged
		}
		return exitCode(o.app.conclude(c.Evidence(o.held, o.accept)))
	}, want: but(byRuns, map[string]int{damagedFile: -1}), why: "it writes its run itself; a damaged baseline is in check.txtar"},
	"gemmaudit selftest": {do: func(t *testing.T, g *gated, state string) int {
		test := &report.Selftest{Checks: []report.CheckStep{{Passed: true}}}
		var failures []error
		switch state {
		case casesFailed:
			failures = []error{fmt.Errorf("device lost")}
		case noneJudged:
			test.Checks[0] = report.CheckStep{Skipped: "no unit for it"}
		}
		return exitCode(g.app().conclude(test.Evidence(groundsOf(failures...))))
	}, want: map[string]int{whole: exitClean, casesFailed: exitDevice, noneJudged: exitInconclusive}, why: "it reads no run"},
	"gemmaudit mistral validate": {do: func(t *testing.T, g *gated, state string) int {
		v := &report.ModelValidation{Kernels: []report.KernelCheck{{Kernel: "a", Passed: true}}}
		if state == noneJudged {
			v.Kernels[0] = report.KernelCheck{Skipped: "no unit for it"}
		}
		return exitCode(g.app().conclude(v.Evidence()))
	}, want: map[string]int{whole: exitClean, noneJudged: exitInconclusive}, why: "it reads no run"},
	"gemmaudit table check": {do: func(t *testing.T, g *gated, state string) int {
		v := &report.Verification{Path: "t.json", Checks: []remedy.RowCheck{{}}}
		switch state {
		case noneJudged:
			v.Checks = nil
		case halfDone:
			v.Open = 1
		}
		return exitCode(g.app().conclude(v.Evidence(false)))
	}, want: map[string]int{whole: exitClean, noneJudged: exitInconclusive, halfDone: exitInconclusive},
		why: "it judges entries of a table, which it measures itself; table.txtar has damaged ones"},
	"gemmaudit doctor": {do: func(t *testing.T, g *gated, state string) int { return g.run("doctor") },
		want: map[string]int{whole: exitClean}, why: "it reads no run; --strict gates on what it finds"},
}

// gated is a run that passes all gates, and the program on a simulated device.
type gated struct {
	base, model string
	rules       string // without the roofline: it judges single rows by a peak, which the simulation lacks
	folder      string
	said        string
}

func (g *gated) app() *app {
	sim := newSimulation()
	var out bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &out, func(string) (string, bool) { return "", false },
		func() []kernels.Provider { return []kernels.Provider{sim} })
	a.now = sim.device.Now
	return a
}

func (g *gated) run(args ...string) int {
	a := g.app()
	code := a.main(append(args, "-q"))
	g.said = a.stderr.(*bytes.Buffer).String()
	return code
}

func (g *gated) plan(command string) []string {
	return []string{command, "--model", g.model, "--batch", "16:128:16", "--dtype", "fp32", "--kernel", "flat", "--rounds", "9",
		"--rounds-for", "all"}
}

func (g *gated) in(t *testing.T, state string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.db")
	copyFile(t, g.base, path)
	last := `(SELECT max(id) FROM cases WHERE parts = '' AND pad_to = 0)`
	drop := func(which string) []string {
		return []string{`DELETE FROM samples WHERE case_id IN (` + which + `)`, `DELETE FROM cases WHERE id IN (` + which + `)`}
	}
	var changes []string
	switch state {
	case casesFailed:
		changes = []string{`DELETE FROM samples WHERE case_id = ` + last,
			`INSERT INTO failures SELECT ` + last + `, 'sweep', 0, 'illegal address'`}
	case casesGone:
		changes = drop(last)
	case noneJudged:
		changes = append(drop(`SELECT id FROM cases WHERE id <> (SELECT min(id) FROM cases)`),
			`UPDATE meta SET value = '' WHERE key = 'plan'`)
	case damagedFile:
		changes = []string{`DELETE FROM cases WHERE id = ` + last}
	case twoHosts:
		changes = []string{`INSERT INTO origins SELECT 2, run, 'another', device, card, labels FROM origins WHERE id = 1`,
			`UPDATE samples SET origin = 2 WHERE round >= 5`}
	case halfDone:
		changes = append(drop(`SELECT id FROM cases WHERE m > 64`), `UPDATE state SET value = 'interrupted' WHERE key = 'status'`)
	}
	altered(t, path, changes...)
	return path
}

func (g *gated) cloned(t *testing.T, host string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), host+".db")
	copyFile(t, g.base, path)
	altered(t, path, fmt.Sprintf(`UPDATE meta SET value = '%032x' WHERE key = 'run'`, []byte(host)),
		fmt.Sprintf(`UPDATE origins SET host = '%s', run = '%032x'`, host, []byte(host)),
		fmt.Sprintf(`UPDATE meta SET value = json_set(value, '$.hostname', '%s') WHERE key = 'fingerprint'`, host))
	return path
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// change edits a run file without the program.
func altered(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{folder: t.TempDir()}
	g.base, g.model = filepath.Join(g.folder, "base.db"), filepath.Join(g.folder, "config.json")
	g.rules = filepath.Join(g.folder, "rules.yaml")
	if err := os.WriteFile(g.rules, []byte("schema: gemmaudit.rules/1\nrules:\n  roofline:\n    enabled: false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := `{"model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_size": 256, "intermediate_size": 512, ` +
		`"num_hidden_layers": 4,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "max_position_embeddings": 4096}`
	if err := os.WriteFile(g.model, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if code := g.run(append(g.plan("sweep"), "--out", g.base)...); code != exitClean {
		t.Fatalf("the sweep exits %d: %s", code, g.said)
	}
	altered(t, g.base, `UPDATE origins SET host = 'vm'`)
	return g
}

// Failed, missing or unjudged cases must never exit 0, for any command with a gate. A command in neither
// table fails the test.
func TestGatesAndStates(t *testing.T) {
	var names []string
	for _, c := range allCommands(newRootCommand(quietApp())) {
		name := c.CommandPath()
		names = append(names, name)
		_, gates := gatingCommands[name]
		if never := slices.Contains(neverGate, name); gates == never {
			t.Errorf("%s stands in both tables or in none: say how it ends in each state, or that it never gates", name)
		}
	}
	for _, name := range slices.Concat(neverGate, slices.Collect(maps.Keys(gatingCommands))) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no command", name)
		}
	}
	g := newGated(t)
	for _, name := range slices.Sorted(maps.Keys(gatingCommands)) {
		c := gatingCommands[name]
		if len(c.want) < len(runStates) && c.why == "" {
			t.Errorf("%s: nothing says why states are left out", name)
		}
		for _, state := range runStates {
			want, meets := c.want[state]
			if !meets {
				continue
			}
			t.Run(strings.TrimPrefix(name, "gemmaudit ")+"/"+state, func(t *testing.T) {
				g.said = ""
				if got := c.do(t, g, state); got != want {
					t.Errorf("exit code %d, expected %d\n%s", got, want, g.said)
				}
			})
		}
	}
}

// --accept-* flags must let such a run pass and report the reason.
func TestAccepted(t *testing.T) {
	g := newGated(t)
	for state, flag := range map[string]string{casesFailed: "--" + outcome.AcceptFailed, casesGone: "--" + outcome.AcceptMissing,
		twoHosts: "--" + outcome.AcceptMixed, halfDone: "--" + outcome.AcceptMissing} {
		path, other := g.in(t, state), g.in(t, whole)
		altered(t, other, `UPDATE meta SET value = 'another' WHERE key = 'run'`) // diff has no verdict on copies
		for _, command := range [][]string{{"audit", path}, {"diff", other, path}, {"merge", filepath.Join(t.TempDir(), "m.db"), path},
			{"splits", "--execute=false", path}} {
			if code := g.run(append(command, flag)...); code != exitClean || !strings.Contains(g.said, "accepted by "+flag) {
				t.Errorf("%s of a run with %s exits %d with %s: %s", command[0], state, code, flag, g.said)
			}
		}
	}
}
