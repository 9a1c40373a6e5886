package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelp holds every help text against its golden file, and demands that
// examples come first and that every flag is explained.
func TestHelp(t *testing.T) {
	a, _, _ := testApp()
	for _, c := range allCommands(newRootCommand(a)) {
		names := strings.Fields(c.CommandPath())[1:]
		args := append(names, "--help")
		golden := "gemmaudit"
		if len(names) > 0 {
			golden = strings.Join(names, "-")
		}
		t.Run(golden, func(t *testing.T) {
			a, stdout, stderr := testApp()
			if code := a.main(args); code != exitClean || stderr.Len() > 0 {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			got := stdout.String()
			if example, text := strings.Index(got, "\nExamples:\n"), strings.Index(got, "\nUsage:\n"); example < 0 || example > text {
				t.Error("examples do not come first")
			}
			for line := range strings.Lines(got) {
				if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 160 {
					t.Errorf("a line of %d columns: %s", width, line)
				}
			}
			path := filepath.Join("testdata", "help", golden+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the help text is not that of %s; rewrite it with -update if it is right:\n%s", path, got)
			}
		})
	}
}

// TestExamplesParse runs the command line of every example up to the point
// where it would do something: flags must exist and take the values shown.
func TestExamplesParse(t *testing.T) {
	a, _, _ := testApp()
	root := newRootCommand(a)
	for _, c := range allCommands(root) {
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			for part := range strings.SplitSeq(line, "&&") {
				words := shellWords(part)
				if len(words) < 2 || words[0] != "gemmaudit" {
					continue
				}
				if err := parses(words[1:]); err != nil {
					t.Errorf("%s: example %q: %v", c.Name(), line, err)
				}
			}
		}
	}
}

// parses says what is wrong with the words of a command line behind the program's name: with the command,
// its flags and their values, or the number of its arguments.
func parses(words []string) error {
	a, _, _ := testApp()
	target, rest, err := newRootCommand(a).Find(words)
	if err != nil {
		return err
	}
	if target.Name() == "gemmaudit" && !strings.HasPrefix(words[0], "-") {
		return fmt.Errorf("there is no command %q", words[0])
	}
	if err := target.ParseFlags(rest); err != nil {
		if err == flag.ErrHelp {
			return nil
		}
		return err
	}
	return target.ValidateArgs(target.Flags().Args())
}

// shellWords splits a line as a shell would, quotes included, up to a
// redirection.
func shellWords(line string) []string {
	var words []string
	for _, w := range strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "source <(")) {
		if strings.HasPrefix(w, ">") || w == "|" {
			break
		}
		if n := len(words); n > 0 && strings.Count(words[n-1], "'")%2 == 1 {
			words[n-1] += " " + w
			continue
		}
		words = append(words, strings.TrimSuffix(w, ")"))
	}
	return words
}
