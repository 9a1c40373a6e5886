package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func testApp() (a *app, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	env := func(string) (string, bool) { return "", false }
	return newApp(strings.NewReader(""), stdout, stderr, env, func() []kernels.Provider { return nil }), stdout, stderr
}

func TestExitCodeAndMessage(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{usagef("bad %d", 1), 2, "gemmaudit: error: bad 1\n"},
		{hint(usagef("bad"), "try %s", "this"), 2, "gemmaudit: error: bad\nhint: try this\n"},
		{fmt.Errorf("around: %w", hint(&commandError{code: exitGate, err: errors.New("two findings")}, "look")), 1,
			"gemmaudit: gate: around: two findings\nhint: look\n"},
		{inconclusivef("drift"), 4, "gemmaudit: inconclusive: drift\n"},
		{interruptedf("half done"), 130, "gemmaudit: interrupted: half done\n"},
		{fmt.Errorf("write report: %w", context.Canceled), 130, "gemmaudit: interrupted: write report\n"},
		{context.Canceled, 130, "gemmaudit: interrupted\n"},
		{errors.New("disk"), 3, "gemmaudit: error: disk\n"},
		{errors.Join(errors.New("one"), errors.New("two")), 3, "gemmaudit: error: one; two\n"},
		{usagef("\x1b[2Jé\u202e\u009b\xff\t\ufffd“”"), 2, `gemmaudit: error: \x1b[2Jé\u202e\u009b\xff\t` + "\ufffd“”\n"},
		{&kernels.Unsupported{Kernel: "amx", DType: "fp8", Reason: "no such unit"}, 2,
			"gemmaudit: error: kernel amx does not support fp8: no such unit\n"},
		{planError(fmt.Errorf("plan: %w", &kernels.UnavailableError{Kernel: "amx", Device: "cpu", Reason: "no such unit"})), 3,
			"gemmaudit: error: plan: kernel \"amx\" is not available on cpu: no such unit\n" +
				"hint: `gemmaudit devices` lists the kernels of this machine, and why others are missing\n"},
		{planError(errors.New("kernel \"is not available on\" is no name")), 2,
			"gemmaudit: error: kernel \"is not available on\" is no name\n" +
				"hint: `gemmaudit devices` lists kernels and data types, `gemmaudit sweep --help` other values\n"},
		{checkTablePath("prune", "t.txt", false), 2,
			"gemmaudit: error: --prune: \"t.txt\" ends in \".txt\", expected .json, .csv, .h or .go\n"},
		{fmt.Errorf("open: %w", &results.FormatError{Path: "x", Reason: "is empty", Hint: "measure again"}), 3,
			"gemmaudit: error: open: x: is empty\nhint: measure again\n"},
	} {
		if got := exitCode(test.err); got != test.code {
			t.Errorf("exitCode(%v) = %d, expected %d", test.err, got, test.code)
		}
		if test.err == nil {
			continue
		}
		var b bytes.Buffer
		printError(&b, test.err)
		if b.String() != test.text {
			t.Errorf("printed %q, expected %q", b.String(), test.text)
		}
	}
}

func TestWriteFileIsWholeOrAbsent(t *testing.T) {
	a, stdout, _ := testApp()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.json")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	only := func(want string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("folder holds %v (%v), expected the file alone", entries, err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Fatalf("file holds %q, expected %q", got, want)
		}
	}
	if err := a.writeFile(path, false, text("one")); err != nil {
		t.Fatal(err)
	}
	only("one")
	if err := a.writeFile(path, false, text("two")); exitCode(err) != exitDevice || hintOf(err) == "" {
		t.Fatalf("replaced a file without --force: %v", err)
	}
	only("one")
	broken := errors.New("broken")
	err := a.writeFile(path, true, func(w io.Writer) error { io.WriteString(w, "half"); return broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, expected the cause and the path", err)
	}
	only("one")
	if err := a.writeFile(path, true, text("three")); err != nil {
		t.Fatal(err)
	}
	only("three")
	if err := a.writeFile("-", false, text("data")); err != nil || stdout.String() != "data" {
		t.Fatalf("wrote %q to stdout, %v", stdout, err)
	}
	for _, bad := range []string{filepath.Join(path, "below"), dir, filepath.Join(dir, "absent", "x")} {
		if err := a.writeFile(bad, false, text("x")); exitCode(err) != exitDevice || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v, expected an error that names it", bad, err)
		}
	}
	only("three")
}

// failingWriter fails like stdout after its reader is gone or its disk is full.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestLostOutput(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{{syscall.EPIPE, exitClean}, {syscall.ENOSPC, exitDevice}} {
		a, _, stderr := testApp()
		a.stdout = &stickyWriter{w: failingWriter{test.err}}
		if got := a.main([]string{"version"}); got != test.code {
			t.Errorf("%v: exit code %d, expected %d", test.err, got, test.code)
		}
		if quiet := stderr.Len() == 0; quiet != (test.code == exitClean) {
			t.Errorf("%v: stderr is %q", test.err, stderr)
		}
	}
}
