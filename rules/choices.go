package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A library's next choices of an algorithm are measured as kernels of their own
// (see [kernels.Candidates]). Where the first choice was measured too, further choices are
// not judged, since nobody would have run them: they may show that the first was not the
// best, and serve as its remedy. A choice whose first was not measured is a kernel like
// any other.

// linkChoices tells every curve which others are choices of its library.
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

// furtherChoices are the series among others that are further choices of one of them.
func furtherChoices(series []results.Series) map[results.SeriesKey]bool {
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

// judged leaves further choices out: between versions of a library its nth choice is another
// algorithm, and a change of its time says nothing.
func judged(curves []*curve) []*curve {
	return slices.DeleteFunc(slices.Clone(curves), func(c *curve) bool { return c.unjudged })
}

// choice: one of the library's own next choices is faster at this very product.
func (w *witness) choice() (Cause, string) {
	by := (*curve)(nil)
	var p point
	for _, c := range w.curve.choices {
		if i, ok := c.at(w.row.m); ok && (by == nil || c.points[i].us.y < p.us.y) {
			by, p = c, c.points[i]
		}
	}
	switch {
	case by == nil:
		return "", "no other choice of the library was measured"
	case p.us.y > w.within():
		return "", fmt.Sprintf("the library's other choices take %s us and more at m%d", figure(math.Exp(p.us.y)), p.m)
	}
	return HeuristicChoice, fmt.Sprintf("the library chose %s, and its own %s, %s, takes %s us at m%d",
		short(w.row.label), by.series.Key.Kernel, short(p.label), figure(math.Exp(p.us.y)), p.m)
}
