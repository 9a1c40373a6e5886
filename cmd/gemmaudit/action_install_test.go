package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// fakeRelease writes a release archive whose program is gemmaudit-sim, and its checksums. It returns the
// release address and the archive's checksum.
func fakeRelease(t *testing.T, version string) (address, sum string) {
	t.Helper()
	root := t.TempDir()
	name := "gemmaudit_" + version + "_linux_" + runtime.GOARCH
	for path, text := range map[string]string{name + "/gemmaudit": "#!/bin/sh\nexec gemmaudit-sim \"$@\"\n", version + "/other": ""} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(root, version, name+".tar.gz")
	if out, err := exec.Command("tar", "-C", root, "-czf", archive, name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum = fmt.Sprintf("%x", sha256.Sum256(data))
	sums := strings.Repeat("0", 64) + "  " + name + ".cdx.json\n" + sum + "  " + name + ".tar.gz\n"
	if err := os.WriteFile(filepath.Join(root, version, "SHA256SUMS"), []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + root, sum
}

// The action must reject an archive with a wrong checksum.
func TestActionInstallsARelease(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("releases are for Linux on x86-64 and arm64")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("no curl: %v", err)
	}
	x := readAction(t)
	address, sum := fakeRelease(t, "v9.9.9")
	broken, _ := fakeRelease(t, "v9.9.9")
	sums := filepath.Join(strings.TrimPrefix(broken, "file://"), "v9.9.9", "SHA256SUMS")
	if err := os.WriteFile(sums, []byte(strings.Repeat("0", 64)+"  gemmaudit_v9.9.9_linux_"+runtime.GOARCH+".tar.gz\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name          string
		given         map[string]string
		installs      bool
		annotationHas string
	}{
		{"checked by SHA256SUMS", map[string]string{"version": "v9.9.9", "releases": address}, true, ""},
		{"checked by the input", map[string]string{"version": "v9.9.9", "releases": address, "sha256": sum}, true, ""},
		{"another checksum in SHA256SUMS", map[string]string{"version": "v9.9.9", "releases": broken}, false, "checksum"},
		{"another checksum in the input", map[string]string{"version": "v9.9.9", "releases": address, "sha256": strings.Repeat("0", 64)},
			false, "checksum"},
		{"a checksum that is none", map[string]string{"version": "v9.9.9", "releases": address, "sha256": "x"}, false, "checksum"},
		{"a release that is not there", map[string]string{"version": "v9.9.8", "releases": address}, false, "v9.9.8"},
		{"a version that is none", map[string]string{"version": "v9/../v9.9.9", "releases": address}, false, "v0.9.0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.given["program"] = "not-there"
			test.given["sweep"] = "--shape n256k256 --batch 32,64 --dtype fp32 --rounds 6 --kernel flat"
			test.given["gate"] = "none"
			t.Setenv("RUNNER_TEMP", t.TempDir())
			folder := t.TempDir()
			printed, _, _, code := x.do(t, folder, test.given)
			_, err := os.Stat(filepath.Join(folder, "gemmaudit.db"))
			if ran := err == nil; ran != test.installs {
				t.Errorf("a run was measured: %v, expected %v; exit code %d and\n%s", ran, test.installs, code, printed)
			}
			if !test.installs && (code != 2 || !strings.Contains(printed, "::error::") || !strings.Contains(printed, test.annotationHas)) {
				t.Errorf("exit code %d and\n%s", code, printed)
			}
		})
	}
}

// README and docs/pipeline.md must show the action in five lines, with valid inputs.
func TestDocumentsShowTheAction(t *testing.T) {
	for _, page := range []string{"README.md", "docs/pipeline.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), "```yaml\n")
		block, _, closed := strings.Cut(rest, "```")
		if !ok || !closed {
			t.Errorf("%s shows no YAML", page)
			continue
		}
		var steps []struct {
			Uses string
			With map[string]string
		}
		if err := yaml.Unmarshal([]byte(block), &steps); err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		if len(steps) != 1 || strings.Count(block, "\n") != 5 {
			t.Errorf("%s shows\n%s", page, block)
			continue
		}
		inputs := readAction(t).Inputs
		for name := range steps[0].With {
			if _, ok := inputs[name]; !ok {
				t.Errorf("%s: the action has no input %q", page, name)
			}
		}
		if uses, version := steps[0].Uses, steps[0].With["version"]; version == "" || uses != "gemmaudit/gemmaudit@"+version {
			t.Errorf("%s: %s installs version %q", page, uses, version)
		}
	}
}
