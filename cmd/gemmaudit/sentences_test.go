package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// Each printed sentence is in source once, so changing it means changing one line. Tests use the source's
// text or match a key word. These limits count the exceptions; never raise them.
const (
	// mostTwice limits the string literals that source repeats.
	mostTwice = 100
	// mostQuoted limits the test literals and script commands that quote fewestWords consecutive words of a
	// source sentence.
	mostQuoted = 435
)

// fewestWords makes a text a sentence; tests may match shorter key words.
const fewestWords = 5

// verb matches a format verb, which can stand for any text.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.(\d+|\*)?)?[a-zA-Z]`)

// wordsOf divides a text into runs of fixed words.
func wordsOf(text string) (runs [][]string) {
	for _, run := range verb.Split(text, -1) {
		var words []string
		for _, w := range strings.Fields(run) {
			w = strings.TrimFunc(strings.ReplaceAll(w, `\`, ""), func(r rune) bool { return !unicode.IsLetter(r) })
			if w != "" {
				words = append(words, w)
			}
		}
		runs = append(runs, words)
	}
	return runs
}

func phrases(text string) (out []string) {
	for _, words := range wordsOf(text) {
		for i := 0; i+fewestWords <= len(words); i++ {
			out = append(out, strings.Join(words[i:i+fewestWords], " "))
		}
	}
	return out
}

type literal struct{ text, at string }

func literalsOf(path string) (out []literal, err error) {
	if filepath.Ext(path) != ".go" {
		text, err := os.ReadFile(path)
		return []literal{{string(text), strings.TrimPrefix(path, "../../")}}, err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(text string, at token.Pos) {
		out = append(out, literal{text, fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "../../"), files.Position(at).Line)})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BinaryExpr:
			if text, ok := joined(n); ok {
				add(text, n.Pos())
				return false
			}
		case *ast.BasicLit:
			if text, ok := joined(n); ok {
				add(text, n.Pos())
			}
		}
		return true
	})
	return out, nil
}

func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, isText := joined(e.X)
		b, alsoText := joined(e.Y)
		return a + b, e.Op == token.ADD && isText && alsoText
	}
	return "", false
}

// scriptLines returns a script's commands, which match the program's output. make texts rewrites the files
// after them.
func scriptLines(path string) (out []literal, err error) {
	text, err := os.ReadFile(path)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "-- ") {
			break
		}
		if !strings.HasPrefix(line, "#") {
			out = append(out, literal{line, fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "../../"), i+1)})
		}
	}
	return out, err
}

func TestSentencesStandOnce(t *testing.T) {
	first, phrase := map[string]string{}, map[string]string{}
	var twice, quoted []string
	var tests []literal
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && path != "../.." &&
			(strings.HasPrefix(name, ".") || name == "bin" || name == "build" || name == "out") {
			return fs.SkipDir
		}
		var found []literal
		help := filepath.Base(filepath.Dir(path)) == "help"
		switch ext := filepath.Ext(path); {
		case ext == ".go", help && !e.IsDir():
			found, err = literalsOf(path)
		case ext == ".txtar":
			found, err = scriptLines(path)
		}
		if err != nil || strings.HasSuffix(path, "_test.go") || !help && !strings.HasSuffix(path, ".go") {
			tests = append(tests, found...)
			return err
		}
		for _, l := range found {
			for _, p := range phrases(l.text) {
				phrase[p] = l.at
			}
			words := 0
			for _, run := range wordsOf(l.text) {
				words += len(run)
			}
			if words < fewestWords {
				continue
			}
			if at, stands := first[l.text]; stands {
				twice = append(twice, fmt.Sprintf("%s has a sentence of %s: %.100q", l.at, at, l.text))
			} else {
				first[l.text] = l.at
			}
		}
		return nil
	})
	if err != nil || len(first) == 0 || len(tests) == 0 {
		t.Fatalf("%d sentences and %d texts of tests were read: %v", len(first), len(tests), err)
	}
	for _, l := range tests {
		for _, p := range phrases(l.text) {
			if at, stands := phrase[p]; stands {
				quoted = append(quoted, fmt.Sprintf("%s quotes %s: %q", l.at, at, p))
				break
			}
		}
	}
	for _, c := range []struct {
		what  string
		found []string
		most  int
	}{{"sentences of source stand there twice", twice, mostTwice}, {"texts of tests quote a sentence of source", quoted, mostQuoted}} {
		if len(c.found) > c.most {
			t.Errorf("%d %s, expected at most %d:\n%s", len(c.found), c.what, c.most, strings.Join(c.found, "\n"))
		}
	}
	t.Logf("%d and %d:\n%s", len(twice), len(quoted), strings.Join(append(twice, quoted...), "\n"))
}

// quotedCommand matches a command line within a sentence.
var quotedCommand = regexp.MustCompile("`gemmaudit ([a-z]+(?: [a-z]+)?)")

// A sentence may only advise commands that exist.
func TestAdvisedCommandsExist(t *testing.T) {
	a, _, _ := testApp()
	root := newRootCommand(a)
	seen := 0
	for _, pattern := range []string{"*.go", "help/*", "../../report/*.go", "../../rules/*.go", "../../rules/infer/*.go",
		"../../rules/phrase/*.go", "../../rules/diff/*.go", "../../rules/cause/*.go", "../../rules/outcome/*.go",
		"../../rules/baseline/*.go", "../../rules/cards/*.go", "../../rules/remedy/*.go",
		"../../rules/triage/*.go", "../../rules/choose/*.go", "../../results/*.go", "../../sweep/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			found, err := literalsOf(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range found {
				for _, m := range quotedCommand.FindAllStringSubmatch(l.text, -1) {
					seen++
					words := strings.Fields(m[1])
					cmd, rest, err := root.Find(words)
					if err != nil || cmd == root || cmd.HasSubCommands() && len(rest) > 0 {
						t.Errorf("%s: no command %q", l.at, m[1])
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands found", seen)
	}
}
