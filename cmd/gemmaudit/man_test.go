package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

var macros = regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|B|nf|fi)( "[^"]*")*$`)

// Every command must have a page of known macros, with every line of its help text and every flag.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "share", "man1")
	a, _, stderr := testApp()
	if code := a.main([]string{"man", dir}); code != exitClean || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	commands := allCommands(newRootCommand(a)) // without help, which cobra adds at run time
	written, err := os.ReadDir(dir)
	if err != nil || len(written) != len(commands) {
		t.Errorf("%d pages of %d commands: %v", len(written), len(commands), err)
	}
	for _, c := range commands {
		text, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page, open := string(text), 0
		for line := range strings.Lines(page) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "'"), strings.HasPrefix(line, ".") && !macros.MatchString(line):
				t.Errorf("%s: troff would obey %q", c.CommandPath(), line)
			case line == ".nf":
				open++
			case line == ".fi":
				open--
			}
			if open < 0 || open > 1 {
				t.Errorf("%s: unfilled lines within unfilled lines, or their end by itself", c.CommandPath())
			}
		}
		holds := func(line string) {
			if line = roffText.Replace(strings.TrimSpace(line)); !strings.Contains(page, line) {
				t.Errorf("%s: the page has no %q", c.CommandPath(), line)
			}
		}
		for line := range strings.SplitSeq(c.Long+"\n"+c.Annotations[detailsKey]+"\n"+c.Example, "\n") {
			if line != "Exit codes:" {
				holds(line)
			}
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				holds(flagHead(f))
				holds(flagUsage(f))
			}
		})
	}
}

// The page of explain must have every term with its whole explanation.
func TestManPageOfWords(t *testing.T) {
	a, _, _ := testApp()
	explainCommand, _, err := newRootCommand(a).Find([]string{"explain"})
	if err != nil {
		t.Fatal(err)
	}
	page := manPage(explainCommand, "")
	for _, term := range explain.Terms() {
		for _, text := range []string{`.SS "` + roffText.Replace(term.Name) + `"`, roffText.Replace(term.Sentence()),
			roffText.Replace(term.Decided), roffText.Replace(term.Do)} {
			if !strings.Contains(page, text) {
				t.Errorf("%s %s: the page has no %q", term.Kind, term.Name, text)
			}
		}
		for line := range strings.Lines(term.Picture) {
			if !strings.Contains(page, strings.TrimLeft(roffText.Replace(line), " ")) {
				t.Errorf("%s %s: the picture lacks %q", term.Kind, term.Name, line)
			}
		}
	}
}

// troff must not interpret marks in the text.
func TestManPage(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"paragraphs", "One\ntwo.\n\nThree.", "One\ntwo.\n.PP\nThree.\n"},
		{"marks", ".SH none\n'quoted' back\\slash --flag", "\\&.SH none\n\\&'quoted' back\\eslash \\-\\-flag\n"},
		{"lines as they are", "A table:\n  one    1\n  two    2\nand on.", "A table:\n.PP\n.nf\none    1\ntwo    2\n.fi\n.PP\nand on.\n"},
		{"exit codes", "Text.\n\nExit codes:\n  0  clean", "Text.\n.SH \"EXIT STATUS\"\n.nf\n0  clean\n.fi\n"},
	} {
		p := &roff{}
		p.prose(c.text)
		if got := p.String(); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// The linker's values must be in the version line, in JSON and in manual pages.
func TestVersionNamesItsCommit(t *testing.T) {
	defer func(v, c, d string) { version, commit, date = v, c, d }(version, commit, date)
	version, commit, date = "v0.9.0", "0123456789ab", "2026-11-23"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--version"}, "gemmaudit v0.9.0 (commit 0123456789ab of 2026-11-23, go"},
		{[]string{"version"}, "gemmaudit v0.9.0 (commit 0123456789ab of 2026-11-23, go"},
		{[]string{"version", "-o", "json"}, `"commit": "0123456789ab"`},
		{[]string{"version", "-o", "csv"}, "v0.9.0,0123456789ab,2026-11-23,go"},
	} {
		a, stdout, stderr := testApp()
		if code := a.main(c.args); code != exitClean || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	a, _, _ := testApp()
	_, day := buildCommit()
	if head, _, _ := strings.Cut(manPage(newRootCommand(a), day),
		"\n"); head != `.TH "GEMMAUDIT" "1" "2026-11-23" "gemmaudit v0.9.0" "gemmaudit"` {
		t.Errorf("the page begins with %s", head)
	}
}
