package infer

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A library's next choices of an algorithm are measured as separate kernels (see [kernels.Candidates]). If
// the first choice was measured too, further choices are not judged, because no user would run them. They can
// show that the first was not the best, and serve as its remedy. A choice whose first choice was not measured
// is judged like any other kernel.

func linkChoices(curves []*Curve, further map[results.SeriesKey]bool) {
	libraries := map[results.SeriesKey][]*Curve{}
	key := func(c *Curve) results.SeriesKey {
		k := c.Series.Key
		k.Kernel = kernels.ChooserOf(k.Kernel)
		return k
	}
	for _, c := range curves {
		c.Unjudged = further[c.Series.Key]
		libraries[key(c)] = append(libraries[key(c)], c)
	}
	for _, c := range curves {
		for _, other := range libraries[key(c)] {
			if other != c {
				c.Choices = append(c.Choices, other)
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

// FirstChoices leaves further choices out: the nth choice is another algorithm in another library version, so a
// change of its time is meaningless.
func FirstChoices(curves []*Curve) []*Curve {
	return slices.DeleteFunc(slices.Clone(curves), func(c *Curve) bool { return c.Unjudged })
}
