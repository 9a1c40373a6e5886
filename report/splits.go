package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// WriteSplits prints remedies: sentences on those that pay, then each prediction, its measured time, and
// whether it pays. JSON is the result itself, JSONL one remedy a line with rejected ones last, CSV the kept
// remedies, bench the direct and the executed times. Only bench uses meta.
func WriteSplits(w io.Writer, f Format, meta results.Meta, splits *remedy.Result) error {
	doc := &Document{Subject: "splits", Value: splits, Items: items(allRemedies(splits))}
	doc.Head = append(splitsSentences(splits), selectionNotes(splits.Selection, "remedy", "remedies")...)
	remedies, stretches, rejected := splits.Splits, splits.Stretches, splits.Rejected
	if f == Table && splits.Selection == nil {
		var left [3]int
		remedies, left[0] = cut(remedies)
		stretches, left[1] = cut(stretches)
		rejected, left[2] = cut(rejected)
		if n := left[0] + left[1] + left[2]; n > 0 {
			doc.Notes = append(doc.Notes, Note{Plural(n, "more line", "more lines") + ": -o wide lists all, --top chooses", Faint})
		}
	}
	if slices.ContainsFunc(remedies, func(r remedy.Row) bool { return !r.Executed }) {
		doc.Notes = append(doc.Notes, Note{predictedMark + " marks a predicted gain", Faint})
	}
	doc.Sheets = []Sheet{SplitSheet(remedies), StretchSheet(stretches), SplitSheet(rejected)}
	doc.Sheets[2].Title = "Executed remedies that do not pay"
	if splits.Invalid != "" && (f == Table || f == Markdown) {
		doc.Sheets = nil
		return doc.Render(w, f)
	}
	if len(splits.Suspected) > 0 {
		sheet := FindingSheet(meta, &rules.Audit{Findings: splits.Suspected})
		sheet.Title = "Suspected by single samples"
		doc.Sheets = append(doc.Sheets, sheet)
	}
	doc.Notes = append(doc.Notes, warningNotes(splits.Warnings)...)
	doc.Bench = func(w io.Writer) error { return benchSplits(w, meta, splits) }
	return doc.Render(w, f)
}

// mostLines is the maximum length of each list of `splits` on a terminal.
const mostLines = 15

func cut[T any](all []T) (some []T, left int) {
	n := min(mostLines, len(all))
	return all[:n], len(all) - n
}

// allRemedies returns the kept remedies, then the rejected ones.
func allRemedies(s *remedy.Result) []remedy.Row {
	return slices.Concat(s.Splits, s.Rejected)
}

// SplitsHead is the outcome of the search: the remedies found, and the saving of the whole table.
func SplitsHead(s *remedy.Result) []Note {
	out := []Note{{SplitsSummary(s), Neutral}}
	if s.TrafficUncovered > 0 {
		out = append(out, Notef(Open, "%.3g %% of the traffic is outside the measured sizes%s, and is not counted", 100*s.TrafficUncovered,
			sweptText(s.Ranges)))
	}
	for _, saving := range s.Savings {
		if saving.SavedUS > 0 {
			out = append(out, Note{savingText(saving), Neutral})
		}
	}
	return out
}

// SplitsSummary is the outcome of the search in one line.
func SplitsSummary(s *remedy.Result) string {
	s = s.Whole()
	all := allRemedies(s)
	executed := countExecuted(all)
	rows := len(all) + s.Untried + s.LeftOut
	what := Plural(rows, "remedy", "remedies") + " predicted"
	if s.LeftOut > 0 {
		what += fmt.Sprintf(", %d left out for their results", s.LeftOut)
	}
	switch {
	case rows == 0:
		return nothingPredicted(s)
	case executed == 0 && s.LeftOut > 0:
		return what + ", none executed"
	case executed == 0:
		return what + ", none executed: candidates, not gains"
	}
	return fmt.Sprintf("%s, %d executed; of these %s", what, executed, Plural(paying(all), "pays", "pay"))
}

func nothingPredicted(s *remedy.Result) string {
	scope := s.Scope
	switch {
	case scope == nil:
		return "no remedy is predicted to pay"
	case len(s.Searched) == 0:
		return "no search: the run has no series of the engine's kernels"
	case scope.Rows == 0 && scope.Few > 0:
		return fmt.Sprintf("no search: %s too few samples", Plural(scope.Few, "row has", "rows have"))
	case scope.Rows == 0 && scope.Among == remedy.AmongFlagged:
		return "no search: the monotonic rule flags no row; --among all searches every row"
	case scope.Rows == 0:
		return "no search: no row has samples"
	}
	kinds := make([]string, len(scope.Kinds))
	for i, k := range scope.Kinds {
		kinds[i] = string(k)
	}
	return fmt.Sprintf("no remedy is predicted to pay: %s searched for %s", Plural(scope.Rows, "row was", "rows were"),
		strings.Join(kinds, ", "))
}

func sweptText(ranges []rules.Range) string {
	var all rules.Range
	for _, r := range ranges {
		if r.FromM > 0 && (all.FromM == 0 || r.FromM < all.FromM) {
			all.FromM = r.FromM
		}
		all.ToM = max(all.ToM, r.ToM)
	}
	if all.FromM == 0 {
		return ""
	}
	return fmt.Sprintf(" (m%d to m%d)", all.FromM, all.ToM)
}

func savingText(s remedy.Saving) string {
	of := "of one pass over the rows that were searched"
	if s.Weighed {
		of = "of the traffic"
	}
	return fmt.Sprintf("%s on %s: the whole table saves %s ms in a second %s", s.Kernel, s.Device, trimmed(s.PerSecond()), of)
}

func trimmed(ms float64) string { return strconv.FormatFloat(ms, 'g', 3, 64) }

func paying(rows []remedy.Row) int {
	return countOf(rows, func(r remedy.Row) bool { return r.Pays })
}

const mostRanges = 6

func coveredText(s remedy.Stretch) string {
	covered := s.Covered()
	if s.OnlySwept || len(covered) == 0 || len(covered) > mostRanges {
		text := IntervalText(s.FromM, s.ToM)
		if !s.OnlySwept && len(covered) > 0 {
			text += fmt.Sprintf(" in %d ranges", len(covered))
		}
		return text
	}
	words := make([]string, len(covered))
	for i, r := range covered {
		words[i] = IntervalText(r.FromM, r.ToM)
	}
	return strings.Join(words, ", ")
}

// betweenCell lists the covered Ms that were not swept.
func betweenCell(s remedy.Stretch) Cell {
	switch {
	case s.Filled:
		return word{"every m", Good}
	case s.OnlySwept:
		return word{"swept only", Faint}
	}
	return nil
}
