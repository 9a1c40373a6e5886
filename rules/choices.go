package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A library's next choices of an algorithm are measured as separate kernels (see [kernels.Candidates]). If
// the first choice was measured too, further choices are not judged, because no user would run them. They can
// show that the first was not the best, and serve as its remedy. A choice whose first choice was not measured
// is judged like any other kernel.

func linkChoices(curves []*curve, further map[results.SeriesKey]bool) {
	libraries := map[results.SeriesKey][]*curve{}
	key := func(c *curve) results.SeriesKey {
		k := c.series.Key
		k.Kernel = kernels.ChooserOf(k.Kernel)
		return k
	}
	for _, c := range curves {
		c.unjudged = further[c.series.Key]
		libraries[key(c)] = append(libraries[key(c)], c)
	}
	for _, c := range curves {
		for _, other := range libraries[key(c)] {
			if other != c {
				c.choices = append(c.choices, other)
			}
		}
	}
}

// FurtherChoices returns the series that are further choices of another one in series.
func FurtherChoices(series []results.Series) map[results.SeriesKey]bool {
	first := map[results.SeriesKey]bool{}
	for _, s := range series {
		first[s.Key] = true
	}
	out := map[results.SeriesKey]bool{}
	for _, s := range series {
		key, n := s.Key, 0
		if key.Kernel, n = kernels.SplitCandidate(key.Kernel); n > 0 && first[key] {
			out[s.Key] = true
		}
	}
	return out
}

// judged leaves further choices out: the nth choice is another algorithm in another library version, so a
// change of its time is meaningless.
func judged(curves []*curve) []*curve {
	return slices.DeleteFunc(slices.Clone(curves), func(c *curve) bool { return c.unjudged })
}

func (w *witness) choice() (Cause, string) {
	by := (*curve)(nil)
	var p point
	for _, c := range w.curve.choices {
		if i, ok := c.at(w.row.m); ok && (by == nil || c.points[i].us.Y < p.us.Y) {
			by, p = c, c.points[i]
		}
	}
	switch {
	case by == nil:
		return "", fmt.Sprintf("no other algorithm of %s was measured", w.kernel())
	case p.us.Y > w.within():
		return "", fmt.Sprintf("other algorithms of %s take at least %s us at %s", w.kernel(), figure(math.Exp(p.us.Y)), w.curve.name(p.m))
	}
	return HeuristicChoice, fmt.Sprintf("%s chose %s, but its %s, %s, takes only %s us at %s",
		w.kernel(), short(w.row.label), by.series.Key.Kernel, short(p.label), figure(math.Exp(p.us.Y)), w.curve.name(p.m))
}
