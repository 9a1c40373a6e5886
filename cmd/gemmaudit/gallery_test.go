package main

import (
	"compress/gzip"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func gallery(t *testing.T, folder, program, most string, args ...string) (string, error) {
	t.Helper()
	script, err := filepath.Abs("../../scripts/gallery.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", append([]string{script}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GEMMAUDIT="+program, "PAGES="+folder, "MOST="+most)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func unpacked(t *testing.T, page []byte) string {
	t.Helper()
	_, text, _ := strings.Cut(string(page), `id="packed">`)
	text, _, _ = strings.Cut(text, "<")
	in, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	held, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(held), "The machine in full") {
		t.Fatalf("the page holds %d bytes: %v", len(held), err)
	}
	return string(held)
}

// The script must compress each run's page, reject a page that is too large, and measure with valid commands.
func TestGallery(t *testing.T) {
	folder := t.TempDir()
	sweep := exec.Command("gemmaudit-sim", "sweep", "-q", "--shape", "n256k256", "--batch", "32:160:8", "--dtype", "fp32", "--rounds", "12",
		"--kernel", "dented", "--out", "dent of x.db")
	sweep.Dir = folder
	if out, err := sweep.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := gallery(t, folder, "gemmaudit-sim", "2000000", "pages", "."); err != nil || !strings.Contains(out, "dent of x.html: ") {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(folder, "dent of x.html"))
	host, _ := os.Hostname()
	if err != nil || !strings.Contains(string(page), `id="packed"`) || host == "" || strings.Contains(unpacked(t, page), "<td>"+host+"<") {
		t.Errorf("the page has %d bytes: %v", len(page), err)
	}
	for what, args := range map[string][]string{"has no run file": {"pages", t.TempDir()},
		"expected a short name": {"measure", "An H200", "x"}, "is unknown": {"make"}, "expected": {}} {
		if out, err := gallery(t, folder, "gemmaudit-sim", "2000000", args...); err == nil || !strings.Contains(out, what) {
			t.Errorf("%q ends in %v and %q, expected %q", args, err, out, what)
		}
	}
	if out, err := gallery(t, folder, "gemmaudit-sim", "1000", "pages", "."); err == nil ||
		!strings.Contains(out, "expected at most 1000") {
		t.Errorf("a page that is too large ends in %v and %q", err, out)
	}

	// A fake program that records its arguments, exits with findings, and leaves a run.
	called := filepath.Join(folder, "called")
	stub := "#!/bin/bash\nprintf '%s\\n' \"$@\" '' >> '" + called +
		"'\nwhile [[ $1 != --out ]]; do shift; done\nmkdir -p \"$2\" && echo run > \"$2/run.db\"\nexit 1\n"
	program := filepath.Join(folder, "stub")
	if err := os.WriteFile(program, []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := gallery(t, folder, program, "", "measure", "h200", "runs"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := gallery(t, folder, program, "", "along", "h200", "runs"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(called)
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n\n")
	if len(calls) != 3 {
		t.Fatalf("%d commands: %s", len(calls), text)
	}
	a, _, _ := testApp()
	for i, name := range []string{"h200-article.db", "h200-model.db", "h200-along-n.db"} {
		if _, err := os.Stat(filepath.Join(folder, "runs", name)); err != nil {
			t.Error(err)
		}
		c, rest, err := newRootCommand(a).Find(strings.Split(calls[i], "\n"))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err != nil || c.Name() != "run" || c.Flags().NArg() != 0 {
			t.Errorf("%s: %v", calls[i], err)
		}
	}
}
