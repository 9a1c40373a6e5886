package architecture

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// scripts/check_shapes.py finds the golden table in the models of transformers. PYTHON names a Python that
// has it.
func TestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("builds 80 models")
	}
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	if _, err := exec.LookPath(python); err != nil {
		t.Skip("no ", python)
	}
	out, err := exec.Command(python, "../../scripts/check_shapes.py").CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Skip(python, " has no transformers")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
