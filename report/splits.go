package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteSplits prints remedies: what was predicted, what it took when it was
// executed, and whether it pays. JSON is the result itself, JSONL one remedy a
// line, those rejected last, CSV those that were kept, bench the direct and the
// executed times. only bench uses meta.
func WriteSplits(w io.Writer, f Format, meta results.Meta, splits *rules.SplitsResult) error {
	doc := &Document{Subject: "splits", Value: splits, Items: []any{}}
	for _, s := range allRemedies(splits) {
		doc.Items = append(doc.Items, s)
	}
	doc.Head = append(SplitsHead(splits), selectionNotes(splits.Selection, "remedy", "remedies")...)
	if n := paying(splits.Whole().Splits); n > 0 {
		doc.Head[0].Tone = Good
	}
	doc.Sheets = []Sheet{SplitSheet(splits.Splits), StretchSheet(splits.Stretches), SplitSheet(splits.Rejected)}
	doc.Sheets[1].Title, doc.Sheets[2].Title = "Intervals of M with one remedy each", "Executed remedies that do not pay"
	if len(splits.Suspected) > 0 {
		sheet := FindingSheet(meta, &rules.Audit{Findings: splits.Suspected})
		sheet.Title = "Suspected by single samples"
		doc.Sheets = append(doc.Sheets, sheet)
	}
	doc.Notes = warningNotes(splits.Warnings)
	doc.Bench = func(w io.Writer) error { return benchSplits(w, meta, splits) }
	return doc.Render(w, f)
}

// allRemedies are the remedies that were kept, then those that were rejected.
func allRemedies(s *rules.SplitsResult) []rules.SplitRow {
	return slices.Concat(s.Splits, s.Rejected)
}

// SplitsHead is the outcome of the search: what was found, and what the whole table saves.
func SplitsHead(s *rules.SplitsResult) []Note {
	out := []Note{{SplitsSummary(s), Neutral}}
	if s.TrafficUncovered > 0 {
		out = append(out, Note{fmt.Sprintf("%.3g %% of the traffic is of Ms outside of those that were swept%s, and counts for nothing", 100*s.TrafficUncovered, sweptText(s.Ranges)), Open})
	}
	for _, saving := range s.Savings {
		if saving.SavedUS > 0 {
			out = append(out, Note{savingText(saving), Neutral})
		}
	}
	return out
}

// SplitsSummary is the outcome of the search in one line.
func SplitsSummary(s *rules.SplitsResult) string {
	s = s.Whole()
	all := allRemedies(s)
	executed := 0
	for _, r := range all {
		if r.Executed {
			executed++
		}
	}
	rows := len(all) + s.Untried + s.LeftOut
	what := plural(rows, "remedy", "remedies") + " predicted"
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
	return fmt.Sprintf("%s, %d executed; of these %s", what, executed, plural(paying(all), "pays", "pay"))
}

// nothingPredicted says why a search has come to nothing.
func nothingPredicted(s *rules.SplitsResult) string {
	scope := s.Scope
	switch {
	case scope == nil:
		return "no remedy is predicted to pay"
	case len(s.Searched) == 0:
		return "nothing was searched: the run has no series of kernels that the engine has"
	case scope.Rows == 0 && scope.Few > 0:
		return fmt.Sprintf("nothing was searched: %s too few samples", plural(scope.Few, "row has", "rows have"))
	case scope.Rows == 0 && scope.Among == rules.AmongFlagged:
		return "nothing was searched: the monotonic rule flags no row, and --among all searches every row"
	case scope.Rows == 0:
		return "nothing was searched: no row has samples"
	}
	kinds := make([]string, len(scope.Kinds))
	for i, k := range scope.Kinds {
		kinds[i] = string(k)
	}
	return fmt.Sprintf("no remedy is predicted to pay: %s searched for %s", plural(scope.Rows, "row was", "rows were"), strings.Join(kinds, ", "))
}

// sweptText is the range of what was swept, in brackets; empty where nobody has told.
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

// savingText says what the whole table saves of the time of a kernel's products.
func savingText(s rules.Saving) string {
	of := "of one pass over the rows that were searched"
	if s.Weighed {
		of = "of the traffic"
	}
	return fmt.Sprintf("%s on %s: the whole table saves %s ms in a second %s", s.Kernel, s.Device, trimmed(s.PerSecond()), of)
}

// trimmed prints a number of milliseconds.
func trimmed(ms float64) string { return strconv.FormatFloat(ms, 'g', 3, 64) }

func paying(rows []rules.SplitRow) int {
	n := 0
	for _, r := range rows {
		if r.Pays {
			n++
		}
	}
	return n
}

// mostRanges is how many ranges of a stretch are listed one by one.
const mostRanges = 6

// coveredText says at which M a stretch holds.
func coveredText(s rules.Stretch) string {
	covered := s.Covered()
	if s.OnlySwept || len(covered) == 0 || len(covered) > mostRanges {
		text := intervalText(s.FromM, s.ToM)
		if !s.OnlySwept && len(covered) > 0 {
			text += fmt.Sprintf(" in %d ranges", len(covered))
		}
		return text
	}
	words := make([]string, len(covered))
	for i, r := range covered {
		words[i] = intervalText(r.FromM, r.ToM)
	}
	return strings.Join(words, ", ")
}

// betweenCell says for which Ms of a stretch it holds that were not swept.
func betweenCell(s rules.Stretch) Cell {
	switch {
	case s.Filled:
		return word{"every m", Good}
	case s.OnlySwept:
		return word{"swept only", Faint}
	}
	return nil
}
