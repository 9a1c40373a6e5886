package gate

import (
	"io"
	"slices"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
)

// junit writes the checks as JUnit XML: a suite per subject, a case per check, and a case for the command's
// outcome. Open, noted and waived checks are skipped, with the advice. Only what fails the gate is a failure;
// a command without a verdict is an error. Attributes follow the schema that Jenkins uses to read reports.
func (c *Checks) junit(w io.Writer) error {
	all := junit.Testsuites{Name: "gemmaudit " + c.Command}
	for _, group := range c.bySubject() {
		suite := junit.Testsuite{Name: singleLine(group[0].Subject), ID: len(all.Suites), Time: "0", File: singleLine(c.Path)}
		for _, k := range group {
			tc := junit.Testcase{Name: singleLine(k.Name), Classname: suite.Name}
			lines := k.lines()
			result := &junit.Result{Message: singleLine(k.Text), Type: k.Rule, Data: strings.Join(lines, "\n")}
			switch k.State {
			case Passed:
				tc.SystemOut = &junit.Output{Data: result.Data}
			case Failed:
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
		// A failed check is one failure, not two.
		if slices.ContainsFunc(c.List, func(k Check) bool { return k.State == Failed }) {
			verdict.SystemOut = &junit.Output{Data: result.Message + "\n" + result.Data}
		} else {
			verdict.Failure = result
		}
	default:
		verdict.Error = result
	}
	suite.AddTestcase(verdict)
	if text := c.warningText(); text != "" {
		suite.SystemErr = &junit.Output{Data: text}
	}
	all.AddSuite(suite)
	all.Skipped = 0 // the schema allows it on suites only
	if _, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return all.WriteXML(w)
}

func (c *Checks) outcomeText() string {
	text := singleLine(c.Outcome.Text)
	if c.Outcome.Hint != "" {
		text += "\nnext: " + singleLine(c.Outcome.Hint)
	}
	return text
}

func (c *Checks) warningText() string {
	var lines []string
	for _, w := range c.Warnings {
		lines = append(lines, singleLine(w.Subject+": "+w.Text))
	}
	return strings.Join(lines, "\n")
}
