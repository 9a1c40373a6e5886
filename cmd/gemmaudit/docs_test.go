package main

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docs = "../../docs/"

// included matches a piece of a source file in a document: a marker with file and piece, then fenced code. In
// the source, the piece is between //docs:begin NAME and //docs:end.
var included = regexp.MustCompile("(?s)<!-- (\\S+): ([^\n]+) -->\n```go\n(.*?)```\n")

// Code in documents must match its tested sources; -update rewrites it.
func TestDocumentsShowTheCode(t *testing.T) {
	pages, err := filepath.Glob(docs + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	pieces := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		is := included.ReplaceAllStringFunc(string(text), func(whole string) string {
			m := included.FindStringSubmatch(whole)
			code, err := piece("../../"+m[1], m[2])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				return whole
			}
			pieces++
			return "<!-- " + m[1] + ": " + m[2] + " -->\n```go\n" + code + "```\n"
		})
		if is == string(text) {
			continue
		}
		if !*update {
			t.Errorf("%s shows other code than the sources have; rewrite it with -update", page)
		} else if err := os.WriteFile(page, []byte(is), 0o644); err != nil {
			t.Error(err)
		}
	}
	if pieces < 4 {
		t.Errorf("%d pieces of code were compared, expected one for each of four examples", pieces)
	}
}

// piece returns a named piece of a source file without its common indentation.
func piece(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var lines []string
	inside, ended := false, false
	for line := range strings.Lines(string(text)) {
		switch word := strings.TrimSpace(line); {
		case word == "//docs:begin "+name:
			inside = true
		case inside && word == "//docs:end":
			inside, ended = false, true
		case inside:
			lines = append(lines, line)
		}
	}
	if !ended {
		return "", errors.New(path + " has no piece " + name)
	}
	code := strings.Trim(strings.Join(lines, ""), "\n") + "\n"
	indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
	return strings.TrimPrefix(strings.ReplaceAll("\n"+code, "\n"+indent, "\n"), "\n"), nil
}

var (
	// touched matches a row of the tables in extending.md that list the files of a change.
	touched = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (new|edited) \\|")
	// madeUp are the names that the fixtures add.
	madeUp = regexp.MustCompile(`\b(outer-sum|outerSum|e2m1|gopher|tsv|Jump)\b`)
)

// Each section of the page on extending shows a test file that adds something alone, and a table of at most three files
// to edit for a real one. No file of the program names what the test files add.
func TestExtendingIsMadeOfFixtures(t *testing.T) {
	text, err := os.ReadFile(docs + "extending.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(sections) < 6 {
		t.Errorf("%d sections, expected a rule, a kernel, an operation, weights, an output format and a kind of device", len(sections))
	}
	for _, s := range sections {
		title, body, _ := strings.Cut(s, "\n")
		shown, edited := included.FindAllStringSubmatch(body, -1), 0
		if len(shown) != 1 || !strings.HasSuffix(shown[0][1], "_test.go") {
			t.Errorf("%s shows %d pieces, expected one of a test file", title, len(shown))
		}
		for _, m := range touched.FindAllStringSubmatch(body, -1) {
			if _, err := os.Stat("../../" + m[1]); (err == nil) != (m[2] == "edited") {
				t.Errorf("%s: %s is %s: %v", title, m[1], m[2], err)
			}
			if m[2] == "edited" {
				edited++
			}
		}
		if edited > 3 {
			t.Errorf("%s edits %d files, expected at most 3", title, edited)
		}
	}
	for path, text := range sources(t) {
		if name := madeUp.FindString(text); name != "" {
			t.Errorf("%s names %q, which a fixture makes up", path, name)
		}
	}
}

// sources returns the program's files by path, without tests and generated files.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "testdata" || e.Name() == "bin" || e.Name() == "build"):
			return fs.SkipDir
		case e.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if ext := filepath.Ext(path); ext == ".go" || ext == ".yaml" {
			text, err := os.ReadFile(path)
			files[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files were read: %v", len(files), err)
	}
	return files
}

var edge = regexp.MustCompile(`(?m)^ +(\S+) --> (\S.*)$`)

// The graph in how.md must match the imports between its packages.
func TestGraphOfPackages(t *testing.T) {
	text, err := os.ReadFile(docs + "how.md")
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(t)
	_, graph, _ := strings.Cut(string(text), "```mermaid\n")
	graph, _, _ = strings.Cut(graph, "```")
	drawn := map[string][]string{}
	for _, m := range edge.FindAllStringSubmatch(graph, -1) {
		for to := range strings.SplitSeq(m[2], " & ") {
			drawn[m[1]] = append(drawn[m[1]], to)
			drawn[to] = append(drawn[to], nil...)
		}
	}
	if len(drawn) < 5 {
		t.Errorf("%d packages were found in\n%s", len(drawn), graph)
	}
	for pkg, to := range drawn {
		if _, known := imports[pkg]; !known {
			t.Errorf("there is no package %s", pkg)
		}
		for _, i := range imports[pkg] {
			if _, named := drawn[i]; named && !slices.Contains(to, i) {
				t.Errorf("%s imports %s, which is not drawn", pkg, i)
			}
		}
		for _, i := range to {
			if !slices.Contains(imports[pkg], i) {
				t.Errorf("%s is drawn to import %s and does not", pkg, i)
			}
		}
	}
}

// room matches a line of package cuda's list of its folders.
var room = regexp.MustCompile(`(?m)^//\t([a-z]+) +\S`)

// A package below kernels/cuda may import only packages above it in the list of kernels/cuda's package comment.
func TestRoomsImportDownwards(t *testing.T) {
	text, err := os.ReadFile("../../kernels/cuda/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	order := map[string]int{}
	for i, m := range room.FindAllStringSubmatch(string(text), -1) {
		order[m[1]] = i
	}
	place := func(pkg string) (string, int, bool) {
		below, ok := strings.CutPrefix(pkg, "kernels/cuda/")
		name, _, _ := strings.Cut(below, "/")
		i, known := order[name]
		return name, i, ok && known
	}
	compared := 0
	for pkg, to := range importsOf(t) {
		from, at, ok := place(pkg)
		if !ok {
			continue
		}
		for _, i := range to {
			if name, above, ok := place(i); ok && name != from {
				compared++
				if above > at {
					t.Errorf("%s imports %s, which is below it in the list", pkg, i)
				}
			}
		}
	}
	if compared < 20 {
		t.Errorf("%d imports were compared", compared)
	}
}

// importsOf maps each package to its imports within the module, with GPU support.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	const module = "github.com/gemmaudit/gemmaudit/"
	out, err := exec.Command("go", "list", "-tags", "cuda", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		imports[name] = nil
		for _, i := range p.Imports {
			if own, ok := strings.CutPrefix(i, module); ok {
				imports[name] = append(imports[name], own)
			}
		}
	}
}
