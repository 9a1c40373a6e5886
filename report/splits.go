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

// SplitSheet is the table of remedies.
func SplitSheet(rows []rules.SplitRow) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m", Key: "m", Align: Right}, {Name: "kind", Key: "kind", Wide: true}, {Name: "remedy", Key: "remedy"},
		{Name: "direct us", Key: "direct_us", Align: Right}, {Name: "predicted us", Key: "predicted_us", Align: Right},
		{Name: "executed us", Key: "executed_us", Align: Right, Interval: true}, {Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "saved us", Key: "stake_us", Align: Right}, {Name: "pays", Key: "pays"}, {Name: "adjusted p", Key: "p_adjusted", Align: Right},
		{Name: "direct us in the sweep", Key: "sweep_us", Align: Right, Wide: true},
		{Name: "error", Key: "remedy_error", Align: Right, Wide: true}, {Name: "direct error", Key: "direct_error", Align: Right, Wide: true},
		{Name: "same bits", Key: "same_bits", Wide: true}, {Name: "batch-invariant", Key: "batch_invariant", Wide: true},
	}}
	for _, r := range rows {
		row := []any{seriesCell(r.Series), r.M, string(r.Kind), remedyText(r.Remedy), micros(r.DirectUS), micros(r.PredictedUS), nil, gainCell(r.Remedy), stakeCell(r.StakeUS), word{"not executed", Faint}, nil, nil, nil, nil, nil, nil}
		if n := r.Numerics; n != nil && n.Failed == "" {
			row[12], row[13], row[14], row[15] = errorCell(n.RemedyError), errorCell(n.DirectError), yesNo(n.SameBits), yesNo(n.BatchInvariant)
		}
		if r.SweepUS > 0 {
			row[11] = micros(r.SweepUS)
		}
		if r.AdjustedP > 0 {
			row[10] = probability(r.AdjustedP)
		}
		if r.Executed {
			row[6] = bounds{r.ExecutedUS, microsCell}
			row[9] = word{"no", Faint}
			switch {
			case r.Pays:
				row[9] = word{"yes", Good}
			case r.Unsteady:
				row[9] = word{"unsteady", Faint}
			case r.Numerics != nil && (r.Numerics.Failed != "" || r.Numerics.Wrong > 0):
				row[9] = word{"wrong result", Faint}
			}
		}
		s.Rows = append(s.Rows, row)
	}
	s.addSustainedGain(rows)
	return s
}

// errorCell is a relative error.
func errorCell(e float64) Cell { return word{strconv.FormatFloat(e, 'e', 2, 64), Neutral} }

// yesNo is a fact of a result.
func yesNo(yes bool) Cell {
	if yes {
		return word{"yes", Neutral}
	}
	return word{"no", Faint}
}

// StretchSheet is the table of stretches.
func StretchSheet(stretches []rules.Stretch) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m", Key: "interval"}, {Name: "from", Key: "from_m", Align: Right, Wide: true}, {Name: "to", Key: "to_m", Align: Right, Wide: true},
		{Name: "remedy", Key: "remedy"}, {Name: "proven at m", Key: "proofs"}, {Name: "least gain", Key: "gain", Align: Right, Interval: true},
		{Name: "saved us", Key: "stake_us", Align: Right}, {Name: "between", Key: "between"},
	}}
	for _, r := range stretches {
		var at []int
		var least *rules.Remedy
		for i, p := range r.Proofs {
			at = append(at, p.M)
			if least == nil || p.Gain.Lo < least.Gain.Lo {
				least = &r.Proofs[i]
			}
		}
		remedy := remedyText(rules.Remedy{Kind: r.Kind, Parts: r.Fixed, PadTo: r.PadTo, Pad: r.Pad, Kernel: r.Kernel, Algorithm: r.Algorithm})
		if r.Kind == rules.RemedySplit {
			remedy = strings.TrimPrefix(remedy+"+rest", "+")
		}
		row := []any{seriesCell(r.Series), coveredText(r), r.FromM, r.ToM, remedy, results.JoinInts(at, " "), nil, stakeCell(r.StakeUS), betweenCell(r)}
		if least != nil {
			row[6] = gainCell(*least)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
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
