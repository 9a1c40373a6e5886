package notices

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite THIRD_PARTY_NOTICES")

// platform is a build of the program. GPU support is a tag.
type platform struct{ os, tags string }

// A Linux build has fetched its modules, so the test needs no network. Other platforms have a few more; they
// are fetched when the file is written.
var (
	fetched = []platform{{"linux", "cuda"}, {"linux", ""}}
	others  = []platform{{"darwin", ""}}
)

type work struct {
	name  string // "golang.org/x/sys v0.49.0"
	files map[string]string
}

var legal = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|copyright|notice|patents|authors)([-._].*)?$`)

// credits are sentences that a license requires in addition to its text.
var credits = map[string]string{
	"github.com/golang/freetype": "Portions of this software are copyright © 2010 The FreeType Project (www.freetype.org). All rights " +
		"reserved.",
}

// nvidia is compiled into kernels/cuda/artefacts.
var nvidia = work{"headers of the NVIDIA CUDA Toolkit 12.4: cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, mma.h", map[string]string{
	"notice": `This software contains source code provided by NVIDIA Corporation.

The device code that is embedded in the program is compiled by NVIDIA's compiler, which inlines functions of
these headers. They are part of the CUDA Toolkit, under its End User License Agreement
(https://docs.nvidia.com/cuda/archive/12.4.1/eula/). Copyright © NVIDIA Corporation & Affiliates. All rights
reserved. The program opens the driver and the libraries of NVIDIA that a machine has; it holds none of them.`,
}}

// uplot is embedded in a report's page and draws its lines.
func uplot(t *testing.T) work {
	t.Helper()
	text, err := os.ReadFile("../../../report/page/uplot/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	return work{"uPlot 1.6.32 (https://github.com/leeoniya/uPlot)", map[string]string{"LICENSE": strings.TrimSpace(string(text))}}
}

func TestNotices(t *testing.T) {
	if *update {
		Text = render(append(collect(t, append(fetched, others...)), uplot(t)))
		if err := os.WriteFile("THIRD_PARTY_NOTICES", []byte(Text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range append(collect(t, fetched), nvidia, uplot(t)) {
		if len(w.files) == 0 {
			t.Errorf("%s has no licence", w.name)
		}
		if !strings.Contains(Text, "\n  "+w.name+"\n") || !strings.Contains(Text, w.section()) {
			t.Errorf("what belongs to %s is not in THIRD_PARTY_NOTICES: run `make notices`", w.name)
		}
	}
}

func TestNoticesHaveTheVersionsOfGoMod(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(f[1], "v") {
			versions[f[0]] = f[1]
		}
	}
	listed := 0
	for line := range strings.Lines(Text) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.HasPrefix(line, "  ") || !strings.HasPrefix(f[1], "v") {
			continue
		}
		listed++
		if versions[f[0]] != f[1] {
			t.Errorf("notices of %s %s, go.mod asks for %q", f[0], f[1], versions[f[0]])
		}
	}
	if listed < 30 {
		t.Errorf("%d modules are listed", listed)
	}
}

// collect returns the legal files of every linked module, and Go's own.
func collect(t *testing.T, platforms []platform) []work {
	t.Helper()
	works := map[string]work{}
	for _, p := range platforms {
		for _, fields := range list(t, p.os, p.tags) {
			name, module, folder := fields[0], fields[1], fields[2]
			if works[name].files == nil {
				works[name] = work{name: name, files: map[string]string{}}
			}
			// A folder's files also cover its subfolders.
			for dir := folder; ; dir = filepath.Dir(dir) {
				read(t, module, dir, works[name].files)
				if dir == module {
					break
				}
			}
			read(t, module, filepath.Join(module, "licenses"), works[name].files)
		}
	}
	out := slices.SortedFunc(maps.Values(works), func(a, b work) int { return cmp.Compare(a.name, b.name) })
	for _, w := range out {
		if strings.HasPrefix(w.name, "golang.org/x/sys ") {
			// Some Go installations lack the license files; those of golang.org/x/sys are the same.
			return append([]work{{"the standard library of Go", w.files}}, out...)
		}
	}
	t.Fatal("golang.org/x/sys is not linked")
	return nil
}

func list(t *testing.T, goos, tags string) [][]string {
	t.Helper()
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}` + "\t" + `{{.Dir}}` + "\t" + `{{$.Dir}}{{end}}{{end}}`
	var out [][]string
	text := run(t, []string{"GOOS=" + goos, "GOARCH=amd64", "CGO_ENABLED=1", "GOFLAGS=-mod=readonly"}, "list", "-deps", "-tags", tags, "-f",
		format, "..")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, strings.Split(line, "\t"))
		}
	}
	if len(out) < 30 {
		t.Fatalf("%d packages of other modules on %s", len(out), goos)
	}
	return out
}

func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func read(t *testing.T, module, dir string, files map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return
	} else if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) && filepath.Base(dir) != "licenses" {
			continue
		}
		name, err := filepath.Rel(module, filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		clean := strings.NewReplacer("\r\n", "\n", "\f", "\n").Replace(string(text))
		files[filepath.ToSlash(name)] = strings.TrimSpace(strings.ToValidUTF8(clean, "?"))
	}
}

func (w work) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n", strings.Repeat("=", 100), w.name)
	module, _, _ := strings.Cut(w.name, " ")
	if credit := credits[module]; credit != "" {
		fmt.Fprintf(&b, "\n%s\n", credit)
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		fmt.Fprintf(&b, "\n--- %s ---\n\n%s\n", name, w.files[name])
	}
	return b.String()
}

func render(works []work) string {
	var b strings.Builder
	b.WriteString("gemmaudit holds the work of others. These are their notices and licences.\n\n")
	works = append(works, nvidia)
	for _, w := range works {
		fmt.Fprintf(&b, "  %s\n", w.name)
	}
	for _, w := range works {
		b.WriteString(w.section())
	}
	return b.String()
}
