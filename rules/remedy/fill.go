package remedy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// fillSamples limits the executed Ms between the swept ones of a stretch. If the kernel changes within a
// stretch, it does so for a residue of M or from some M on. One of eight samples meets at least every second
// such change.
const fillSamples = 8

// fill executes a sample of each stretch's Ms that were not swept. A stretch whose ends are proven and whose
// whole sample pays holds for every M, any other one only for the swept Ms.
func fill(ctx context.Context, r *Result, f *rules.Facts, all []settled, look *resultLook, m rules.Measurer) error {
	var contests []*contest
	of := map[*contest]int{}
	room := f.Cfg.Remedy.MaxCases
	unfilled := 0
	for i := range all {
		s := &all[i]
		between := s.unswept()
		if !s.Series.OverM() {
			continue // sizes of weights are those of a model
		}
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
			remedy, _ := s.plan.remedy(at) // a remedy for both ends applies between them
			remedy.PredictedUS, remedy.DirectUS = s.between(at)
			c.entries = []*entry{{plan: s.plan, remedy: remedy, p: 1}}
			contests, of[c] = append(contests, c), i
		}
	}
	if unfilled > 0 {
		r.warn("run", "%d of %d stretches are not filled and cover only measured sizes: remedy.max_cases is %d", unfilled, len(all),
			f.Cfg.Remedy.MaxCases)
	}
	if look.restricts() {
		// A contest whose result does not fit is missing below; its stretch stays OnlySwept.
		var err error
		if contests, _, _, err = look.admit(ctx, contests); err != nil {
			return fmt.Errorf("check results: %w", err)
		}
	}
	done := contests
	var failure error
	for from := 0; from < len(contests); from += executeGroup {
		group := contests[from:min(from+executeGroup, len(contests))]
		if err := runContests(ctx, f.Estimates, group, f.Cfg, m); err != nil {
			done = contests[:from]
			if rules.TimeUp(ctx, err) {
				r.warn("run", "the time limit was reached before %s between the measured ones could be executed",
					phrase.Count(len(contests)-from, "row"))
			} else {
				failure = fmt.Errorf("fill stretches: %w", err)
			}
			break
		}
	}
	rate(f.Cfg, done)
	if err := look.proof(ctx, done); err != nil && failure == nil {
		failure = fmt.Errorf("check results: %w", err)
	}
	paid := map[int][]rules.Remedy{}
	for _, c := range done {
		if e := c.entries[0]; e.paying {
			paid[of[c]] = append(paid[of[c]], e.remedy)
		} else if e.remedy.Executed {
			r.Rejected = append(r.Rejected, Row{c.stretch.curve.Series.Key, e.remedy})
		}
	}
	for i, proofs := range paid {
		s := &all[i]
		if len(proofs) == len(s.sample(s.unswept())) {
			s.Filled, s.OnlySwept = true, false
		}
		s.Proofs = append(s.Proofs, proofs...)
		slices.SortFunc(s.Proofs, func(a, b rules.Remedy) int { return a.M - b.M })
	}
	return failure
}

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

// sample picks a random M from each of equal parts of between. The same stretch gives the same sample.
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

func (s *settled) near(m int) int {
	hi := sort.SearchInts(s.Ms, m)
	if m-s.Ms[hi-1] <= s.Ms[hi]-m {
		hi--
	}
	return s.Ms[hi]
}

// between interpolates the times of the plan and the direct product at an M that was not swept, in
// microseconds.
func (s *settled) between(m int) (remedy, direct float64) {
	c := s.from.curve
	hi := sort.SearchInts(s.Ms, m)
	low, high := s.Ms[hi-1], s.Ms[hi]
	share := float64(m-low) / float64(high-low)
	at := func(m int) float64 {
		i, _ := c.At(m)
		return math.Exp(c.Points[i].US.Y)
	}
	direct = at(low) + share*(at(high)-at(low))
	gain := func(proofs []rules.Remedy) float64 {
		least := math.Inf(1)
		for _, p := range proofs {
			least = math.Min(least, p.Gain.Mid)
		}
		return least
	}
	return direct / gain(s.Proofs), direct
}
