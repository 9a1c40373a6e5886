// Tests of the scripts for machines with a GPU.
package gpu_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// If the model can't be made, the section stops with exit code 1. A failed test step does not stop it.
func TestSectionEndsWithoutModel(t *testing.T) {
	for _, tc := range []struct {
		name, python string
		code         int
		bench        bool
	}{
		{"no model", "exit 7", 1, false},
		{"a model", "exit 0", 1, true}, // the tests fail even with a model
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			script, err := os.ReadFile("run.sh")
			if err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{
				"run.sh": string(script), "gemmaudit": "#!/bin/sh\nexit 0\n", "bin/python3": "#!/bin/sh\n" + tc.python + "\n",
				"tests/mistral.test": "#!/bin/sh\nexit 1\n", "kernels/mistral/data": "",
			} {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "run.sh"), "mistral")
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "OUT="+filepath.Join(dir, "out"),
				"MODEL=")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Fatalf("%v, expected exit code %d:\n%s", err, tc.code, out)
			}
			if ran := strings.Contains(string(out), "== mistral-bench:"); ran != tc.bench {
				t.Errorf("the bench ran: %v, expected %v:\n%s", ran, tc.bench, out)
			}
		})
	}
}
