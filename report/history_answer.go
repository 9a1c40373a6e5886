package report

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/history"
)

// historySentences counts the cases that changed, names the largest change and its first run, and counts the
// cases without enough runs. If no case has enough runs, it gives only the verdict.
func historySentences(r *history.Result) []Note {
	judged := len(r.Cases) - r.Short
	out := []Note{{historyVerdict(r), historyTone(r)}}
	if judged == 0 {
		return append(out, Note{Text: "More runs of the same plan would decide it."})
	}
	if r.Shows > r.Settings.Threshold {
		out = append(out, Notef(Neutral, "Times differ between runs by chance: a change below %s, or in the last few runs, may not show.",
			percent(r.Shows)))
	}
	if worst := worstChange(r); worst != nil {
		out = append(out, Note{Text: worstChangeText(worst)})
	}
	if r.Short > 0 {
		out = append(out, Notef(Open, "%s in fewer than %d runs, too few to judge.", Plural(r.Short, "more case is", "more cases are"),
			history.LeastRuns))
	}
	return out
}

func historyTone(r *history.Result) Tone {
	switch {
	case r.Slower() > 0:
		return Bad
	case r.Short == len(r.Cases):
		return Open
	}
	return Good
}

func historyVerdict(r *history.Result) string {
	over := Count(len(r.Runs), "run")
	if n := len(r.Runs); n > 0 {
		over += fmt.Sprintf(" (%s to %s)", dayText(r.Runs[0].Taken), dayText(r.Runs[n-1].Taken))
	}
	judged := len(r.Cases) - r.Short
	of := fmt.Sprintf("%s in %s", Count(judged, "case"), over)
	n, slower := r.Changed(), r.Slower()
	switch {
	case judged == 0:
		return fmt.Sprintf("Too few runs to judge: no case of %s is in %d runs, of %s.", Count(len(r.Cases), "case"), history.LeastRuns,
			over)
	case n == 0:
		if r.Shows > r.Settings.Threshold {
			return fmt.Sprintf("None of %s is known to have changed.", of)
		}
		return fmt.Sprintf("None of %s changed by %s or more.", of, FormatShare(r.Settings.Threshold))
	case slower == n:
		return fmt.Sprintf("%d of %s became slower.", n, of)
	case slower == 0:
		return fmt.Sprintf("%d of %s became faster.", n, of)
	}
	return fmt.Sprintf("%d of %s changed: the last change made %d slower and %d faster.", n, of, slower, n-slower)
}

// worstChange is the largest final slowdown, else the largest final speedup; nil if no case changed.
func worstChange(r *history.Result) *caseChange {
	var worst *caseChange
	worse := func(a, b *caseChange) bool {
		x, y := math.Log(a.Ratio.Mid), math.Log(b.Ratio.Mid)
		if (x > 0) != (y > 0) {
			return x > 0
		}
		return math.Abs(x) > math.Abs(y)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if n := len(c.Changes); n > 0 {
			x := &caseChange{c.Changes[n-1], c, r.Runs[c.Changes[n-1].Run]}
			if worst == nil || worse(x, worst) {
				worst = x
			}
		}
	}
	return worst
}

func worstChangeText(c *caseChange) string {
	return fmt.Sprintf("Most: M %d of %s, from %s to %s us (%sx) since %s, %s.", c.of.M, c.of.Identity, short3(c.FromUS), short3(c.ToUS),
		short3(c.Ratio.Mid), c.after.Path, dayText(c.after.Taken))
}
