package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// splitsSentences gives in plain words the number of remedies that pay, the best one, the table's saving, and
// the unmeasured rest.
func splitsSentences(s *remedy.Result) []Note {
	s = s.Whole()
	if s.Invalid != "" {
		out := []Note{{"This run cannot be judged: " + s.Invalid + ".", Open}}
		if n := len(allRemedies(s)); n > 0 {
			out = append(out, Notef(Neutral, "-o wide shows %s of it, which may be wrong.", Plural(n, "remedy", "remedies")))
		}
		return append(out, Note{Text: doctorNext})
	}
	out := []Note{{splitsCount(s), Neutral}}
	if paying(allRemedies(s)) > 0 {
		out[0].Tone = Good
	}
	if best := bestRemedy(s); best != nil {
		out = append(out, Note{Text: bestRemedyText(best)})
	}
	if text := savedText(s.Savings); text != "" {
		out = append(out, Note{Text: text})
	}
	if s.TrafficUncovered > 0 {
		out = append(out, Notef(Open, "%s of the traffic is outside the measured sizes%s, and is not counted.", percent(s.TrafficUncovered),
			sweptText(s.Ranges)))
	}
	if n := len(s.Suspected); n > 0 {
		out = append(out, Notef(Open, "%s measured too few times to search: more --rounds would decide them.",
			Plural(n, "suspected stretch of M was", "suspected stretches of M were")))
	}
	return out
}

func splitsCount(s *remedy.Result) string {
	all := allRemedies(s)
	executed := countExecuted(all)
	open := len(all) - executed + s.Untried
	switch {
	case len(all)+s.Untried+s.LeftOut == 0:
		return capitalized(nothingPredicted(s)) + "."
	case executed == 0 && open == 0:
		return fmt.Sprintf("%s skipped because of the result; no remedy was measured.", Plural(s.LeftOut, "remedy is", "remedies are"))
	case executed == 0:
		return fmt.Sprintf("%s predicted, but not measured: --execute measures them, on the machine of the run.",
			Plural(open, "remedy is", "remedies are"))
	}
	text := fmt.Sprintf("%d of %s", paying(all), Plural(executed, "measured remedy pays", "measured remedies pay"))
	if open > 0 {
		text += fmt.Sprintf("; %s predicted, but not measured", Plural(open, "more is", "more are"))
	}
	return text + "."
}

func countExecuted(rows []remedy.Row) int {
	return countOf(rows, func(r remedy.Row) bool { return r.Executed })
}

// bestRemedy is the remedy with the largest gain that pays for an engine's kernel, or nil.
func bestRemedy(s *remedy.Result) *remedy.Row {
	var best *remedy.Row
	for i := range s.Splits {
		if r := &s.Splits[i]; r.Pays && s.Callable(r.Series) && (best == nil || r.Gain.Mid > best.Gain.Mid) {
			best = r
		}
	}
	return best
}

func bestRemedyText(r *remedy.Row) string {
	return fmt.Sprintf("Best: %s of %s on %s takes %s us, and %s us %s (%sx).", r.Series.Words(r.M), productText(r.Series.Subject),
		r.Series.Kernel, short3(r.DirectUS), short3(r.ExecutedUS.Mid), remedyClause(r.Remedy), short3(r.Gain.Mid))
}

// savedText gives the share of time that the table saves for each kernel; it may be empty.
func savedText(savings []remedy.Saving) string {
	savings = slices.DeleteFunc(slices.Clone(savings), func(s remedy.Saving) bool { return !(s.SavedUS > 0) || !(s.DirectUS > 0) })
	if len(savings) == 0 {
		return ""
	}
	of := "a pass over all sizes that were searched"
	if savings[0].Weighed {
		of = "the traffic"
	}
	share := func(s remedy.Saving) float64 { return s.SavedUS / s.DirectUS }
	const most = 3
	if len(savings) > most || slices.ContainsFunc(savings, func(s remedy.Saving) bool { return s.Device != savings[0].Device }) {
		byShare := func(a, b remedy.Saving) int { return cmp.Compare(share(a), share(b)) }
		least, best := slices.MinFunc(savings, byShare), slices.MaxFunc(savings, byShare)
		return fmt.Sprintf("The table saves %s of %s, by kernel and device.", percentRange(share(least), share(best)), of)
	}
	var words []string
	for _, s := range savings {
		words = append(words, percent(share(s))+" on "+s.Kernel)
	}
	return fmt.Sprintf("The table saves, of %s, %s.", of, list(words))
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
