package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostHelpLines is the maximum length of a help text: one screen.
const mostHelpLines = 60

// TestHelp checks the layout of every help text: examples first, --help in one screen, --help-all with every
// flag and all texts, no line too wide.
func TestHelp(t *testing.T) {
	a, _, _ := testApp()
	root := newRootCommand(a)
	root.InitDefaultHelpCmd()
	for _, c := range allCommands(root) {
		c.InitDefaultHelpFlag()
		names := strings.Fields(c.CommandPath())[1:]
		t.Run(strings.Join(append([]string{"gemmaudit"}, names...), "-"), func(t *testing.T) {
			text, all := helpOf(t, names, "--help"), helpOf(t, names, "--help-all")
			if n := strings.Count(text, "\n"); n > mostHelpLines {
				t.Errorf("%d lines, expected at most %d:\n%s", n, mostHelpLines, text)
			}
			long, exits := splitExits(c.Long)
			parts := []string{c.Short + "\n", "\nExamples:\n" + c.Example + "\n", words(long), words(exits), "Usage: gemmaudit",
				"Global flags:"}
			inOrder(t, text, parts...)
			inOrder(t, all, append(parts[:3:3], append([]string{words(c.Annotations[detailsKey])}, parts[3:]...)...)...)
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() &&
					!regexp.MustCompile(`(?m)^  `+sub.Name()+` +`+regexp.QuoteMeta(sub.Short)+`$`).MatchString(text) {
					t.Errorf("the command %s is not listed", sub.Name())
				}
			}
			for line := range strings.Lines(text + all) {
				line = strings.TrimSuffix(line, "\n")
				if width := len([]rune(line)); width > helpWidth || line != strings.TrimRight(line, " ") {
					t.Errorf("a line of %d columns, or with blanks at its end: %q", width, line)
				}
			}
			shown := 0
			flags := func(f *pflag.Flag) {
				if f.Hidden {
					return
				}
				if usage := flagUsage(f); f.Name != "help" && (strings.HasSuffix(usage, ".") || strings.TrimSpace(usage) == "") {
					t.Errorf("--%s is not explained by a phrase: %q", f.Name, usage)
				}
				line := regexp.MustCompile(`(?m)^  ` +
					strings.ReplaceAll(regexp.QuoteMeta(words(flagHead(f)+" "+flagUsage(f))), " ", `\s+`) + `$`)
				if n := len(line.FindAllString(all, -1)); n != 1 {
					t.Errorf("--help-all has --%s %d times", f.Name, n)
				}
				if line.MatchString(text) {
					shown++
				}
			}
			c.LocalNonPersistentFlags().VisitAll(flags)
			c.Root().PersistentFlags().VisitAll(flags)
			if shown < 4 {
				t.Errorf("--help shows %d flags", shown)
			}
		})
	}
}

// A help text without a command is not shown.
func TestHelpFiles(t *testing.T) {
	a, _, _ := testApp()
	root := newRootCommand(a)
	root.InitDefaultHelpCmd()
	known := []string{"shared.tmpl"}
	for _, c := range allCommands(root) {
		known = append(known, strings.TrimPrefix(manName(c), "gemmaudit-")+".txt")
	}
	files, err := helpFiles.ReadDir("help")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(known, f.Name()) {
			t.Errorf("help/%s is of no command", f.Name())
		}
	}
}

func helpOf(t *testing.T, names []string, flag string) string {
	t.Helper()
	a, stdout, stderr := testApp()
	if code := a.main(append(slices.Clone(names), flag)); code != exitClean || stderr.Len() > 0 {
		t.Fatalf("%s: exit code %d, stderr %q", flag, code, stderr)
	}
	return stdout.String()
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// inOrder fails unless the parts follow each other in a text; it ignores line breaks.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	at, got := 0, words(text)
	for _, part := range parts {
		i := strings.Index(got[at:], words(part))
		if i < 0 || at == 0 && i > 0 {
			t.Fatalf("%q is not in its place in:\n%s", part, text)
		}
		at += i + len(words(part))
	}
}

// Every flag of a command with many flags must be in a group, and lists of flags must name existing flags.
func TestFlagGroups(t *testing.T) {
	a, _, _ := testApp()
	known := map[string]bool{}
	for _, c := range allCommands(newRootCommand(a)) {
		c.InitDefaultHelpFlag()
		own := map[string]bool{}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			own[f.Name] = true
			for _, key := range []string{f.Name, c.Name() + "/" + f.Name, parent(c) + "/" + f.Name} {
				known[key] = true
			}
		})
		if s := sectionsOf(c); len(s[0].flags) > ungrouped {
			t.Errorf("%s: %d flags are in no group, as --%s", c.CommandPath(), len(s[0].flags), s[0].flags[0].Name)
		} else if len(s[0].flags) > 0 && slices.ContainsFunc(s[1:len(s)-1], func(s flagSection) bool { return len(s.flags) > 0 }) {
			t.Errorf("%s: --%s is in no group", c.CommandPath(), s[0].flags[0].Name)
		}
		for _, name := range commonFlags[commandName(c)] {
			if !own[name] {
				t.Errorf("%s: commonFlags has --%s, which it does not have", c.CommandPath(), name)
			}
		}
	}
	for _, g := range flagGroups {
		for _, name := range g.flags {
			if !known[name] {
				t.Errorf("group %s has --%s, which no command has", g.title, name)
			}
		}
	}
}

func TestHelpLayout(t *testing.T) {
	root := &cobra.Command{Use: "tool", Short: "The tool", Example: "  tool build",
		Long: "Two lines\nof it.\n\nExit codes:\n  0  clean"}
	root.PersistentFlags().Bool("quiet", false, "no notes")
	build := &cobra.Command{Use: "build FILE", Short: "Build a file", Example: "  tool build a  # one\n  tool build b",
		Run: func(*cobra.Command, []string) {}}
	build.Flags().IntP("jobs", "j", 2, "`N` at a time")
	root.AddCommand(build)
	var out strings.Builder
	root.SetOut(&out)
	printHelp(root)
	for _, args := range [][]string{{"--help"}, {"build", "--help"}} {
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "help", out.String())
}

// Scripts rely on arguments, flags, types and defaults, so a golden file has them all.
func TestCommandLines(t *testing.T) {
	a, _, _ := testApp()
	var text strings.Builder
	for _, c := range allCommands(newRootCommand(a)) {
		fmt.Fprintln(&text, c.UseLine())
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == helpAllFlag || c.InheritedFlags().Lookup(f.Name) != nil {
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

// Example command lines must parse: flags must exist and take the shown values.
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

// parses returns the error in a command line without the program's name: in the command, its flags and
// values, or the number of arguments.
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

// shellWords splits a line like a shell, including quotes, up to a redirection.
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
