package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// plans is the path of the module in testdata: a plan becomes a record, which a second package writes.
var plans = []string{"--path", "plan to record: cmd/made.plan store.Record"}

// made unpacks the made-up module.
func made(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/made.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func figures(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if err := run(append(args, plans...), &out, &errs); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func expect(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

func TestMadeUpModule(t *testing.T) {
	dir := made(t)
	// 137 characters and a tab are 141 columns.
	wide := "package store\n\n\t//" + strings.Repeat("é", 135) + "\n\t//" + strings.Repeat("é", 134) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "store", "wide.go"), []byte(wide), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, figures(t, "--dir", dir),
		"A record 1 1 1",
		"store 27 6 1 0",
		// record.go and limit.go refer to each other, write.go to record.go.
		"store 1 3 33.3 %",
		// Six functions: main passes nothing on, and it does not reach unused. draw calls named, keep calls file, file calls
		// Write in the other package, Write calls valid.
		"plan to record 6 4 1",
	)
}

func TestBase(t *testing.T) {
	dir := made(t)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "made"}} {
		git := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "store", "limit.go"), []byte("package store\n\nconst limit = 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, figures(t, "--dir", dir, "--base", "HEAD"), "store 23 → 21 6 0 0", "store 1 → 0 3 → 2 33.3 % → 0.0 %", "plan to record 6 4 1")
	if out, err := exec.Command("git", "-C", dir, "worktree", "list").Output(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("worktrees are left: %s %v", out, err)
	}
}

func TestFewestUpwardOfACycle(t *testing.T) {
	refers := map[string]map[string]bool{"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {}}
	if up, of := fewestUpward(refers); up != 1 || of != 4 {
		t.Errorf("a cycle of three files and one below has %d of %d arrows upward, expected 1 of 4", up, of)
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--path", "no types"}, {"--path", "title: Type"}, {"--dir", "testdata/missing"}, {"--dir", made(t), "--base", "no-such-revision"},
	} {
		var out strings.Builder
		if err := run(args, &out, &out); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
