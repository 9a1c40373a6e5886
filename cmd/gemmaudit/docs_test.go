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

// included is a piece of a source file in a document: a marker that names file and piece,
// and the code between fences. In the file the piece stands between //docs:begin NAME and
// //docs:end.
var included = regexp.MustCompile("(?s)<!-- (\\S+): ([^\n]+) -->\n```go\n(.*?)```\n")

// TestDocumentsShowTheCode holds the code in the documents against its sources, which are
// tests themselves; -update writes it anew.
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
	if pieces < 8 {
		t.Errorf("%d pieces of code were compared, expected a piece and its use for each of four examples", pieces)
	}
}

// piece is the named piece of a source file, its common indentation removed.
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

// touched is a row of the tables in extending.md that say which files a change touches.
var touched = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (new|edited) \\|")

// TestExtendingTouchesFewFiles holds those tables against the code: what names something
// that is there already, outside of the files that are its own, is what another like it has
// to edit.
func TestExtendingTouchesFewFiles(t *testing.T) {
	text, err := os.ReadFile(docs + "extending.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	for title, c := range map[string]struct {
		named *regexp.Regexp // by what another of the kind is known
		own   []string       // prefixes of its own files, and of those of other providers
		most  int            // files to be edited
	}{
		"A rule": {
			regexp.MustCompile(`\b(parityRule|ParityConfig|rules\.Parity\.)\b|\.Rules\.Parity\b|(?m)^//?\t?  parity:|^  parity:`),
			[]string{"rules/rule_parity.go", "rules/judge_pairs.go"}, 3,
		},
		"A kernel": {
			regexp.MustCompile(`\bslotOpenBLAS\b`),
			[]string{"kernels/cpu/openblas.go"}, 1,
		},
		"An operation": {
			regexp.MustCompile(`\b(AttentionDecode|AttentionLister|attention-decode)\b`),
			[]string{"kernels/attention_", "kernels/cpu/", "kernels/cuda/", "kernels/kerneltest/"}, 6,
		},
		"A kind of device": {
			regexp.MustCompile(`\bCUDA +Kind\b|gemmaudit/kernels/cuda"`),
			[]string{"kernels/cuda/"}, 5,
		},
	} {
		var edited []string
		for _, m := range touched.FindAllStringSubmatch(sections[title], -1) {
			if _, err := os.Stat("../../" + m[1]); (err == nil) != (m[2] == "edited") {
				t.Errorf("%s: %s is %s: %v", title, m[1], m[2], err)
			}
			if m[2] == "edited" {
				edited = append(edited, m[1])
			}
		}
		if len(edited) == 0 || len(edited) > c.most {
			t.Errorf("%s edits %d files, expected 1 to %d: %s", title, len(edited), c.most, edited)
		}
		files := sources(t)
		for path, text := range files {
			own := slices.ContainsFunc(c.own, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
			if !own && c.named.MatchString(text) && !slices.Contains(edited, path) {
				t.Errorf("%s: %s would have to be edited too: it has %q", title, path, c.named.FindString(text))
			}
		}
	}
}

// sources are the files of the program by their paths, tests and generated ones left out.
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

// edge is an arrow of a graph in a document: from a package to one that it imports.
var edge = regexp.MustCompile(`(?m)^ +(\S+) --> (\S.*)$`)

// TestGraphsOfPackages holds the graphs in design.md against the imports: between the
// packages that a graph names, all of them are drawn and nothing else.
func TestGraphsOfPackages(t *testing.T) {
	text, err := os.ReadFile(docs + "design.md")
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(t)
	graphs := strings.Split(string(text), "```mermaid\n")[1:]
	if len(graphs) != 2 {
		t.Errorf("%d graphs, expected that of the packages and that of those below kernels/cuda", len(graphs))
	}
	for _, graph := range graphs {
		graph, _, _ := strings.Cut(graph, "```")
		drawn := map[string][]string{}
		for _, m := range edge.FindAllStringSubmatch(graph, -1) {
			for to := range strings.SplitSeq(m[2], " & ") {
				drawn[m[1]] = append(drawn[m[1]], to)
				drawn[to] = append(drawn[to], nil...)
			}
		}
		if len(drawn) < 10 {
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
}

// importsOf is what each package of the module imports of it, GPU support included.
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
