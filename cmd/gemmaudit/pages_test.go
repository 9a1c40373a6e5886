package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", "testdata", "bin", "build", "out", "node_modules"}, e.Name()):
			return fs.SkipDir
		case e.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
		return err
	})
	if err != nil || len(found) < 12 {
		t.Fatalf("%d documents were read: %v", len(found), err)
	}
	return found
}

var (
	fence   = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	inline  = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// Linked files and headings must exist, and README must lead to every page of docs.
func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	texts, links := pages(t), 0
	for page, text := range texts {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			links++
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if to.Scheme != "" {
				if to.Scheme != "https" || to.Host == "" {
					t.Errorf("%s links to %s: expected https", page, m[1])
				}
				continue
			}
			target := page
			if to.Path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), to.Path))
			}
			if _, err := os.Stat(filepath.Join("../..", target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if to.Fragment != "" && !slices.Contains(anchors(texts[target]), to.Fragment) {
				t.Errorf("%s links to %s: the headings are %s", page, m[1], anchors(texts[target]))
			}
		}
	}
	if links < 40 {
		t.Errorf("%d links were found", links)
	}
	for page := range texts {
		if strings.HasPrefix(page, "docs/") && !strings.Contains(texts["README.md"], "]("+page+")") {
			t.Errorf("README.md does not link to %s", page)
		}
	}
}

// commandLines returns a block's lines for a shell: those after "$ ", or all lines without such marks.
func commandLines(block string) []string {
	block = strings.ReplaceAll(block, "\\\n", " ")
	typed := strings.HasPrefix(block, "$ ") || strings.Contains(block, "\n$ ")
	var lines []string
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		command, is := strings.CutPrefix(line, "$ ")
		if typed && !is {
			continue
		}
		command, _, _ = strings.Cut(command, " #")
		for part := range strings.SplitSeq(command, "&&") {
			lines = append(lines, strings.TrimSpace(part))
		}
	}
	return lines
}

// named matches programs and targets in a document's text.
var named = regexp.MustCompile("`(gemmaudit|make) ([a-z][a-z0-9-]*)[^`\n]*`")

// Commands, flags, values, Makefile targets and scripts in documents must exist.
func TestDocumentsShowCommandsThatParse(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := func(page, name string) {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `( [^:=\n]*)?:`).Match(makefile) {
			t.Errorf("%s: the Makefile has no target %s", page, name)
		}
	}
	root := newRootCommand(&app{})
	commands := 0
	for page, text := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			if m[1] != "" && m[1] != "sh" && m[1] != "bash" {
				continue
			}
			for _, line := range commandLines(m[2]) {
				words := shellWords(line)
				for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
					words = words[1:]
				}
				switch {
				case len(words) == 0:
				case filepath.Base(words[0]) == "gemmaudit" && len(words) > 1:
					commands++
					if err := parses(words[1:]); err != nil {
						t.Errorf("%s: %s: %v", page, line, err)
					}
				case words[0] == "make" && filepath.Dir(page) != "examples":
					for _, w := range words[1:] {
						if !strings.Contains(w, "=") && !strings.HasPrefix(w, "-") {
							target(page, w)
						}
					}
				case strings.HasPrefix(words[0], "scripts/") || strings.HasPrefix(words[0], "examples/"):
					commands++
					if s, err := os.Stat("../../" + words[0]); err != nil || s.Mode()&0o111 == 0 {
						t.Errorf("%s: %s: not a program of the repository: %v", page, line, err)
					}
				}
			}
		}
		for _, m := range named.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if m[1] == "make" {
				target(page, m[2])
			} else if c, _, err := root.Find(m[2:3]); err != nil || c == root {
				t.Errorf("%s: there is no command %s: %v", page, m[0], err)
			}
		}
	}
	if commands < 45 {
		t.Errorf("%d commands were found", commands)
	}
}

// TestPages runs the commands whose output is in documents; -update rewrites the output.
func TestPages(t *testing.T) { shown(t, "pages") }

// TestScreens draws the screens of docs/screens whose runs are in the repository; -update rewrites them.
func TestScreens(t *testing.T) {
	if testing.Short() && !*update {
		t.Skip("a night of a fleet is simulated")
	}
	shown(t, "screens")
}

// shown compares part of the documents with this program's output, using scripts/pages.py.
func shown(t *testing.T, part string) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gemmaudit", "simfleet"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"../../scripts/pages.py", part}
	if !*update {
		args = append(args, "--check")
	}
	cmd := exec.Command("python3", args...)
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The image's sources must exist, its Go must be go.mod's, and its commands must be valid shell.
func TestContainerfile(t *testing.T) {
	text, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	demanded := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	if !strings.Contains(string(text), "\nFROM golang:"+demanded+"-") {
		t.Errorf("the image is not built with Go %s, which go.mod demands", demanded)
	}
	copied, run := 0, 0
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "COPY":
			for _, source := range words[1 : len(words)-1] {
				source = strings.TrimPrefix(source, "/source/")
				if strings.HasPrefix(source, "--") || source == "bin/gemmaudit" || source == "man" { // made by RUN
					continue
				}
				copied++
				if _, err := os.Stat("../../" + source); err != nil {
					t.Error(err)
				}
			}
		case "RUN":
			run++
			if out, err := exec.Command("sh", "-n", "-c", strings.TrimPrefix(line, "RUN ")).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if copied < 5 || run < 3 {
		t.Errorf("%d files are copied and %d commands run", copied, run)
	}
}
