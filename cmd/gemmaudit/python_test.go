package main

import (
	"os"
	"os/exec"
	"sync"
	"testing"
)

// numpyPython is the interpreter for kernels that need NumPy: the one that GEMMAUDIT_TEST_PYTHON names, else python3 if it
// has NumPy. Without one it is empty, and scripts skip with [!numpy].
var numpyPython = sync.OnceValue(func() string {
	if named := os.Getenv("GEMMAUDIT_TEST_PYTHON"); named != "" {
		return named
	}
	path, err := exec.LookPath("python3")
	if err != nil || exec.Command(path, "-c", "import numpy").Run() != nil {
		return ""
	}
	return path
})

// Where libraries are required, no script is skipped for want of NumPy.
func TestNumPy(t *testing.T) {
	python := numpyPython()
	switch {
	case python == "" && os.Getenv("GEMMAUDIT_LIBRARIES_REQUIRED") != "":
		t.Fatal("python3 has no NumPy: set GEMMAUDIT_TEST_PYTHON to an interpreter that has it")
	case python == "":
		t.Skip("python3 has no NumPy: GEMMAUDIT_TEST_PYTHON names an interpreter that has it")
	}
	if out, err := exec.Command(python, "-c", "import numpy; print(numpy.__version__)").CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", python, err, out)
	}
}
