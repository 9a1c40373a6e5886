package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteAudit prints the verdicts of a run. JSON is the audit itself, JSONL and
// CSV hold one finding a line, bench the median of every judged row. meta is
// used by bench alone.
func WriteAudit(w io.Writer, f Format, meta results.Meta, audit *rules.Audit) error {
	doc := &Document{Subject: "audit", Value: audit, Items: []any{}, Head: auditHead(audit)}
	for _, finding := range audit.Findings {
		doc.Items = append(doc.Items, finding)
	}
	doc.Sheets = []Sheet{FindingSheet(audit.Findings), verdictSheet(audit)}
	doc.Sheets[0].Title, doc.Sheets[1].Title = "Findings", "Series"
	doc.Notes = warningNotes(audit.Warnings)
	if f == Table {
		doc.Notes = append(reproduceNotes(audit.Findings), doc.Notes...)
	}
	if len(audit.Series) > 0 {
		doc.Bench = func(w io.Writer) error { return benchAudit(w, meta, audit) }
	}
	return doc.Render(w, f)
}

// AuditSummary is the outcome of an audit in one line.
func AuditSummary(a *rules.Audit) string {
	if a.Invalid != "" {
		return "the run can't be judged: " + a.Invalid
	}
	confirmed, unconfirmed, waived := tally(a.Findings)
	flagged := 0
	for _, s := range a.Series {
		flagged += len(s.Flagged)
	}
	if len(a.Series) == 0 {
		flagged = len(a.Flagged)
	}
	var found []string
	if confirmed > 0 {
		found = append(found, fmt.Sprintf("%d confirmed", confirmed))
	}
	if unconfirmed > 0 {
		found = append(found, fmt.Sprintf("%d unconfirmed", unconfirmed))
	}
	if waived > 0 {
		found = append(found, fmt.Sprintf("%d waived", waived))
	}
	what := "no findings"
	if len(found) > 0 {
		what = count(len(a.Findings), "finding") + " (" + strings.Join(found, ", ") + ")"
	}
	s := fmt.Sprintf("%s in %s: %s anomalous", what, count(a.Cases, "case"), count(flagged, "row"))
	if a.Undecided > 0 {
		s += fmt.Sprintf(", %d undecided", a.Undecided)
	}
	return s
}

// tally counts findings by status.
func tally(findings []rules.Finding) (confirmed, unconfirmed, waived int) {
	for _, f := range findings {
		switch f.Status {
		case rules.Confirmed:
			confirmed++
		case rules.Waived:
			waived++
		default:
			unconfirmed++
		}
	}
	return
}

func auditHead(a *rules.Audit) []Note {
	tone := Good
	confirmed, unconfirmed, _ := tally(a.Findings)
	switch {
	case a.Invalid != "" || confirmed > 0:
		tone = Bad
	case unconfirmed > 0 || a.Undecided > 0:
		tone = Open
	}
	return []Note{{AuditSummary(a), tone}, {MethodText(a), Faint}}
}

// MethodText says in one line how an audit judged.
func MethodText(a *rules.Audit) string {
	s := fmt.Sprintf("method %s, threshold %v", a.Method, a.Threshold)
	if a.FDR > 0 {
		s += fmt.Sprintf(", false discovery rate %v (Benjamini–Hochberg)", a.FDR)
	}
	return s
}

// FindingSheet is the table of findings.
func FindingSheet(findings []rules.Finding) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "status", Key: "status"}, {Name: "rule", Key: "rule"}, {Name: "series", Key: "series", Hoist: true},
		{Name: "m", Key: "interval"}, {Name: "from", Key: "from_m", Align: Right, Wide: true}, {Name: "to", Key: "to_m", Align: Right, Wide: true},
		{Name: "rows", Key: "rows", Align: Right}, {Name: "worst m", Key: "worst_m", Align: Right},
		{Name: "loss", Key: "loss", Align: Right, Interval: true}, {Name: "p adjusted", Key: "p_adjusted", Align: Right, Wide: true},
		{Name: "cause", Key: "cause"}, {Name: "remedy", Key: "remedy"}, {Name: "gain", Key: "gain", Align: Right, Interval: true},
		{Name: "explanation", Key: "explanation", Wide: true, Flex: true}, {Name: "waiver", Key: "waiver", Wide: true, Flex: true},
		{Name: "id", Key: "id", Wide: true}, {Name: "reproduce", Key: "reproduce", Wide: true},
	}}
	for _, f := range findings {
		row := []any{
			statusCell(f.Status), string(f.Rule), seriesCell(f.Series), intervalText(f.FromM, f.ToM), f.FromM, f.ToM,
			f.Rows, f.WorstM, bounds{f.Loss, shareCell}, probability(f.AdjustedP), string(f.Cause), nil, nil,
			f.Explanation, f.Waiver, f.ID, code(f.Reproduce),
		}
		if f.Remedy != nil {
			row[11] = remedyText(*f.Remedy)
			row[12] = gainCell(*f.Remedy)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// reproduceNotes are the commands of the first findings that count.
func reproduceNotes(findings []rules.Finding) []Note {
	const most = 5
	var notes []Note
	left := 0
	for _, f := range findings {
		if f.Status == rules.Waived || f.Reproduce == "" {
			continue
		}
		if len(notes) == most {
			left++
			continue
		}
		notes = append(notes, Note{fmt.Sprintf("reproduce %s m%d: %s", f.Rule, f.WorstM, f.Reproduce), Neutral})
	}
	if left > 0 {
		notes = append(notes, Note{fmt.Sprintf("the commands of %s stand in -o wide", plural(left, "more finding", "more findings")), Faint})
	}
	return notes
}

func statusCell(s rules.Status) Cell {
	switch s {
	case rules.Confirmed:
		return word{string(s), Bad}
	case rules.Waived:
		return word{string(s), Faint}
	}
	return word{string(s), Open}
}

// intervalText prints an interval of M.
func intervalText(from, to int) string {
	if from == to {
		return itoa(from)
	}
	return itoa(from) + "–" + itoa(to)
}

// remedyText says in few words what to do instead.
func remedyText(r rules.Remedy) string {
	switch r.Kind {
	case rules.RemedySplit:
		return results.JoinInts(r.Parts, "+")
	case rules.RemedyPad:
		return "pad to " + itoa(r.PadTo)
	case rules.RemedyOther:
		return "use " + r.Kernel
	}
	return string(r.Kind)
}

// gainCell is the measured gain where there is one, else the predicted.
func gainCell(r rules.Remedy) Cell {
	switch {
	case r.Executed:
		return bounds{r.Gain, factorCell}
	case r.PredictedUS > 0 && r.DirectUS > 0:
		return predicted(r.DirectUS / r.PredictedUS)
	}
	return word{}
}

// predicted is a ratio that nobody has measured.
type predicted float64

func (p predicted) Text() string { return "≈" + factor(p).Text() }
func (p predicted) Raw() any     { return finite(float64(p)) }

// verdictSheet has one row a series: how its rows were judged.
func verdictSheet(a *rules.Audit) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "cases", Key: "cases", Align: Right}, {Name: "anomalous", Key: "anomalous", Align: Right},
		{Name: "clean", Key: "clean", Align: Right}, {Name: "undecided", Key: "undecided", Align: Right}, {Name: "findings", Key: "findings", Align: Right},
	}}
	for _, series := range a.Series {
		row := []any{seriesCell(series.Key), series.Cases, len(series.Flagged), nil, nil, 0}
		if len(series.Rows) > 0 {
			clean, undecided := 0, 0
			for _, r := range series.Rows {
				switch r.Verdict {
				case rules.Clean:
					clean++
				case rules.Undecided:
					undecided++
				}
			}
			row[3], row[4] = clean, undecided
		}
		findings := 0
		for _, f := range a.Findings {
			if f.Series == series.Key {
				findings++
			}
		}
		row[5] = findings
		s.Rows = append(s.Rows, row)
	}
	return s
}

func warningNotes(warnings []rules.Warning) []Note {
	var notes []Note
	for _, w := range warnings {
		notes = append(notes, Note{"warning: " + w.Subject + ": " + w.Text, Open})
	}
	return notes
}
