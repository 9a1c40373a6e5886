package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// code is quoted text: commands, names and patterns.
var code = regexp.MustCompile("`[^`]*`")

// Help texts and messages must not contain banned words. Messages are source strings of at least three words;
// quoted code and data are ignored.
func TestNoBannedWords(t *testing.T) {
	words, err := explain.BannedWords()
	if err != nil || len(words) == 0 {
		t.Fatalf("%d words: %v", len(words), err)
	}
	texts := 0
	check := func(at, text string) {
		texts++
		for _, w := range words {
			if form := w.In(code.ReplaceAllString(text, "")); form != "" {
				t.Errorf("%s: %q is banned, use %q: %.150q", at, strings.TrimSpace(form), w.Use, text)
			}
		}
	}
	a, _, _ := testApp()
	for _, c := range allCommands(newRootCommand(a)) {
		check(c.CommandPath(), c.Short+"\n"+c.Long+"\n"+c.Annotations[detailsKey])
		c.Flags().VisitAll(func(f *pflag.Flag) { check(c.CommandPath()+" --"+f.Name, f.Usage) })
	}
	for _, dir := range []string{"cmd", "kernels", "report", "results", "rules", "sweep"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && e.Name() == "testdata":
				return fs.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			found, err := literalsOf(path)
			for _, l := range found {
				if len(strings.Fields(l.text)) >= 3 {
					check(l.at, l.text)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if texts < 1000 {
		t.Errorf("%d texts were read", texts)
	}
}

// Matches are whole words in all their forms, in either case.
func TestBannedWord(t *testing.T) {
	words, err := explain.BannedWords()
	if err != nil {
		t.Fatal(err)
	}
	found := func(text string) (out []string) {
		for _, w := range words {
			if w.In(text) != "" {
				out = append(out, w.Word)
			}
		}
		return out
	}
	for text, want := range map[string]int{"Measured anew.": 1, "Perhaps; beside it": 2, "canew, anew-er and besiders": 0,
		"it was foretold": 1} {
		if got := found(text); len(got) != want {
			t.Errorf("%q has %q, expected %d words", text, got, want)
		}
	}
}
