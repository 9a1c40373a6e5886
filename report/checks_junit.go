package report

import (
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// junit writes the checks as JUnit's XML: a suite for each subject, a case for each check, and a case for the command's
// outcome. What is open, noted or waived is skipped, with what to do next; only what fails the gate is a failure, and a command
// that reached no verdict an error. Attributes are those of the schema that Jenkins reads reports by.
func (c *Checks) junit(w io.Writer) error {
	all := junit.Testsuites{Name: "gemmaudit " + c.Command}
	for _, group := range c.bySubject() {
		suite := junit.Testsuite{Name: singleLine(group[0].Subject), ID: len(all.Suites), Time: "0", File: singleLine(c.Path)}
		for _, k := range group {
			tc := junit.Testcase{Name: singleLine(k.Name), Classname: suite.Name}
			lines := k.lines()
			result := &junit.Result{Message: singleLine(k.Text), Type: k.Rule, Data: strings.Join(lines, "\n")}
			switch k.State {
			case CheckPassed:
				tc.SystemOut = &junit.Output{Data: result.Data}
			case CheckFailed:
				tc.Failure = result
			default:
				result.Type = string(k.State)
				if len(lines) > 1 {
					result.Message += "; " + strings.Join(lines[1:], "; ")
				}
				tc.Skipped = result
			}
			suite.AddTestcase(tc)
		}
		all.AddSuite(suite)
	}
	suite := junit.Testsuite{Name: "gate", ID: len(all.Suites), Time: "0", File: singleLine(c.Path)}
	suite.AddProperty("gemmaudit", singleLine(c.Version))
	verdict := junit.Testcase{Name: c.Command, Classname: "gate"}
	result := &junit.Result{Message: singleLine(c.Outcome.Text), Type: "gate", Data: c.outcomeText()}
	switch c.Outcome.Code {
	case outcomeClean:
	case outcomeGate:
		verdict.Failure = result
	default:
		verdict.Error = result
	}
	suite.AddTestcase(verdict)
	if text := c.warningText(); text != "" {
		suite.SystemErr = &junit.Output{Data: text}
	}
	all.AddSuite(suite)
	all.Skipped = 0 // which the schema has for suites alone
	if _, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}

// outcomeText is why the command ends as it does, and what to do about it.
func (c *Checks) outcomeText() string {
	text := singleLine(c.Outcome.Text)
	if c.Outcome.Hint != "" {
		text += "\nnext: " + singleLine(c.Outcome.Hint)
	}
	return text
}

// warningText lists the warnings, a line each.
func (c *Checks) warningText() string {
	var lines []string
	for _, w := range c.Warnings {
		lines = append(lines, singleLine(w.Subject+": "+w.Text))
	}
	return strings.Join(lines, "\n")
}
