package main

import (
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
"{{.CommandPath}} COMMAND --help" teaches one command.
{{end}}`

func init() {
	cobra.AddTemplateFunc("trimmed", strings.TrimSpace)
	cobra.AddTemplateFunc("globalUsages", func(c *cobra.Command) string {
		return c.Root().PersistentFlags().FlagUsages()
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
