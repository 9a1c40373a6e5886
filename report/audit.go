package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// WriteAudit prints the verdicts of a run. If the audit lists selected findings, the summary and the series
// still count all findings. JSON is the audit; with inferred rows it omits the clean ones
// ([rules.Audit.WithoutClean]). JSONL and CSV hold one finding a line, bench every sample of the series. meta
// and series belong to the run.
func WriteAudit(w io.Writer, f Format, meta results.Meta, series []results.Series, audit *rules.Audit) error {
	doc := &Document{Subject: "audit", Value: audit, Items: items(audit.Findings), Head: append(auditHead(audit), sustainedNotes(audit)...)}
	if len(audit.Labels) > 0 {
		doc.Head = append(doc.Head, Note{"labels: " + audit.Labels.String(), Faint})
	}
	doc.Head = append(doc.Head, selectionNotes(audit.Selection, "finding", "findings")...)
	if f == JSON {
		doc.Value = audit.WithoutClean()
	}
	doc.Head = append(doc.Head, disturbanceNotes(series)...)
	doc.Sheets = []Sheet{FindingSheet(meta, audit), verdictSheet(audit.Whole())}
	doc.Sheets[0].Title, doc.Sheets[1].Title = "Findings", verdictTitle("Series", audit)
	if len(audit.Fusing) > 0 {
		doc.Sheets = append(doc.Sheets, fusingSheet(audit))
	}
	doc.Sheets = append(doc.Sheets, cardSheets(audit.Cards)...)
	doc.Sheets = append(doc.Sheets, launchSheets(audit, f == Wide)...)
	doc.Head = append(doc.Head, launchDiffersNotes(audit)...)
	doc.Head = append(doc.Head, cardNotes(audit.Cards)...)
	doc.Notes = warningNotes(audit.Warnings)
	if f == Table && meta.Source == "" {
		doc.Notes = append(reproduceNotes(audit.Findings), doc.Notes...)
	}
	if f == Table {
		doc.Notes = append(causeNotes(audit.Findings), doc.Notes...)
	}
	if len(series) > 0 {
		doc.Bench = func(w io.Writer) error { return WriteBench(w, meta, series) }
	}
	return doc.Render(w, f)
}

func AuditSummary(a *rules.Audit) string {
	a = a.Whole()
	if a.Invalid != "" {
		return "the run can't be judged: " + a.Invalid
	}
	t := tally(a.Findings)
	flagged := 0
	for _, s := range a.Series {
		flagged += len(s.Flagged)
	}
	if len(a.Series) == 0 {
		flagged = len(a.Flagged)
	}
	var found []string
	for _, s := range []rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Suspected, rules.Waived} {
		if t[s] > 0 {
			found = append(found, fmt.Sprintf("%d %s", t[s], s))
		}
	}
	what := "no findings"
	if len(found) > 0 {
		what = Count(len(a.Findings), "finding") + " (" + strings.Join(found, ", ") + ")"
	}
	held := 0
	findings := rules.FindingsBySeries(a.Findings)
	for _, s := range a.Series {
		held += heldAgainst(findings[s.Key], s)
	}
	if len(a.Series) == 0 {
		for _, f := range a.Findings {
			held += f.Rows
		}
	}
	s := what + " in " + Count(a.Cases, "case")
	if len(a.Findings) > 0 {
		s += ", spanning " + Count(held, "row")
	}
	if rule := RowRule(a); rule != "" {
		s += fmt.Sprintf("; %s rule: %s anomalous, ", rule, Count(flagged, "row"))
		if a.Marginal > 0 {
			s += fmt.Sprintf("%d marginal, ", a.Marginal)
		}
		s += fmt.Sprintf("%d undecided", a.Undecided)
		if a.Unjudged > 0 {
			s += fmt.Sprintf(", %d unjudged", a.Unjudged)
		}
	}
	if a.Inference != nil {
		s += "; " + inferenceText(*a.Inference)
	}
	return s
}

func inferenceText(i infer.Inference) string {
	s := fmt.Sprintf("%s measured, %d inferred", Count(i.Measured, "row"), i.Inferred)
	if i.Open > 0 {
		s += fmt.Sprintf(", %d not known", i.Open)
	}
	if i.Checked > 0 {
		s += fmt.Sprintf("; %d of %s (%s) inside the interval inferred", i.Inside, Count(i.Checked, "check row"), FormatShare(i.Share()))
	}
	return s
}

// RowRule returns the rule that judges the audit's rows; may be empty.
func RowRule(a *rules.Audit) rules.Rule {
	if a.RowRule == "" && a.Method != rules.MethodArticle {
		return rules.Monotonic
	}
	return a.RowRule
}

// disturbedShare is the share of disturbed samples above which a note is printed.
const disturbedShare = 0.05

func disturbanceNotes(series []results.Series) []Note {
	samples, disturbed := 0, 0
	kinds := map[string]int{}
	for _, s := range series {
		for _, r := range s.Rows {
			for _, sample := range r.Samples {
				samples++
				if sample.Disturbance == "" {
					continue
				}
				disturbed++
				for _, kind := range kernels.ParseDisturbance(sample.Disturbance).Kinds() {
					kinds[kind]++
				}
			}
		}
	}
	if samples == 0 || float64(disturbed) <= disturbedShare*float64(samples) {
		return nil
	}
	var words []string
	for kind, n := range kinds {
		words = append(words, fmt.Sprintf("%s %d", kind, n))
	}
	slices.Sort(words)
	return []Note{Notef(Open, "%d of %s (%s) carry a disturbance: %s", disturbed, Count(samples, "sample"),
		FormatShare(float64(disturbed)/float64(samples)), strings.Join(words, ", "))}
}

func tally(findings []rules.Finding) map[rules.Status]int {
	t := map[rules.Status]int{}
	for _, f := range findings {
		t[f.Status]++
	}
	return t
}

func notAppliedText(a *rules.Audit) string {
	return fmt.Sprintf("method %s does not apply these rules: %s", a.Method, rules.RuleList(a.NotApplied))
}

// JudgedText counts the rows judged by each rule, and explains why others were not. It is empty if every rule
// judged all rows.
func JudgedText(judged []rules.Judged) string {
	var words []string
	for _, j := range judged {
		var not []string
		if j.Undecided > 0 {
			not = append(not, fmt.Sprintf("%d undecided", j.Undecided))
		}
		if j.Suspectable > 0 {
			not = append(not, fmt.Sprintf("%d with too few samples", j.Suspectable))
		}
		if n := j.Rows - j.Compared() - j.Suspectable; n > 0 {
			not = append(not, fmt.Sprintf("%d with nothing to compare with", n))
		}
		if len(not) == 0 {
			continue
		}
		words = append(words, fmt.Sprintf("%s %d of %s (%s)", j.Rule, j.Decided, Count(j.Rows, "row"), strings.Join(not, ", ")))
	}
	if len(words) == 0 {
		return ""
	}
	return "judged by rule: " + strings.Join(words, "; ")
}

func auditHead(a *rules.Audit) []Note {
	a = a.Whole()
	tone := Good
	t := tally(a.Findings)
	switch {
	case a.Invalid != "" || t[rules.Confirmed] > 0:
		tone = Bad
	case t[rules.Unconfirmed]+t[rules.Suspected] > 0 || a.Undecided+a.Marginal > 0 || a.Inference != nil && !a.Inference.Kept():
		tone = Open
	}
	var head []Note
	if len(a.NotApplied) > 0 {
		head = append(head, Note{notAppliedText(a), Open})
	}
	head = append(head, Note{AuditSummary(a), tone})
	if text := baseline.Text(a); text != "" {
		head = append(head, Note{text, Neutral})
	}
	if text := SeenText(a); text != "" {
		head = append(head, Note{text, Neutral})
	}
	if text := JudgedText(a.Judged); text != "" {
		head = append(head, Note{text, Faint})
	}
	return append(head, Note{auditText(a), Faint})
}

func auditText(a *rules.Audit) string {
	words := []string{MethodText(a), DriftText(a)}
	if clock := ClockText(a); clock != "" {
		words = append(words, "times are those "+clock)
	}
	return strings.Join(words, "; ")
}

// ClockText names the clocks of an audit's times: "at 1450 MHz". It is empty if no clock is known.
func ClockText(a *rules.Audit) string {
	if a == nil || len(a.Clocks) == 0 {
		return ""
	}
	var words []string
	one := true
	devices := slices.Sorted(maps.Keys(a.Clocks))
	for _, id := range devices {
		one = one && a.Clocks[id] == a.Clocks[devices[0]]
		words = append(words, fmt.Sprintf("%.0f MHz on %s", a.Clocks[id], id))
	}
	if one {
		return fmt.Sprintf("at %.0f MHz", a.Clocks[devices[0]])
	}
	return "at " + strings.Join(words, ", ")
}

// DriftText describes the machine's drift during a run in one line.
func DriftText(a *rules.Audit) string {
	switch {
	case a.Method == rules.MethodArticle:
		return "drift of the sentinels not looked at"
	case a.Drift == 0:
		return "drift of the sentinels unknown"
	case a.Corrected && a.Invalid == "":
		return "drift of the sentinels " + FormatShare(a.Drift) + ", corrected for"
	}
	if a.Invalid != "" {
		return "drift of the sentinels " + FormatShare(a.Drift) + ", not corrected for"
	}
	return "drift of the sentinels " + FormatShare(a.Drift) + ", within their noise and not corrected for"
}

// SeenText describes in one line how small an effect the run can detect and which statistic represents a row.
// It is empty if unknown.
func SeenText(a *rules.Audit) string {
	if a.Resolution == 0 {
		return ""
	}
	text := infer.ResolutionText(a.Resolution)
	if clean := a.CleanText(); clean != "" {
		text += "; " + clean
	}
	var low []string
	for _, id := range slices.Sorted(maps.Keys(a.Scatter)) {
		if a.Scatter[id].Location == infer.LocationLow {
			low = append(low, id)
		}
	}
	switch {
	case len(low) == 0:
	case len(low) == len(a.Scatter):
		text += "; noise only delays, so the 20th percentile of a row's samples is its time"
	default:
		text += "; on " + strings.Join(low, ", ") + " noise only delays, so the 20th percentile of a row's samples is its time"
	}
	return text
}

// MethodText describes in one line how an audit judged.
func MethodText(a *rules.Audit) string {
	s := fmt.Sprintf("method %s, threshold %v", a.Method, a.Threshold)
	if a.FDR > 0 {
		s += fmt.Sprintf(", false discovery rate %v (Benjamini–Hochberg)", a.FDR)
	}
	return s
}

const pathsNote = "PATH stands for a file that was given to the run, which does not keep its path"

func reproduceNotes(findings []rules.Finding) []Note {
	const most = 5
	var notes []Note
	left, paths := 0, false
	for _, f := range findings {
		if f.Status == rules.Waived || f.Reproduce == "" {
			continue
		}
		if len(notes) == most {
			left++
			continue
		}
		notes = append(notes, Notef(Command, "reproduce %s %s: %s", f.Rule, f.Series.Coordinate(f.WorstM), f.Reproduce))
		paths = paths || f.NeedsPaths
	}
	if paths {
		notes = append(notes, Note{pathsNote, Faint})
	}
	if left > 0 {
		notes = append(notes, Notef(Faint, "-o wide lists the commands for %s", Plural(left, "more finding", "more findings")))
	}
	return notes
}

// alikeWarnings is how many subjects may each repeat a warning before it is merged.
const alikeWarnings = 3

func warningNotes(warnings []rules.Warning) []Note {
	subjects := map[string][]string{}
	for _, w := range warnings {
		subjects[w.Text] = append(subjects[w.Text], w.Subject)
	}
	var notes []Note
	told := map[string]bool{}
	for _, w := range warnings {
		subject, of := w.Subject, subjects[w.Text]
		if len(of) > alikeWarnings {
			if told[w.Text] {
				continue
			}
			told[w.Text] = true
			subject = fmt.Sprintf("%s, %s and %d others", of[0], of[1], len(of)-2)
		}
		notes = append(notes, Note{subject + ": " + w.Text, Warned})
	}
	return notes
}
