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
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// The weight of a time. Slow candidates are never picked, so their times matter less: beyond farAway times
// the fastest, weights fall with the power decay of the ratio. A time with an interval of ±scatter has half
// weight.
const (
	farAway = 1.25
	decay   = 4
	scatter = 0.03
)

// heldOut is the fraction of shapes that are not fitted; they measure the constants' quality for unmeasured
// shapes.
const heldOut = 0.2

// heldOutStream separates this use of the seed from others.
const heldOutStream = 0x68656c64

type measured struct {
	index  int     // among the family's candidates for the case
	log    float64 // of its seconds
	weight float64
	near   bool // less than farAway times the fastest
}

type group struct {
	c      candidates.Case
	family string
	times  []measured
	arch   planning.Arch // with the recorded clock, if any, which a case's interleaved candidates share
	held   bool
}

// multiplies reports whether a case is bound by the tensor cores rather than memory.
func (g *group) multiplies() bool { return g.c.Operation == kernels.GEMM && g.c.M >= tensorRows }

const tensorRows = 1024

// clock returns the clock under load as a fraction of the highest one, 0 if unknown.
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
	mhz, _, _ := stats.MedianInterval(all)
	return mhz / s.arch.ClockMHz
}

// Samples are all measured times.
type Samples struct {
	arch   planning.Arch
	groups []*group
}

// NewSamples groups times and checks this program's plans against the measured ones.
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
			g.arch.LoadMHz, _, _ = stats.MedianInterval(known)
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

func (g *group) best() float64 {
	best := math.Inf(1)
	for _, t := range g.times {
		best = min(best, t.log)
	}
	return best
}

func (g *group) slowest() int {
	at := 0
	for i, t := range g.times {
		if t.log > g.times[at].log {
			at = i
		}
	}
	return at
}

// shape returns a case without its data type, because shapes are held out in all types.
func shape(c candidates.Case) candidates.Case {
	c.DType = ""
	return c
}

// HoldOut draws a fifth of the shapes, which are excluded from the fit.
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

type expectation struct {
	logs  []float64 // log-seconds of the measured times, in order
	least float64   // of the candidate picked among all
	pick  int       // its index among the times, or the slowest's if it was not measured
	// unmeasured marks a pick without a time, because it seemed hopeless.
	unmeasured bool
}

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
				all[i] = groups[i].expect(plans)
			}
			return nil
		})
	}
	return all, parts.Wait()
}

// expect returns the group's expectation among all plans of its family.
func (g *group) expect(plans []candidates.Expected) expectation {
	first := 0
	for i, plan := range plans {
		if plan.Seconds < plans[first].Seconds {
			first = i
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
