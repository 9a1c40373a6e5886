package calibrate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Picks are plans of a case: their places among the candidates of each family.
type Picks map[string][]int

// plan is a candidate of some family.
type plan struct {
	family string
	index  int
	candidates.Expected
}

// expect are the plans for a case as a card's models expect them, by family, the fastest first.
func expect(a planning.Arch, c candidates.Case, by *calibration.Card) (map[string][]plan, error) {
	restore, err := calibration.Try(by)
	if err != nil {
		return nil, err
	}
	defer restore()
	all := map[string][]plan{}
	for _, family := range candidates.Families(c.Operation) {
		expected, err := candidates.Expect(a, c, family)
		if err != nil {
			return nil, err
		}
		plans := make([]plan, len(expected))
		for i, e := range expected {
			plans[i] = plan{family, i, e}
		}
		slices.SortStableFunc(plans, func(x, y plan) int { return cmp.Compare(x.Seconds, y.Seconds) })
		if len(plans) > 0 {
			all[family] = plans
		}
	}
	return all, nil
}

// fastest are the plans of all families together, the one that is expected to be the fastest first: what auto
// picks. Of equal ones the earlier family's comes first, as auto has it.
func fastest(c candidates.Case, all map[string][]plan) []plan {
	var plans []plan
	for _, family := range candidates.Families(c.Operation) {
		plans = append(plans, all[family]...)
	}
	slices.SortStableFunc(plans, func(x, y plan) int { return cmp.Compare(x.Seconds, y.Seconds) })
	return plans
}

// What is timed of a family for a case: the plans of least expected time, and some drawn from those that are
// not far from it, since models are wrong at first. Of a family that is expected to be much slower than another,
// a few plans tell that.
const (
	bestPlans  = 8
	drawnPlans = 10
	slowPlans  = 2
	notFar     = 1.5
	muchSlower = 1.4
)

// choose are the plans of a case that are timed first.
func choose(c candidates.Case, all map[string][]plan, rng *rand.Rand) Picks {
	best := math.Inf(1)
	for _, plans := range all {
		best = min(best, plans[0].Seconds)
	}
	picks := Picks{}
	for _, family := range candidates.Families(c.Operation) {
		plans := all[family]
		if len(plans) == 0 {
			continue
		}
		if plans[0].Seconds > muchSlower*best {
			picks.add(plans[:min(len(plans), slowPlans)]...)
			continue
		}
		near := slices.IndexFunc(plans, func(p plan) bool { return p.Seconds > notFar*plans[0].Seconds })
		if near < 0 {
			near = len(plans)
		}
		first := min(near, bestPlans)
		picks.add(plans[:first]...)
		// One of each of as many equal parts of the rest.
		rest := plans[first:near]
		parts := min(drawnPlans, len(rest))
		for i := range parts {
			from, to := i*len(rest)/parts, (i+1)*len(rest)/parts
			picks.add(rest[from+rng.IntN(to-from)])
		}
	}
	return picks
}

func (p Picks) add(plans ...plan) {
	for _, one := range plans {
		if !slices.Contains(p[one.family], one.index) {
			p[one.family] = append(p[one.family], one.index)
		}
	}
}

// without are the picks that are not among others.
func (p Picks) without(others Picks) Picks {
	rest := Picks{}
	for family, indices := range p {
		for _, i := range indices {
			if !slices.Contains(others[family], i) {
				rest[family] = append(rest[family], i)
			}
		}
	}
	return rest
}

func (p Picks) count() int {
	n := 0
	for _, indices := range p {
		n += len(indices)
	}
	return n
}
