package gate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// github writes the checks as workflow commands: an error for each failure of the gate, a notice for each
// open, noted or waived check, and no line for a passed one. Warnings about the data follow as warnings, then
// the command's outcome.
func (c *Checks) github(w io.Writer) error {
	out := bufio.NewWriter(w)
	command := func(level, title, text string) {
		fmt.Fprintf(out, "::%s file=%s,title=%s::%s\n", level, githubProperty(c.Path), githubProperty(singleLine(title)), githubData(text))
	}
	for _, k := range c.List {
		text := strings.Join(k.lines(), "\n")
		switch k.State {
		case Passed:
		case Failed:
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

// Characters that end a command's data or a property are escaped as in GitHub's toolkit. Other control
// characters are dropped, except line breaks.
var (
	githubDataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubPropertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func githubData(s string) string     { return githubDataEscapes.Replace(s) }
func githubProperty(s string) string { return githubPropertyEscapes.Replace(s) }
