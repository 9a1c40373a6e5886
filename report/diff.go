package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// WriteDiff prints a comparison of two runs: sentences, then the conditions that differ (with a banner if
// there are several), then times and new or fixed findings. problems holds the problems of both runs, nil if
// they were not compared. The table and Markdown count unchanged and undecided cases and findings without
// listing them; wide and CSV list all, and wide adds the method. JSON is the result itself, JSONL one case a
// line.
func WriteDiff(w io.Writer, f Format, d *diff.Result, problems *problem.Changes) error {
	doc := &Document{Subject: "diff", Value: diffValue{d, problems}, Items: items(d.Cases)}
	doc.Bench = func(io.Writer) error {
		return &UnsupportedFormat{Bench, doc.Subject, "it has two sides; print each run as bench and give both to benchstat"}
	}
	cases, findings := d.Cases, d.Findings
	narrow := f == Table || f == Markdown
	if narrow {
		cases, findings = changedCases(d), changedFindings(d)
	}
	doc.Head = append(diffSentences(d, problems), diffHead(d)...)
	doc.Head = append(doc.Head, selectionNotes(d.Selection, "case or finding", "cases and findings")...)
	doc.Sheets = []Sheet{factorSheet(d), sheetOf("", bandFields, d.Whole().Bands), seriesDiffSheet(d), caseSheet(cases),
		findingDiffSheet(findings)}
	doc.Main = 3
	for i, title := range []string{"Conditions that differ", "By M, time of B ÷ time of A", "Series, time of B ÷ time of A", "Cases",
		"Findings"} {
		doc.Sheets[i].Title = title
	}
	if narrow && d.Invalid != "" { // changes cannot be attributed
		doc.Sheets, doc.Main = doc.Sheets[:1], 0
		doc.Note(Faint, "-o wide lists %s and all warnings", Count(len(d.Cases), "case"))
		return doc.Render(w, f)
	}
	if hidden := len(d.Cases) - len(cases); hidden > 0 {
		doc.Note(Faint, "%s did not change or are undecided; -o wide lists them", Count(hidden, "case"))
	}
	if hidden := len(d.Findings) - len(findings); hidden > 0 {
		doc.Note(Faint, "%s did not change or can't be compared; -o wide lists them", Count(hidden, "finding"))
	}
	doc.Notes = append(doc.Notes, warningNotes(d.Warnings)...)
	if !narrow {
		doc.Notes = append(doc.Notes, diffMethod(d)...)
	}
	return doc.Render(w, f)
}

type diffValue struct {
	*diff.Result
	Problems *problem.Changes `json:"problems,omitempty"`
}

// DiffSummary is the outcome of a comparison in one line.
func DiffSummary(d *diff.Result) string {
	d = d.Whole()
	s := fmt.Sprintf("%s compared: %d slower, %d faster, %d the same, ", Count(len(d.Cases), "case"), d.Slower, d.Faster, d.Same)
	if n := d.Marginal(); n > 0 {
		s += fmt.Sprintf("%d marginal, ", n)
	}
	s += fmt.Sprintf("%d undecided", d.Undecided)
	if d.SuspectedSlower+d.SuspectedFaster > 0 {
		s += fmt.Sprintf(" (%d suspected slower, %d suspected faster)", d.SuspectedSlower, d.SuspectedFaster)
	}
	if d.GeomeanOverRows.Mid > 0 {
		s += "; geometric mean of B ÷ A over rows " + bounds{d.GeomeanOverRows, Factor}.Text()
	}
	return s
}

func diffHead(d *diff.Result) []Note {
	head := []Note{{"A is " + d.A + ", B is " + d.B, Neutral}}
	if d.Run != "" {
		head = append(head, Note{"both were measured in the same rounds of " + d.Run, Neutral})
	}
	if d.Confounded != "" {
		head = append(head, Note{"CONFOUNDED: " + d.Confounded, Bad})
	}
	if len(d.Factors) == 0 {
		head = append(head, Note{"the fingerprints are equal", Neutral})
	}
	return head
}

func diffMethod(d *diff.Result) []Note {
	d = d.Whole()
	var notes []Note
	for _, id := range slices.Sorted(maps.Keys(d.Clocks)) {
		note := fmt.Sprintf("%s: times are those at %.0f MHz", id, d.Clocks[id])
		if d.Run == "" {
			note += fmt.Sprintf("; cases differ from run to run by %s beyond what their samples show", FormatShare(d.BetweenRuns))
		}
		notes = append(notes, Note{note, Faint})
	}
	notes = append(notes, Notef(Faint, "threshold %s, false discovery rate %v (%s)", FormatShare(d.Threshold), d.FDR,
		cmp.Or(d.Family, "Benjamini–Hochberg")))
	if d.OnlyA+d.OnlyB > 0 {
		notes = append(notes, Notef(Neutral, "%s only in A, %s only in B: not compared", Count(d.OnlyA, "case"), Count(d.OnlyB, "case")))
	}
	if d.Invalid == "" { // an invalid comparison prints it first
		notes = append(notes, Note{DiffSummary(d), diffTone(d)})
	}
	if d.Gate {
		notes = append(notes, Note{"the gate failed: " + DiffGate(d), Bad})
	}
	return notes
}

// DiffGate lists in one line the slowdowns beyond their thresholds.
func DiffGate(d *diff.Result) string {
	var words []string
	add := func(n int, one, many string, threshold float64) {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s slower by more than %s", Plural(n, one, many), FormatShare(threshold)))
		}
	}
	add(d.Slower, "case", "cases", d.Threshold)
	add(d.SlowerStretches, "stretch of M", "stretches of M", d.StretchThreshold)
	add(d.SlowerSeries, "whole series", "whole series", d.SeriesThreshold)
	return strings.Join(words, ", ")
}

func DiffSuspects(d *diff.Result) string {
	series := countOf(d.Series, func(s diff.Series) bool { return s.Change == change.SuspectedSlower })
	var words []string
	if d.SuspectedSlower > 0 {
		words = append(words, Plural(d.SuspectedSlower, "case", "cases"))
	}
	if series > 0 {
		words = append(words, Plural(series, "whole series", "whole series"))
	}
	return strings.Join(words, ", ") + " suspected slower"
}

func stretchCell(stretches []diff.Stretch) string {
	words := make([]string, len(stretches))
	for i, s := range stretches {
		words[i] = fmt.Sprintf("m%d-%d %s", s.FromM, s.ToM, bounds{s.Ratio, Factor}.Text())
	}
	return strings.Join(words, ", ")
}

var bandFields = field.Of([]field.Field[diff.Band]{
	{Name: "dtype", Head: "dtype", JSON: "-", Words: "the data type", Value: func(b diff.Band) any { return string(b.DType) }},
	{Name: "m", Head: "m", JSON: "-", Words: "the range of M", Value: func(b diff.Band) any {
		if b.ToM == 0 {
			return fmt.Sprintf("%d and up", b.FromM)
		}
		return fmt.Sprintf("%d-%d", b.FromM, b.ToM)
	}},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "how many there are"},
	{Name: "ratio", Head: "geometric mean", Unit: field.Factor, Words: "B's time over A's"},
	{Name: "least", Head: "least", Unit: field.Factor, JSON: "-", Words: "the lowest upper bound of a case",
		Value: func(b diff.Band) any { return b.Least.Ratio.Hi }},
	{Name: "least_of", Head: "of", JSON: "-", Words: "its case", Value: func(b diff.Band) any { return bandCase(b.Least) }},
	{Name: "most", Head: "most", Unit: field.Factor, JSON: "-", Words: "the highest lower bound of a case",
		Value: func(b diff.Band) any { return b.Most.Ratio.Lo }},
	{Name: "most_of", Head: "of", JSON: "-", Words: "its case", Value: func(b diff.Band) any { return bandCase(b.Most) }},
})

func bandCase(c diff.Case) string {
	return strings.TrimSpace(fmt.Sprintf("m%d %s", c.M, c.Series.Size()))
}

var factorFields = field.Of([]field.Field[results.FactorDiff]{
	{Name: "factor", Head: "factor", JSON: "-", Words: "the fact of the machine or its software",
		Value: func(d results.FactorDiff) any { return d.Name }},
	{Name: "a", Head: "A", JSON: "-", Flex: true, Words: "its value in A",
		Value: func(d results.FactorDiff) any { return orFaint(d.A, "unknown") }},
	{Name: "b", Head: "B", JSON: "-", Flex: true, Words: "its value in B",
		Value: func(d results.FactorDiff) any { return orFaint(d.B, "unknown") }},
	{Name: "counts", Head: "counts", JSON: "-", Words: "whether the difference can change times", Value: func(d results.FactorDiff) any {
		if d.Identity {
			return word{"no, only a name", Faint}
		}
		return word{"yes", Open}
	}},
})

func factorSheet(d *diff.Result) Sheet { return sheetOf("", factorFields, d.Factors) }

func orFaint(s, none string) any {
	if s == "" {
		return word{none, Faint}
	}
	return s
}

var seriesDiffFields = field.Of([]field.Field[diff.Series]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(s diff.Series) any { return seriesCell(s.Series) }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "cases that both runs have"},
	{Name: "ratio_over_rows", Head: "geometric mean", Kind: field.Bounds, Unit: field.Factor, Words: "B's time over A's, over all cases"},
	{Name: "ratio", Head: "of judged cases", Kind: field.Bounds, Unit: field.Factor, Wide: true,
		Words: "B's time over A's, over the cases with enough samples"},
	{Name: "state", Head: "state", JSON: "change", Words: "the change of the series as a whole",
		Value: func(s diff.Series) any { return changeCell(s.Change) }},
	{Name: "slower", Head: "slower", Kind: field.Count, Words: "cases that are slower in B"},
	{Name: "faster", Head: "faster", Kind: field.Count, Words: "cases that are faster in B"},
	{Name: "suspected", Head: "suspected", Kind: field.Count, JSON: "-", Words: "cases that are suspected to be slower or faster",
		Value: func(s diff.Series) any { return s.Suspected }},
	{Name: "stretches", Head: "slower stretches of M", JSON: "-", Flex: true, Words: "neighbouring Ms that are slower together",
		Value: func(s diff.Series) any { return stretchCell(s.Stretches) }},
})

func seriesDiffSheet(d *diff.Result) Sheet { return sheetOf("", seriesDiffFields, d.Series) }

func changedCases(d *diff.Result) []diff.Case {
	var out []diff.Case
	for _, c := range d.Cases {
		if c.Change.Changed() {
			out = append(out, c)
		}
	}
	if d.Selection != nil && d.Selection.Sort != "" {
		return out
	}
	size := func(c diff.Case) float64 {
		if c.Ratio.Mid < 1 && c.Ratio.Mid > 0 {
			return 1 / c.Ratio.Mid
		}
		return c.Ratio.Mid
	}
	slices.SortStableFunc(out, func(a, b diff.Case) int { return cmp.Compare(size(b), size(a)) })
	return out
}

// changedFindings returns the findings of only one run, or nil if the runs are not comparable.
func changedFindings(d *diff.Result) []diff.Finding {
	var out []diff.Finding
	for _, x := range d.Findings {
		if d.Invalid == "" && (x.Change == change.New || x.Change == change.Fixed) {
			out = append(out, x)
		}
	}
	return out
}

func changeCell(c change.Kind) Cell {
	switch c {
	case change.Slower, change.New:
		return word{string(c), Bad}
	case change.Faster, change.Fixed:
		return word{string(c), Good}
	case change.Open, change.AtThreshold, change.SuspectedSlower, change.SuspectedFaster:
		return word{string(c), Open}
	}
	return word{string(c), Neutral}
}
