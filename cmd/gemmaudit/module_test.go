package main

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// A run writes its table as a Go package below the working folder, which in a clone
// is the module: it must not join what ./... means there.
func TestRunsAreNoPackagesOfTheModule(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Ignore []struct{ Path string } }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	cmd, _, err := newRootCommand(&app{}).Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	parent := "./" + cmd.Flags().Lookup("parent").DefValue
	for _, i := range module.Ignore {
		if i.Path == parent {
			return
		}
	}
	t.Errorf("go.mod ignores %v and not %s", module.Ignore, parent)
}
