package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelp looks at how the help text of every command is laid out; its sentences stand in the commands alone. Examples come
// first, every flag is explained, and no line is too wide.
func TestHelp(t *testing.T) {
	a, _, _ := testApp()
	for _, c := range allCommands(newRootCommand(a)) {
		names := strings.Fields(c.CommandPath())[1:]
		t.Run(strings.Join(append([]string{"gemmaudit"}, names...), "-"), func(t *testing.T) {
			a, stdout, stderr := testApp()
			if code := a.main(append(names, "--help")); code != exitClean || stderr.Len() > 0 {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			got := stdout.String()
			parts := []string{c.Short + "\n", "\nExamples:\n" + c.Example + "\n", "\n" + strings.TrimSpace(c.Long), "\nUsage:\n  gemmaudit", "\nGlobal flags:\n"}
			at := 0
			for _, part := range parts {
				i := strings.Index(got[at:], part)
				if i < 0 || part == parts[0] && i > 0 {
					t.Fatalf("%q is not in its place in:\n%s", part, got)
				}
				at += i + len(part)
			}
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() && !regexp.MustCompile(`(?m)^  `+sub.Name()+` +`+regexp.QuoteMeta(sub.Short)+`$`).MatchString(got) {
					t.Errorf("the command %s is not listed", sub.Name())
				}
			}
			for line := range strings.Lines(got) {
				line = strings.TrimSuffix(line, "\n")
				if width := len([]rune(line)); width > 160 || line != strings.TrimRight(line, " ") {
					t.Errorf("a line of %d columns, or with blanks at its end: %q", width, line)
				}
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				kind, usage := pflag.UnquoteUsage(f)
				if f.Hidden {
					return
				}
				if f.Name != "help" && (strings.HasSuffix(usage, ".") || strings.TrimSpace(usage) == "") {
					t.Errorf("--%s is not explained by a phrase: %q", f.Name, usage)
				}
				line := regexp.MustCompile(`(?m)^ +(-\w, )?--` + f.Name + `( ` + regexp.QuoteMeta(kind) + `(\[=.*\])?)? {2,}` + regexp.QuoteMeta(usage))
				if n := len(line.FindAllString(got, -1)); n != 1 {
					t.Errorf("--%s stands there %d times", f.Name, n)
				}
			})
		})
	}
}

// TestHelpLayout shows the layout of a help text, of commands that there are only here.
func TestHelpLayout(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "The tool", Example: examples("tool build"), Long: "Two lines\nof it." + exitHelp("0  clean")}
	root.SetHelpTemplate(helpTemplate)
	root.PersistentFlags().Bool("quiet", false, "no notes")
	build := &cobra.Command{Use: "build FILE", Short: "Build a file", Example: examples("tool build a  # one", "tool build b"), Run: func(*cobra.Command, []string) {}}
	build.Flags().IntP("jobs", "j", 2, "`N` at a time")
	root.AddCommand(build)
	var out strings.Builder
	root.SetOut(&out)
	for _, args := range [][]string{{"--help"}, {"build", "--help"}} {
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "help", out.String())
}

// TestCommandLines holds the arguments, flags, types and defaults of every command against a golden file: what scripts of others
// rely on changes by intention only.
func TestCommandLines(t *testing.T) {
	a, _, _ := testApp()
	var text strings.Builder
	for _, c := range allCommands(newRootCommand(a)) {
		fmt.Fprintln(&text, c.UseLine())
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || c.InheritedFlags().Lookup(f.Name) != nil {
				return
			}
			kind, _ := pflag.UnquoteUsage(f)
			words := []string{"  --" + f.Name, kind}
			if f.Shorthand != "" {
				words[0] += ", -" + f.Shorthand
			}
			if f.DefValue != "" && f.DefValue != "[]" {
				words = append(words, "= "+f.DefValue)
			}
			if f.NoOptDefVal != "" && f.NoOptDefVal != "true" {
				words = append(words, "alone "+f.NoOptDefVal)
			}
			if f.Hidden {
				words = append(words, "hidden")
			}
			fmt.Fprintln(&text, strings.TrimRight(strings.ReplaceAll(strings.Join(words, " "), "  =", " ="), " "))
		})
	}
	golden(t, "flags", text.String())
}

// golden compares text with testdata/name.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; rewrite it with -update if it is right):\n%s", path, diff)
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
