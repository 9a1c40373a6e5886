package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A run writes its table as a Go package below the working folder, which in a clone is the module; ./... must
// not include it.
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

// The dependency page must list exactly the direct dependencies of go.mod.
func TestDependenciesPage(t *testing.T) {
	out, err := exec.Command("go", "mod", "edit", "-json", "../../go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	used, unmaintained, ok := strings.Cut(string(page), "## Not maintained")
	if !ok {
		t.Fatal("docs/dependencies.md has no section of modules that are not maintained")
	}
	required, listed := map[string]bool{}, map[string]bool{}
	row := regexp.MustCompile(`(?m)^\| ([a-z0-9.]+\.[a-z]+/\S+) \|`)
	for _, m := range row.FindAllStringSubmatch(used, -1) {
		listed[m[1]] = true
	}
	for _, m := range module.Require {
		required[m.Path] = true
		if !m.Indirect && !listed[m.Path] {
			t.Errorf("docs/dependencies.md does not list %s", m.Path)
		}
	}
	for _, m := range row.FindAllStringSubmatch(used+unmaintained, -1) {
		if !required[m[1]] {
			t.Errorf("docs/dependencies.md lists %s, which go.mod does not require", m[1])
		}
	}
}
