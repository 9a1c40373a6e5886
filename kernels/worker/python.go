package worker

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed python/*.py
var pythonCode embed.FS

// pythonCommand starts the embedded worker in an interpreter.
func pythonCommand(interpreter string) (command, error) {
	entries, err := pythonCode.ReadDir("python")
	if err != nil {
		return command{}, err
	}
	modules := map[string]string{}
	for _, e := range entries {
		text, err := pythonCode.ReadFile("python/" + e.Name())
		if err != nil {
			return command{}, err
		}
		modules[strings.TrimSuffix(e.Name(), ".py")] = string(text)
	}
	boot := modules["boot"]
	delete(modules, "boot")
	first, err := json.Marshal(map[string]any{"modules": modules})
	return command{path: interpreter, args: []string{"-u", "-c", boot}, first: first, traces: true}, err
}

// places are where FindPython looks.
const places = "next to the program, in VIRTUAL_ENV, CONDA_PREFIX or PATH"

// FindPython returns the interpreter for kernels in Python: chosen, else one of the folder of the program, of VIRTUAL_ENV or
// CONDA_PREFIX, or python3 of PATH. The error says what was looked for.
func FindPython(chosen string) (string, error) {
	if chosen != "" {
		path, err := exec.LookPath(chosen)
		if err != nil {
			return "", advised{fmt.Errorf("Python interpreter %q: %w", chosen, err), "without --python it is the python3 " + places}
		}
		return path, nil
	}
	var folders []string
	if program, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Dir(program))
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(variable); root != "" {
			folders = append(folders, filepath.Join(root, "bin"))
		}
	}
	for _, folder := range folders {
		if path, err := exec.LookPath(filepath.Join(folder, "python3")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		return "", advised{errors.New("no Python interpreter: there is no python3 " + places), "choose one with --python PATH"}
	}
	return path, nil
}

// advised is an error with advice for the user.
type advised struct {
	error
	hint string
}

func (e advised) Unwrap() error { return e.error }

// HintText returns the advice.
func (e advised) HintText() string { return e.hint }
