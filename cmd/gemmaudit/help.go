package main

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"
)

// helpTemplate puts examples first: most readers of a help text want the line
// to copy, and only some of them the reference below it.
const helpTemplate = `{{with .Short}}{{.}}{{end}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{with trimmed .Long}}
{{.}}
{{end}}
Usage:
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{with globalUsages .}}
Global flags:
{{. | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
"{{.CommandPath}} COMMAND --help" explains one command.
{{end}}`

func init() {
	cobra.AddTemplateFunc("trimmed", strings.TrimSpace)
	cobra.AddTemplateFunc("globalUsages", func(c *cobra.Command) string {
		return c.Root().PersistentFlags().FlagUsages()
	})
}

// printHelpAtOnce writes a help text in one piece. Cobra prints the error of each
// template that it can't write by itself, a reader that went away included.
func printHelpAtOnce(root *cobra.Command) {
	print := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		print(c, args)
		c.SetOut(out)
		_, _ = text.WriteTo(out) // the app remembers what goes wrong with its output
	})
}

// examples indents the lines of an example by two, so that sources can hold
// them as they are typed.
func examples(lines ...string) string {
	return "  " + strings.Join(lines, "\n  ")
}

// exitHelp lists exit codes at the end of a long description.
func exitHelp(lines ...string) string {
	return "\n\nExit codes:\n  " + strings.Join(lines, "\n  ")
}
