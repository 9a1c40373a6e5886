package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// fillSamples is of how many Ms between those that were swept a stretch is executed at most. A kernel
// that changes within a stretch does so for some residue of M, or from some M on: one of eight samples
// meets every second such change at least.
const fillSamples = 8

// fill executes a sample of the Ms of each stretch that were not swept. A stretch whose ends are proven
// and whose whole sample pays holds for every M; any other for those alone that were swept.
func fill(ctx context.Context, r *SplitsResult, f *evidence, all []settled, look *resultLook, m Measurer) error {
	var contests []*contest
	of := map[*contest]int{}
	room := f.cfg.Remedy.MaxCases
	unfilled := 0
	for i := range all {
		s := &all[i]
		between := s.unswept()
		if len(between) == 0 {
			s.Filled = len(s.Ms) > 1
			continue
		}
		s.OnlySwept = true
		sample := s.sample(between)
		if room -= len(sample); room < 0 {
			unfilled++
			continue
		}
		for _, at := range sample {
			c := &contest{stretch: s.from, point: -1, m: at, near: s.near(at)}
			remedy, _ := s.plan.remedy(at) // what serves both ends serves what lies between
			remedy.PredictedUS, remedy.DirectUS = s.between(at)
			c.entries = []*entry{{plan: s.plan, remedy: remedy, p: 1}}
			contests, of[c] = append(contests, c), i
		}
	}
	if unfilled > 0 {
		r.warn("run", "no room to fill %d of %d stretches, which hold only where they were swept: remedy.max_cases is %d", unfilled, len(all), f.cfg.Remedy.MaxCases)
	}
	if look.restricts() {
		// What does not fit is missing below, and its stretch stays as it was swept.
		var err error
		if contests, _, _, err = look.admit(ctx, contests); err != nil {
			return fmt.Errorf("look at results: %w", err)
		}
	}
	done := contests
	var failure error
	for from := 0; from < len(contests); from += executeGroup {
		group := contests[from:min(from+executeGroup, len(contests))]
		if err := runContests(ctx, f.prepared, group, f.cfg, m); err != nil {
			done = contests[:from]
			if timeUp(ctx, err) {
				r.warn("run", "the time was up before %s between those that were swept could be executed", plural(len(contests)-from, "row"))
			} else {
				failure = fmt.Errorf("fill stretches: %w", err)
			}
			break
		}
	}
	rate(f.cfg, done)
	if err := look.proof(ctx, done); err != nil && failure == nil {
		failure = fmt.Errorf("look at results: %w", err)
	}
	paid := map[int][]Remedy{}
	for _, c := range done {
		if e := c.entries[0]; e.paying {
			paid[of[c]] = append(paid[of[c]], e.remedy)
		} else if e.remedy.Executed {
			r.Rejected = append(r.Rejected, SplitRow{c.stretch.curve.series.Key, e.remedy})
		}
	}
	for i, proofs := range paid {
		s := &all[i]
		if len(proofs) == len(s.sample(s.unswept())) {
			s.Filled, s.OnlySwept = true, false
		}
		s.Proofs = append(s.Proofs, proofs...)
		slices.SortFunc(s.Proofs, func(a, b Remedy) int { return a.M - b.M })
	}
	return failure
}

// unswept lists the Ms of a stretch between those that were swept.
func (s *settled) unswept() []int {
	var out []int
	for i, m := range s.Ms {
		if i == 0 {
			continue
		}
		for between := s.Ms[i-1] + 1; between < m; between++ {
			out = append(out, between)
		}
	}
	return out
}

// sample picks some of the Ms between: one, at random, out of each of as many equal parts. The same
// stretch gives the same sample.
func (s *settled) sample(between []int) []int {
	n := min(fillSamples, len(between))
	src := rand.New(rand.NewPCG(uint64(s.FromM)<<32|uint64(s.ToM), uint64(len(s.Ms))))
	out := make([]int, n)
	for i := range out {
		from, to := i*len(between)/n, (i+1)*len(between)/n
		out[i] = between[from+src.IntN(to-from)]
	}
	return out
}

// near is the M nearest to one that was not swept, of those that were.
func (s *settled) near(m int) int {
	hi := sort.SearchInts(s.Ms, m)
	if m-s.Ms[hi-1] <= s.Ms[hi]-m {
		hi--
	}
	return s.Ms[hi]
}

// between is about what the plan and the direct product take at an M that was not swept, in
// microseconds: on the line between its neighbours that were.
func (s *settled) between(m int) (remedy, direct float64) {
	c := s.from.curve
	hi := sort.SearchInts(s.Ms, m)
	low, high := s.Ms[hi-1], s.Ms[hi]
	share := float64(m-low) / float64(high-low)
	at := func(m int) float64 {
		i, _ := c.at(m)
		return math.Exp(c.points[i].us.y)
	}
	direct = at(low) + share*(at(high)-at(low))
	gain := func(proofs []Remedy) float64 {
		least := math.Inf(1)
		for _, p := range proofs {
			least = math.Min(least, p.Gain.Mid)
		}
		return least
	}
	return direct / gain(s.Proofs), direct
}
