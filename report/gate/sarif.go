package gate

import (
	"cmp"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// sarifFingerprint is the SARIF name of the fingerprints. Increase its number when the fingerprints change.
const sarifFingerprint = "gemmaudit/v1"

// sarif writes the checks as one run of SARIF 2.1.0: a result per check, waivers as suppressions, and the
// command's outcome as its invocation. The location of a result is the run file; its logical location is the
// series.
func (c *Checks) sarif(w io.Writer) error {
	run := sarif.NewRun()
	driver := sarif.NewToolComponent().WithName("gemmaudit").WithVersion(singleLine(cmp.Or(c.Version, "unknown"))).
		WithInformationURI("https://github.com/gemmaudit/gemmaudit")
	run.Tool = sarif.NewTool().WithDriver(driver)
	run.WithColumnKind("utf16CodeUnits")
	run.AutomationDetails = sarif.NewRunAutomationDetails().WithID("gemmaudit/" + c.Command + "/")
	index := map[string]int{}
	for i, name := range c.ruleNames() {
		index[name] = i
		meaning := cmp.Or(ruleMeaning(name), name)
		rule := sarif.NewReportingDescriptor().WithID(name).WithShortDescription(sarif.NewMultiformatMessageString().WithText(meaning))
		if t := explain.Of(explain.Rule, name); t.Name != "" {
			rule.WithHelp(sarif.NewMultiformatMessageString().WithText(t.Text(report.DefaultWidth)).WithMarkdown(t.Markdown()))
		}
		driver.AddRule(rule)
	}
	place := fileURI(c.Path)
	for _, k := range c.List {
		run.AddResult(k.sarif(place, index[k.Rule]))
	}
	call := sarif.NewInvocation().WithExecutionSuccessful(c.Outcome.Code <= outcomeGate ||
		c.Outcome.Code == outcomeInconclusive).WithExitCode(c.Outcome.Code)
	if c.Outcome.Text != "" {
		call.WithExitCodeDescription(c.outcomeText())
	}
	if c.Outcome.Code > outcomeGate {
		call.ToolExecutionNotifications = append(call.ToolExecutionNotifications, notification("error", c.outcomeText()))
	}
	for _, warning := range c.Warnings {
		call.ToolExecutionNotifications = append(call.ToolExecutionNotifications,
			notification("warning", singleLine(warning.Subject+": "+warning.Text)))
	}
	run.AddInvocation(call)
	doc := sarif.NewReport()
	doc.AddRun(run)
	return doc.PrettyWrite(w)
}

func notification(level, text string) *sarif.Notification {
	return sarif.NewNotification().WithLevel(level).WithMessage(sarif.NewTextMessage(text))
}

func (k Check) sarif(place string, rule int) *sarif.Result {
	logical := sarif.NewLogicalLocation().WithFullyQualifiedName(singleLine(k.Subject)).WithName(singleLine(k.Name)).WithKind("resource")
	at := sarif.NewLocation().AddLogicalLocation(logical)
	at.WithPhysicalLocation(sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(place)).
		WithRegion(sarif.NewSimpleRegion(1, 1)))
	r := sarif.NewRuleResult(k.Rule).WithRuleIndex(rule).WithMessage(sarif.NewTextMessage(strings.Join(k.lines(), "\n"))).
		WithPartialFingerprints(map[string]string{sarifFingerprint: k.Fingerprint}).WithLocations([]*sarif.Location{at})
	switch k.State {
	case Passed:
		r.WithKind("pass").WithLevel("none")
	case Open:
		r.WithKind("open").WithLevel("none")
	case Noted:
		r.WithKind("fail").WithLevel("note")
	case Waived:
		r.WithKind("fail").WithLevel("note")
		r.AddSuppression(sarif.NewSuppression().WithKind("external").WithStatus("accepted").WithJustification(singleLine(k.Excuse)))
	default:
		r.WithKind("fail").WithLevel("error")
	}
	switch k.Baseline {
	case rules.BaselineNew:
		r.WithBaselineState("new")
	case rules.BaselineKnown:
		r.WithBaselineState("unchanged")
	case rules.BaselineGrown:
		r.WithBaselineState("updated")
	}
	return r
}

// fileURI returns a path as a URI. Paths below the working directory stay relative, as code scanning
// requires.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}
