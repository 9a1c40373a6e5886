package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// github writes the checks as workflow commands: an error for what fails the gate, a notice for what is open, noted or waived,
// nothing for what has passed, warnings of the data as warnings, and last the command's outcome.
func (c *Checks) github(w io.Writer) error {
	out := bufio.NewWriter(w)
	command := func(level, title, text string) {
		fmt.Fprintf(out, "::%s file=%s,title=%s::%s\n", level, githubProperty(c.Path), githubProperty(singleLine(title)), githubData(text))
	}
	for _, k := range c.List {
		text := strings.Join(k.lines(), "\n")
		switch k.State {
		case CheckPassed:
		case CheckFailed:
			command("error", k.Rule+": "+k.Subject, text)
		default:
			command("notice", string(k.State)+", "+k.Rule+": "+k.Subject, text)
		}
	}
	for _, warning := range c.Warnings {
		command("warning", warning.Subject, singleLine(warning.Text))
	}
	title := "gemmaudit " + c.Command
	switch c.Outcome.Code {
	case outcomeClean:
		command("notice", title, "the gate has not failed")
	default:
		command("error", title, c.outcomeText())
	}
	return out.Flush()
}

// The characters that end a command's data or one of its properties are escaped as GitHub's own toolkit does. Others that
// a terminal would obey are dropped, but for the end of a line.
var (
	githubDataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubPropertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func githubData(s string) string     { return githubDataEscapes.Replace(s) }
func githubProperty(s string) string { return githubPropertyEscapes.Replace(s) }
