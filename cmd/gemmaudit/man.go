package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages, one a command, into a folder",
		Example: examples(
			"gemmaudit man ~/.local/share/man/man1   # man gemmaudit-sweep",
			"gemmaudit man . && man ./gemmaudit.1",
		),
		Long: `The pages hold what the help texts hold; gemmaudit-explain.1 has the words of the output as well. The folder is made if need be; pages of the same
names are replaced, and other files stay. Pages are dated by the commit that the program was built from.`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return writeManPages(cmd.Root(), args[0]) },
	}
}

// writeManPages writes the page of every command below root into a folder.
func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return devicef("make the folder of manual pages: %w", err)
	}
	_, day := buildCommit()
	for _, c := range allCommands(root) {
		if !c.IsAvailableCommand() {
			continue
		}
		c.InitDefaultHelpFlag() // as each has when it is called
		page := filepath.Join(dir, manName(c)+".1")
		if err := os.WriteFile(page, []byte(manPage(c, day)), 0o644); err != nil {
			return devicef("write a manual page: %w", err)
		}
	}
	return nil
}

// manName is the name of a command's page: gemmaudit-table-check.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's page in the macros of man(7). The day is that of its sources.
func manPage(c *cobra.Command, day string) string {
	p := &roff{}
	fmt.Fprintf(p, ".TH \"%s\" \"1\" \"%s\" \"gemmaudit %s\" \"gemmaudit\"\n", strings.ToUpper(manName(c)), day, buildVersion())
	p.macro("SH", "NAME")
	p.text(manName(c) + " - " + c.Short)
	p.macro("SH", "SYNOPSIS")
	p.verbatim(synopsis(c))
	p.macro("SH", "EXAMPLES")
	p.verbatim(c.Example)
	if c.Long != "" {
		p.macro("SH", "DESCRIPTION")
		p.prose(c.Long)
	}
	if c.Name() == "explain" {
		p.words()
	}
	if c.HasAvailableSubCommands() {
		p.macro("SH", "COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				p.macro("TP")
				p.macro("B", sub.Name())
				p.text(sub.Short)
			}
		}
	}
	p.flags("OPTIONS", c.LocalNonPersistentFlags())
	p.flags("GLOBAL OPTIONS", c.Root().PersistentFlags())
	p.macro("SH", "SEE ALSO")
	p.text(strings.Join(related(c), ", "))
	return p.String()
}

// synopsis is how a command is called.
func synopsis(c *cobra.Command) string {
	if c.Runnable() {
		return c.UseLine()
	}
	return c.CommandPath() + " COMMAND"
}

// related are the pages of the commands above and below a command, and the one that explains words.
func related(c *cobra.Command) []string {
	var names []string
	if c.HasParent() {
		names = append(names, manName(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, manName(sub)+"(1)")
		}
	}
	if words := "gemmaudit-explain(1)"; c.Name() != "explain" && !slices.Contains(names, words) {
		names = append(names, words)
	}
	return names
}

// words writes what explain says of all words, those of a kind in a section.
func (p *roff) words() {
	for _, kind := range explain.Kinds() {
		p.macro("SH", "WORDS: "+strings.ToUpper(string(kind)))
		for _, t := range explain.Terms() {
			if t.Kind != kind {
				continue
			}
			p.macro("SS", t.Name)
			p.text(t.Sentence())
			p.macro("PP")
			p.verbatim(t.Picture)
			p.macro("PP")
			p.text("How it is decided: " + t.Decided)
			p.macro("PP")
			p.text("What to do: " + t.Do)
		}
	}
	p.macro("SH", "WORDS: --where, --sort")
	p.verbatim(whereText())
}

// roff is a manual page while it is written.
type roff struct{ strings.Builder }

// roffText replaces what troff would obey, and keeps hyphens such as a shell reads them.
var roffText = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// text writes a line as it is, whatever it begins with.
func (p *roff) text(line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		p.WriteString(`\&`)
	}
	p.WriteString(roffText.Replace(line) + "\n")
}

// macro writes a macro with its arguments.
func (p *roff) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		p.WriteString(` "` + strings.ReplaceAll(roffText.Replace(arg), `"`, `\(dq`) + `"`)
	}
	p.WriteString("\n")
}

// verbatim writes lines that are not filled. Where all are indented, as in help texts, each loses two spaces.
func (p *roff) verbatim(lines string) {
	p.macro("nf")
	all := strings.Split(strings.TrimRight(lines, "\n"), "\n")
	indent := "  "
	if slices.ContainsFunc(all, func(line string) bool { return line != "" && !strings.HasPrefix(line, indent) }) {
		indent = ""
	}
	for _, line := range all {
		p.text(strings.TrimPrefix(line, indent))
	}
	p.macro("fi")
}

// prose writes a help text: paragraphs, between which lines may stand that are indented and stay as
// they are, and the list of exit codes, which has a section of its own.
func (p *roff) prose(text string) {
	var block []string
	begun := false // whether something stands in the section
	flush := func() {
		if len(block) == 0 {
			return
		}
		if begun {
			p.macro("PP")
		}
		begun = true
		if strings.HasPrefix(block[0], " ") {
			p.verbatim(strings.Join(block, "\n"))
		} else {
			for _, line := range block {
				p.text(line)
			}
		}
		block = nil
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		switch indented := strings.HasPrefix(line, " "); {
		case line == "":
			flush()
			continue
		case line == "Exit codes:":
			flush()
			p.macro("SH", "EXIT STATUS")
			begun = false
			continue
		case len(block) > 0 && indented != strings.HasPrefix(block[0], " "):
			flush()
		}
		block = append(block, line)
	}
	flush()
}

// flags writes a section of flags; one without any is left out.
func (p *roff) flags(section string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.macro("SH", section)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", cmp.Or(strings.Trim(f.DefValue, "[]"), f.DefValue))
		}
		p.macro("TP")
		p.macro("B", name)
		p.text(usage)
	})
}
