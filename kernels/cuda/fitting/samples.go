package fitting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// How much a time counts. What is far from the fastest is never picked, so that its time need
// not be met: from farAway times the fastest on, weights fall off with the power decay of
// the ratio. A time whose interval is as wide as scatter to either side counts half.
const (
	farAway = 1.25
	decay   = 4
	scatter = 0.03
)

// heldOut is the part of the shapes that nothing is fitted to: they tell what the constants
// are worth for shapes that nobody measured.
const heldOut = 0.2

// heldOutStream tells this use of the seed from others.
const heldOutStream = 0x68656c64

// measured is the time of one candidate.
type measured struct {
	index  int     // among the family's candidates for the case
	log    float64 // of its seconds
	weight float64
	near   bool // the fastest, or less than farAway times that
}

// group is the candidates of one family for one case that were measured.
type group struct {
	c      candidates.Case
	family string
	times  []measured
	arch   planning.Arch // at the clock of the times, as far as it is known: a case's candidates take turns, and share it
	held   bool          // out: not fitted to
}

// multiplies says that the tensor cores have more to do for a case than the memory.
func (g *group) multiplies() bool { return g.c.Operation == kernels.GEMM && g.c.M >= tensorRows }

// tensorRows is from how many rows on.
const tensorRows = 1024

// clock is the clock under load as a part of the highest one, 0 where it is not known.
func (s *Samples) clock() float64 {
	var all []float64
	for _, g := range s.groups {
		if mhz := g.arch.LoadMHz; mhz > 0 && g.multiplies() {
			all = append(all, mhz)
		}
	}
	if len(all) == 0 || s.arch.ClockMHz <= 0 {
		return 0
	}
	mhz, _, _ := candidates.Median(all)
	return mhz / s.arch.ClockMHz
}

// Samples are all that was measured.
type Samples struct {
	arch   planning.Arch
	groups []*group
	sparse bool
}

// Sparse says that plans that were not measured may be as good as those that were: regret is that of the best pick
// among the latter. Otherwise they were left out for being hopeless.
func (s *Samples) Sparse() { s.sparse = true }

// NewSamples sorts times into groups and holds the plans of this program against those that
// were measured.
func NewSamples(a planning.Arch, times []candidates.Time) (*Samples, error) {
	type key struct {
		c      candidates.Case
		family string
	}
	s := &Samples{arch: a}
	byKey := map[key]*group{}
	labels := map[*group][]candidates.Expected{}
	seen := map[*group]map[int]bool{}
	clocks := map[*group][]float64{}
	for _, t := range times {
		k := key{t.Case, t.Family}
		g := byKey[k]
		if g == nil {
			g = &group{c: t.Case, family: t.Family, arch: a}
			all, err := candidates.Expect(a, t.Case, t.Family)
			if err != nil {
				return nil, err
			}
			byKey[k], labels[g], seen[g] = g, all, map[int]bool{}
			s.groups = append(s.groups, g)
		}
		switch all := labels[g]; {
		case t.Index >= len(all) || all[t.Index].Label != t.Label:
			return nil, fmt.Errorf("%v: %s has no candidate %d %q: it was measured by another build", t.Case, t.Family, t.Index, t.Label)
		case seen[g][t.Index]:
			return nil, fmt.Errorf("%v: candidate %d of %s was measured twice", t.Case, t.Index, t.Family)
		}
		seen[g][t.Index] = true
		if t.MHz > 0 {
			clocks[g] = append(clocks[g], t.MHz)
		}
		half := (t.Interval[1] - t.Interval[0]) / 2 / t.Seconds
		g.times = append(g.times, measured{index: t.Index, log: math.Log(t.Seconds), weight: 1 / (1 + half*half/(scatter*scatter))})
	}
	for _, g := range s.groups {
		if known := clocks[g]; len(known) > 0 {
			g.arch.LoadMHz, _, _ = candidates.Median(known)
		}
		best := g.best()
		for i := range g.times {
			t := &g.times[i]
			beyond := t.log - best - math.Log(farAway)
			t.near = beyond <= 0
			t.weight *= math.Exp(-decay * max(0, beyond))
		}
	}
	return s, nil
}

// best is the least of a group's times, as a logarithm.
func (g *group) best() float64 {
	best := math.Inf(1)
	for _, t := range g.times {
		best = min(best, t.log)
	}
	return best
}

// slowest is the place of the greatest.
func (g *group) slowest() int {
	at := 0
	for i, t := range g.times {
		if t.log > g.times[at].log {
			at = i
		}
	}
	return at
}

// shape is a case without its data type: what is held out is so in all of them.
func shape(c candidates.Case) candidates.Case {
	c.DType = ""
	return c
}

// HoldOut draws the shapes that are held out, a fifth of them. Nothing is fitted to those.
func (s *Samples) HoldOut(seed uint64) {
	var shapes []candidates.Case
	groups := map[candidates.Case][]*group{}
	for _, g := range s.groups {
		k := shape(g.c)
		if groups[k] == nil {
			shapes = append(shapes, k)
		}
		groups[k] = append(groups[k], g)
	}
	order := rand.New(rand.NewPCG(seed, heldOutStream)).Perm(len(shapes))
	for _, i := range order[:int(heldOut*float64(len(shapes)))] {
		for _, g := range groups[shapes[i]] {
			g.held = true
		}
	}
}

// expectation is what models expect of a group.
type expectation struct {
	logs  []float64 // of the seconds of what was measured, as the group's times
	least float64   // that of the candidate that is picked among all
	pick  int       // its place among the times, or that of the slowest of its family where it was not measured
	// unmeasured is a pick that was not measured, since it seemed hopeless.
	unmeasured bool
}

// expected is what a card's models expect of groups.
func (s *Samples) expected(groups []*group, card *calibration.Card) ([]expectation, error) {
	restore, err := calibration.Try(card)
	if err != nil {
		return nil, err
	}
	defer restore()
	all := make([]expectation, len(groups))
	var parts errgroup.Group
	workers := min(runtime.GOMAXPROCS(0), len(groups))
	for w := range workers {
		parts.Go(func() error {
			for i := w; i < len(groups); i += workers {
				plans, err := candidates.Expect(groups[i].arch, groups[i].c, groups[i].family)
				if err != nil {
					return err
				}
				all[i] = groups[i].expect(plans, s.sparse)
			}
			return nil
		})
	}
	return all, parts.Wait()
}

// expect is what is expected of the group among all plans of its family, or among those that were measured.
func (g *group) expect(plans []candidates.Expected, measured bool) expectation {
	first := 0
	if measured {
		first = g.times[0].index
		for _, t := range g.times {
			if plans[t.index].Seconds < plans[first].Seconds {
				first = t.index
			}
		}
	} else {
		for i, plan := range plans {
			if plan.Seconds < plans[first].Seconds {
				first = i
			}
		}
	}
	e := expectation{logs: make([]float64, len(g.times)), least: math.Log(plans[first].Seconds), pick: g.slowest(), unmeasured: true}
	for i, t := range g.times {
		e.logs[i] = math.Log(plans[t.index].Seconds)
		if t.index == first {
			e.pick, e.unmeasured = i, false
		}
	}
	return e
}
