package sweep

import (
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Affordable returns the distinct cases of the first elements that fit in most.
func Affordable(all [][]results.Case, most time.Duration) []results.Case {
	var out []results.Case
	for _, together := range all {
		with := slices.Clone(out)
		for _, c := range together {
			if placeOfCase(with, c) < 0 {
				with = append(with, c)
			}
		}
		if len(out) > 0 && time.Duration(len(with))*SustainTime > most {
			break
		}
		out = with
	}
	return out
}

func placeOfCase(cases []results.Case, c results.Case) int {
	return slices.IndexFunc(cases, func(o results.Case) bool {
		return o.Key() == c.Key()
	})
}

// NotSustained counts the elements with a case without a sample; samples are parallel to cases.
func NotSustained(all [][]results.Case, cases []results.Case, samples []results.Sample) int {
	n := 0
	for _, together := range all {
		if slices.ContainsFunc(together, func(c results.Case) bool {
			at := placeOfCase(cases, c)
			return at < 0 || at >= len(samples) || samples[at].Launches == 0
		}) {
			n++
		}
	}
	return n
}
