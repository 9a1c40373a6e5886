package main

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// helpFiles has a file for each command, under the name of its manual page without the program's:
// a summary, examples, a description with exit codes, and details that only --help-all and the manual page show.
//
//go:embed help
var helpFiles embed.FS

var helpTexts = sync.OnceValue(func() *template.Template {
	insert := template.FuncMap{"rules": rulesHelp, "listed": listedHelp}
	return template.Must(template.New("help").Funcs(insert).ParseFS(helpFiles, "help/*"))
})

// describe gives a command the texts of its file. It panics without one, so every test detects the mistake.
func describe(c *cobra.Command) {
	if c.Short != "" {
		return
	}
	var text strings.Builder
	if err := helpTexts().ExecuteTemplate(&text, strings.TrimPrefix(manName(c), "gemmaudit-")+".txt", nil); err != nil {
		panic(err)
	}
	rest, details, _ := strings.Cut(text.String(), "\nDetails:\n")
	c.Short, rest, _ = strings.Cut(rest, "\n\nExamples:\n")
	c.Example, c.Long, _ = strings.Cut(strings.TrimRight(rest, "\n"), "\n\n")
	c.Annotations = map[string]string{detailsKey: strings.TrimSpace(details)}
}

func rulesHelp() string {
	var b strings.Builder
	b.WriteString("Rules, and what breaks them:")
	for _, r := range rules.AllRules() {
		fmt.Fprintf(&b, "\n  %-12s %s", r, r.Meaning())
	}
	return b.String()
}

// listedHelp explains --where, --sort and --top for a list of findings, remedies, changes or samples.
func listedHelp(name string) string {
	of := map[string]query.Set{"findings": query.Findings, "remedies": query.Remedies, "changes": query.Changes,
		"samples": query.Samples}[name]
	var names []string
	for _, n := range query.Names(of) {
		names = append(names, n.Name)
	}
	return "--where, --sort and --top select what is listed, in every format. They never change verdicts, summaries,\n" +
		"tables of remedies or the exit code. Operators: == (or =) != < <= > >= in contains matches && || !. Names:\n" +
		explain.Hanging("  ", strings.Join(names, ", ")+".", helpWidth) + "`gemmaudit explain where` explains them."
}
