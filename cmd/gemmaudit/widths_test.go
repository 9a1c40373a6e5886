package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// commandAtEnd matches lines that end in a command to copy, which are never wrapped.
var commandAtEnd = regexp.MustCompile(`(^|: )gemmaudit [a-z]+ --?[a-z]`)

// Tables and sentences must fit a terminal of 80 columns.
func TestLinesFitTheTerminal(t *testing.T) {
	const columns = 80
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	env := func(name string) (string, bool) { return "80", name == "COLUMNS" }
	run := func(args ...string) {
		t.Helper()
		sim := newSimulation()
		var out, stderr bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &stderr, env, func() []kernels.Provider { return []kernels.Provider{sim} })
		a.now = sim.device.Now
		if code := a.main(append(args, "-q")); code == exitUsage || code == exitDevice {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
		text := strings.ReplaceAll(out.String(), dir+string(filepath.Separator), "")
		if text == "" {
			t.Errorf("%v prints nothing", args)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if n := utf8.RuneCountInString(line); n > columns && !commandAtEnd.MatchString(line) {
				t.Errorf("%v prints %d columns: %s", args, n, line)
			}
		}
	}
	plan := []string{"--shape", "n256k256", "--batch", "32:160:8", "--dtype", "fp32", "--kernel", "dented,flat", "--rounds", "12",
		"--rounds-for", "all"}
	run(append([]string{"run", "--out", in("a")}, plan...)...)
	run(append([]string{"sweep", "--seed", "2", "--out", in("b.db")}, plan...)...)
	a, b := in("a/run.db"), in("b.db")
	for _, args := range [][]string{
		{"audit", a}, {"audit", a, "--all"}, {"audit", a, "--where", "loss>0.1"}, {"audit", a, "--method", "article"},
		{"splits", a}, {"splits", a, "--among", "all"}, {"diff", a, b}, {"diff", b, "--kernel", "dented,flat"},
		{"explain", a, "1"}, {"explain"}, {"explain", "where"}, {"explain", "wave-quantization"}, {"explain", "us now"},
		{"history", a, b}, {"choices", "--shape", "n256k256", "--batch", "32:192:32", "--dtype", "fp32", "--kernel", "flat"},
		{"table", "show", in("a/table.json")}, {"table", "check", in("a/table.json")},
		{"fleet", a, b}, {"devices"}, {"sweep", "--dry-run", "--shape", "n256k256", "--batch", "32:160:8"},
	} {
		run(args...)
	}
}
