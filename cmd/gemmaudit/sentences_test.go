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

// A sentence that people read stands once, in source: whoever changes it changes one line. Tests take it from there, or match
// a key word of it. The ceilings below are of those that stand more often; they only fall.
const (
	// mostTwice is how many string literals of source stand there once more.
	mostTwice = 114
	// mostQuoted is how many literals of tests, and commands of scripts, have fewestWords words in a row of a sentence of source.
	mostQuoted = 572
)

// fewestWords makes a text a sentence: shorter ones are key words, by which tests may know it.
const fewestWords = 5

// verb is a verb of a format, for which anything may stand in the text.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?(\d+|\*)?(\.(\d+|\*)?)?[a-zA-Z]`)

// wordsOf divides a text into runs of words that stand in it as they are.
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

// phrases are all rows of fewestWords words in a text.
func phrases(text string) (out []string) {
	for _, words := range wordsOf(text) {
		for i := 0; i+fewestWords <= len(words); i++ {
			out = append(out, strings.Join(words[i:i+fewestWords], " "))
		}
	}
	return out
}

// literal is a text and where it stands.
type literal struct{ text, at string }

// literalsOf are the strings of a Go file, without tags and imports. Strings that are joined by + count as one.
func literalsOf(path string) (out []literal, err error) {
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

// joined is the text of a string, or of strings that are joined by +.
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

// scriptLines are the commands of a script, which match what the program prints. The files below them are written anew by
// make texts.
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
		if name := e.Name(); e.IsDir() && path != "../.." && (strings.HasPrefix(name, ".") || name == "bin" || name == "build" || name == "out") {
			return fs.SkipDir
		}
		var found []literal
		switch filepath.Ext(path) {
		case ".go":
			found, err = literalsOf(path)
		case ".txtar":
			found, err = scriptLines(path)
		}
		if err != nil || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") {
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
