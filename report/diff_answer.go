package report

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

func diffSentences(d *diff.Result, problems *problem.Changes) []Note {
	d = d.Whole()
	if d.Invalid != "" {
		sides := "runs"
		if d.Run != "" {
			sides = "kernels"
		}
		out := []Note{Notef(Bad, "The %s can't be compared: %s.", sides, d.Invalid)}
		if d.Disturbance == d.Invalid {
			out = append(out, Notef(Neutral, "Measure %s again with no other work on the machine.", d.Disturber()))
		}
		return out
	}
	out := []Note{{diffOverall(d) + ": " + diffCounts(d) + ".", diffTone(d)}}
	if worst := worstCase(d); worst != nil {
		out = append(out, Note{Text: worstCaseText(d, worst)})
	}
	if text := groupsText(d); text != "" {
		out = append(out, Note{Text: text})
	}
	if problems != nil && problems.Same+len(problems.New)+len(problems.Gone) > 0 {
		out = append(out, Note{Text: problemChangesText(problems)})
	}
	if n := d.Undecided; n > 0 {
		out = append(out, Notef(Neutral, "%s undecided; what would decide them: %s.", Plural(n, "case is", "cases are"), d.UndecidedHint()))
	}
	if d.Lost > 0 {
		out = append(out, Notef(Open, "%s in one run only: it failed in the other, or all its samples are excluded.",
			Plural(d.Lost, "case is", "cases are")))
	}
	return out
}

func diffTone(d *diff.Result) Tone {
	switch {
	case d.Invalid != "" || d.Gate:
		return Bad
	case d.Undecided > 0 || d.Slower > 0 || d.Marginal() > 0:
		return Open
	}
	return Good
}

func diffOverall(d *diff.Result) string {
	over := fmt.Sprintf("over %s (geometric mean", Count(len(d.Cases), "case"))
	g := d.GeomeanOverRows
	switch {
	case !(g.Mid > 0):
		return fmt.Sprintf("B was compared with A in %s", Count(len(d.Cases), "case"))
	case !(g.Lo > 0):
		return fmt.Sprintf("B takes %sx the time of A %s)", short3(g.Mid), over)
	case g.Lo > 1:
		return fmt.Sprintf("B is %s slower than A %s, %s)", percent(g.Mid-1), over, percentRange(g.Lo-1, g.Hi-1))
	case g.Hi < 1:
		return fmt.Sprintf("B is %s faster than A %s, %s)", percent(1/g.Mid-1), over, percentRange(1/g.Hi-1, 1/g.Lo-1))
	case g.Lo == 1 && g.Hi == 1:
		return fmt.Sprintf("B is as fast as A %s)", over)
	}
	bounds := fmt.Sprintf("from %s faster to %s slower)", percent(1/g.Lo-1), percent(g.Hi-1))
	if max(1/g.Lo, g.Hi) <= 1+d.Threshold {
		return fmt.Sprintf("B is as fast as A %s, %s", over, bounds)
	}
	return fmt.Sprintf("B may be faster or slower than A %s, %s", over, bounds)
}

// percentRange prints two shares with one unit: "1.2 to 1.8 %".
func percentRange(lo, hi float64) string {
	low, high := percent(lo), percent(hi)
	if low == high {
		return high
	}
	return low[:len(low)-len(" %")] + " to " + high
}

func diffCounts(d *diff.Result) string {
	text := fmt.Sprintf("%s slower, %d faster", Plural(d.Slower, "case is", "cases are"), d.Faster)
	if d.Slower+d.Faster == 0 {
		text = "no case is known to have changed"
	}
	if n := d.SuspectedSlower; n > 0 {
		text += fmt.Sprintf(", %d may be slower", n)
	}
	if n := d.SuspectedFaster; n > 0 {
		text += fmt.Sprintf(", %d may be faster", n)
	}
	if n := d.Marginal(); n > 0 {
		text += fmt.Sprintf(", %s at the threshold of %s", Plural(n, "lies", "lie"), FormatShare(d.Threshold))
	}
	return text
}

// worstCase returns the case with the largest slowdown, or nil.
func worstCase(d *diff.Result) *diff.Case {
	var worst *diff.Case
	for i := range d.Cases {
		c := &d.Cases[i]
		if c.Change == change.Slower && (worst == nil || c.Ratio.Mid > worst.Ratio.Mid) {
			worst = c
		}
	}
	return worst
}

func worstCaseText(d *diff.Result, c *diff.Case) string {
	return fmt.Sprintf("Worst: %s: %s to %s us (%sx).", caseText(c.Series, c.M, d.Series), short3(c.A.Mid), short3(c.B.Mid),
		short3(c.Ratio.Mid))
}

func caseText(key results.SeriesKey, m int, among []diff.Series) string {
	text := key.Subject.Size() + " M " + itoa(m)
	if slices.ContainsFunc(among, func(s diff.Series) bool { return s.Series.Kernel != key.Kernel }) {
		text += " on " + key.Kernel
	}
	return text
}

func groupsText(d *diff.Result) string {
	var words []string
	if n := d.SlowerStretches; n > 0 {
		words = append(words, Plural(n, "stretch of M", "stretches of M"))
	}
	if n := d.SlowerSeries; n > 0 {
		words = append(words, Plural(n, "whole series", "whole series"))
	}
	if len(words) == 0 {
		return ""
	}
	return "Slower when all their cases are taken together: " + list(words) + "."
}

func problemChangesText(c *problem.Changes) string {
	text := fmt.Sprintf("Problems: %d the same, %d new in B, %d gone", c.Same, len(c.New), len(c.Gone))
	if len(c.New) > 0 {
		p := c.New[0]
		text += fmt.Sprintf("; the first new one: %s M %s on %s", p.Curve(), IntervalText(p.FromM, p.ToM), list(p.Kernels))
	}
	return text + "."
}
