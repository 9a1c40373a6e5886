package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteDiff prints a comparison of two runs: first the conditions in which they
// differ, side by side, with a banner when there is more than one; then times
// with intervals and adjusted p-values, findings, and geometric means. The table
// and Markdown leave out cases that stayed the same or are open, and count them;
// wide and CSV have all. JSON is the result itself, JSONL one case a line.
func WriteDiff(w io.Writer, f Format, d *rules.DiffResult) error {
	doc := &Document{Subject: "diff", Value: d, Items: []any{}}
	for _, c := range d.Cases {
		doc.Items = append(doc.Items, c)
	}
	doc.Bench = func(io.Writer) error {
		return &UnsupportedFormat{Bench, doc.Subject, "it has two sides; print each run as bench and give both to benchstat"}
	}
	cases, findings := d.Cases, d.Findings
	if f == Table || f == Markdown {
		cases = changedCases(d)
		if d.Invalid != "" { // nothing can be said of any finding
			findings = nil
		}
	}
	doc.Head = append(diffHead(d), selectionNotes(d.Selection, "case or finding", "cases and findings")...)
	doc.Sheets = []Sheet{factorSheet(d), seriesDiffSheet(d), caseSheet(cases), findingDiffSheet(findings)}
	doc.Main = 2
	for i, title := range []string{"Conditions that differ", "Series, time of B ÷ time of A", "Cases", "Findings"} {
		doc.Sheets[i].Title = title
	}
	if hidden := len(d.Cases) - len(cases); hidden > 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("%s did not change or are undecided; -o wide lists them", count(hidden, "case")), Faint})
	}
	if hidden := len(d.Findings) - len(findings); hidden > 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("%s can't be compared; -o wide lists them", count(hidden, "finding")), Faint})
	}
	doc.Notes = append(doc.Notes, warningNotes(d.Warnings)...)
	doc.Notes = append(doc.Notes, diffOutcome(d)...)
	return doc.Render(w, f)
}

// DiffSummary is the outcome of a comparison in one line.
func DiffSummary(d *rules.DiffResult) string {
	d = d.Whole()
	if d.Invalid != "" {
		if d.Run != "" {
			return "the kernels can't be compared: " + d.Invalid
		}
		return "the runs can't be compared: " + d.Invalid
	}
	s := fmt.Sprintf("%s compared: %d slower, %d faster, %d the same, ", count(len(d.Cases), "case"), d.Slower, d.Faster, d.Same)
	if n := d.Marginal(); n > 0 {
		s += fmt.Sprintf("%d marginal, ", n)
	}
	s += fmt.Sprintf("%d undecided", d.Undecided)
	if d.SuspectedSlower+d.SuspectedFaster > 0 {
		s += fmt.Sprintf(" (%d suspected slower, %d suspected faster)", d.SuspectedSlower, d.SuspectedFaster)
	}
	if d.GeomeanOverRows.Mid > 0 {
		s += "; geometric mean of B ÷ A over rows " + bounds{d.GeomeanOverRows, factorCell}.Text()
	}
	return s
}

// diffHead names the sides and warns when a change can't be put down to anything.
func diffHead(d *rules.DiffResult) []Note {
	head := []Note{{"A is " + d.A, Neutral}, {"B is " + d.B, Neutral}}
	if d.Run != "" {
		head = append(head, Note{"both were measured in the same rounds of " + d.Run, Neutral})
	}
	if d.Invalid != "" { // before the numbers that mean nothing
		head = append(head, Note{DiffSummary(d), Bad})
	}
	if d.Confounded != "" {
		head = append(head, Note{"CONFOUNDED: " + d.Confounded, Bad})
	}
	if len(d.Factors) == 0 {
		head = append(head, Note{"the fingerprints are equal", Neutral})
	}
	return head
}

// diffOutcome says how the comparison ended; on a terminal it is read first.
func diffOutcome(d *rules.DiffResult) []Note {
	d = d.Whole()
	tone := Good
	var notes []Note
	switch {
	case d.Invalid != "" || d.Gate:
		tone = Bad
	case d.Undecided > 0 || d.Slower > 0 || d.Marginal() > 0:
		tone = Open
	}
	for _, id := range slices.Sorted(maps.Keys(d.Clocks)) {
		note := fmt.Sprintf("%s: times are those at %.0f MHz", id, d.Clocks[id])
		if d.Run == "" {
			note += fmt.Sprintf("; cases differ from run to run by %s beyond what their samples show", formatShare(d.BetweenRuns))
		}
		notes = append(notes, Note{note, Faint})
	}
	notes = append(notes, Note{fmt.Sprintf("threshold %s, false discovery rate %v (%s)", formatShare(d.Threshold), d.FDR, cmp.Or(d.Family, "Benjamini–Hochberg")), Faint})
	if d.OnlyA+d.OnlyB > 0 {
		notes = append(notes, Note{fmt.Sprintf("%s only in A, %s only in B: not compared", count(d.OnlyA, "case"), count(d.OnlyB, "case")), Neutral})
	}
	if d.Lost > 0 {
		notes = append(notes, Note{fmt.Sprintf("%s in one run only, because in the other it failed or its samples are excluded", count(d.Lost, "case")), Open})
	}
	if d.Invalid == "" { // else it stands in front
		notes = append(notes, Note{DiffSummary(d), tone})
	}
	if d.Gate {
		notes = append(notes, Note{"the gate failed: " + DiffGate(d), Bad})
	}
	return notes
}

// DiffGate says what is slower than its threshold allows, in one line.
func DiffGate(d *rules.DiffResult) string {
	var words []string
	add := func(n int, one, many string, threshold float64) {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s slower by more than %s", plural(n, one, many), formatShare(threshold)))
		}
	}
	add(d.Slower, "case", "cases", d.Threshold)
	add(d.SlowerStretches, "stretch of M", "stretches of M", d.StretchThreshold)
	add(d.SlowerSeries, "whole series", "whole series", d.SeriesThreshold)
	return strings.Join(words, ", ")
}

// DiffSuspects says what is suspected to be slower, in one line.
func DiffSuspects(d *rules.DiffResult) string {
	series := 0
	for _, s := range d.Series {
		if s.Change == rules.SuspectedSlower {
			series++
		}
	}
	var words []string
	if d.SuspectedSlower > 0 {
		words = append(words, plural(d.SuspectedSlower, "case", "cases"))
	}
	if series > 0 {
		words = append(words, plural(series, "whole series", "whole series"))
	}
	return strings.Join(words, ", ") + " suspected slower"
}

// stretchCell lists the stretches of a series that are slower together.
func stretchCell(stretches []rules.StretchDiff) string {
	words := make([]string, len(stretches))
	for i, s := range stretches {
		words[i] = fmt.Sprintf("m%d-%d %s", s.FromM, s.ToM, bounds{s.Ratio, factorCell}.Text())
	}
	return strings.Join(words, ", ")
}

// factorSheet shows the differing factors side by side.
func factorSheet(d *rules.DiffResult) Sheet {
	s := Sheet{Columns: []Column{{Name: "factor", Key: "factor"}, {Name: "A", Key: "a", Flex: true}, {Name: "B", Key: "b", Flex: true}, {Name: "counts", Key: "counts"}}}
	known := func(v string) any {
		if v == "" {
			return word{"unknown", Faint}
		}
		return v
	}
	for _, f := range d.Factors {
		counts := word{"yes", Open}
		if f.Identity {
			counts = word{"no, only a name", Faint}
		}
		s.Rows = append(s.Rows, []any{f.Name, known(f.A), known(f.B), counts})
	}
	return s
}

func seriesDiffSheet(d *rules.DiffResult) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "cases", Key: "cases", Align: Right}, {Name: "geometric mean", Key: "ratio_over_rows", Align: Right, Interval: true},
		{Name: "of judged cases", Key: "ratio", Align: Right, Interval: true, Wide: true},
		{Name: "state", Key: "state"}, {Name: "slower", Key: "slower", Align: Right}, {Name: "faster", Key: "faster", Align: Right}, {Name: "suspected", Key: "suspected", Align: Right},
		{Name: "slower stretches of M", Key: "stretches", Flex: true},
	}}
	for _, v := range d.Series {
		s.Rows = append(s.Rows, []any{seriesCell(v.Series), v.Cases, bounds{v.OverRows, factorCell}, bounds{v.Ratio, factorCell}, changeCell(v.Change), v.Slower, v.Faster, v.Suspected, stretchCell(v.Stretches)})
	}
	return s
}

// changedCases are those that are slower or faster, surely or as suspected, the largest change
// first unless another order was asked for.
func changedCases(d *rules.DiffResult) []rules.CaseDiff {
	var out []rules.CaseDiff
	for _, c := range d.Cases {
		if c.Change.Changed() {
			out = append(out, c)
		}
	}
	if d.Selection != nil && d.Selection.Sort != "" {
		return out
	}
	size := func(c rules.CaseDiff) float64 {
		if c.Ratio.Mid < 1 && c.Ratio.Mid > 0 {
			return 1 / c.Ratio.Mid
		}
		return c.Ratio.Mid
	}
	slices.SortStableFunc(out, func(a, b rules.CaseDiff) int { return cmp.Compare(size(b), size(a)) })
	return out
}

func changeCell(c rules.Change) Cell {
	switch c {
	case rules.Slower, rules.New:
		return word{string(c), Bad}
	case rules.Faster, rules.Fixed:
		return word{string(c), Good}
	case rules.Open, rules.AtThreshold, rules.SuspectedSlower, rules.SuspectedFaster:
		return word{string(c), Open}
	}
	return word{string(c), Neutral}
}
