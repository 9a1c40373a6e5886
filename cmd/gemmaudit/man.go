package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:  "man DIR",
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return writeManPages(cmd.Root(), args[0]) },
	}
}

func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return devicef("create the folder of manual pages: %w", err)
	}
	_, day := buildCommit()
	for _, c := range allCommands(root) {
		if !c.IsAvailableCommand() {
			continue
		}
		c.InitDefaultHelpFlag() // cobra adds it only at run time
		page := filepath.Join(dir, manName(c)+".1")
		if err := os.WriteFile(page, []byte(manPage(c, day)), 0o644); err != nil {
			return devicef("write a manual page: %w", err)
		}
	}
	return nil
}

// manName is the name of a command's page: gemmaudit-table-check.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's page in man(7) macros. day is the date of the sources.
func manPage(c *cobra.Command, day string) string {
	p := &roff{}
	fmt.Fprintf(p, ".TH \"%s\" \"1\" \"%s\" \"gemmaudit %s\" \"gemmaudit\"\n", strings.ToUpper(manName(c)), day, buildVersion())
	p.macro("SH", "NAME")
	p.text(manName(c) + " - " + c.Short)
	p.macro("SH", "SYNOPSIS")
	p.verbatim(synopsis(c))
	p.macro("SH", "EXAMPLES")
	p.verbatim(c.Example)
	text, exits := splitExits(c.Long)
	if text = strings.TrimSpace(text + "\n\n" + c.Annotations[detailsKey]); text != "" {
		p.macro("SH", "DESCRIPTION")
		p.prose(text)
	}
	if exits != "" {
		p.prose(exits)
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
	for _, s := range sectionsOf(c) {
		p.flags(s)
	}
	p.macro("SH", "SEE ALSO")
	p.text(strings.Join(related(c), ", "))
	return p.String()
}

// synopsis shows how to call a command.
func synopsis(c *cobra.Command) string {
	if c.Runnable() {
		return c.UseLine()
	}
	return c.CommandPath() + " COMMAND"
}

// related lists the pages of parent and child commands, and of explain.
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

// words writes the explanations of all terms, one section per kind.
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
	p.verbatim(query.Help(helpWidth))
}

type roff struct{ strings.Builder }

// roffText escapes troff's special characters and keeps hyphens as ASCII.
var roffText = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// text writes a line literally, even if it looks like a macro.
func (p *roff) text(line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		p.WriteString(`\&`)
	}
	p.WriteString(roffText.Replace(line) + "\n")
}

func (p *roff) macro(name string, args ...string) {
	p.WriteString("." + name)
	for _, arg := range args {
		p.WriteString(` "` + strings.ReplaceAll(roffText.Replace(arg), `"`, `\(dq`) + `"`)
	}
	p.WriteString("\n")
}

// verbatim writes unfilled lines. If all are indented, as in help texts, it removes two spaces.
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

// prose writes a help text: paragraphs, indented lines unchanged, and exit codes in their own section.
func (p *roff) prose(text string) {
	var block []string
	begun := false // whether the section has content
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

// flags writes a section of flags, if it has any.
func (p *roff) flags(section flagSection) {
	if len(section.flags) == 0 {
		return
	}
	p.macro("SH", strings.ToUpper(section.title))
	for _, f := range section.flags {
		p.macro("TP")
		p.macro("B", flagHead(f))
		p.text(flagUsage(f))
	}
}
