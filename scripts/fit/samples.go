package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
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
	mhz    float64 // the SM clock, 0 if unknown
	weight float64
	near   bool // less than farAway times the fastest
}

type group struct {
	c      sized
	family string
	plans  []planned // with the constants of the embedded card
	times  []measured
	arch   planning.Arch // with the recorded clock, if any, which a case's interleaved candidates share
	held   bool
}

// multiplies reports whether a case is bound by the tensor cores rather than memory.
func (g *group) multiplies() bool { return g.c.Operation.IsProduct() && g.c.M >= tensorRows }

const tensorRows = 1024

// clock returns the clock under load as a fraction of the highest one, 0 if unknown.
func (s *samples) clock() float64 {
	var all []float64
	for _, g := range s.groups {
		if mhz := g.arch.LoadMHz; mhz > 0 && g.multiplies() {
			all = append(all, mhz)
		}
	}
	if len(all) == 0 || s.arch.ClockMHz <= 0 {
		return 0
	}
	return stats.Median(all) / s.arch.ClockMHz
}

// samples are all measured times.
type samples struct {
	arch   planning.Arch
	groups []*group
}

// newSamples groups times and finds each among this program's plans.
func newSamples(a planning.Arch, times []timed) (*samples, error) {
	type key struct {
		sized
		family string
	}
	s := &samples{arch: a}
	byKey := map[key]*group{}
	for _, t := range times {
		k := key{t.sized, t.family}
		g := byKey[k]
		if g == nil {
			all, err := plans(a, t.sized, t.family)
			if err != nil {
				return nil, err
			}
			g = &group{c: t.sized, family: t.family, arch: a, plans: all}
			byKey[k], s.groups = g, append(s.groups, g)
		}
		if err := g.add(t); err != nil {
			return nil, err
		}
	}
	for _, g := range s.groups {
		g.weigh()
	}
	return s, nil
}

// add finds a time's plan by its label.
func (g *group) add(t timed) error {
	index := slices.IndexFunc(g.plans, func(p planned) bool { return p.label == t.label })
	switch {
	case index < 0:
		return fmt.Errorf("%v: %s has no plan %q: it was measured by another build", g.c, g.family, t.label)
	case slices.ContainsFunc(g.times, func(m measured) bool { return m.index == index }):
		return fmt.Errorf("%v: plan %q of %s was measured twice", g.c, t.label, g.family)
	}
	half := (t.interval[1] - t.interval[0]) / 2 / t.seconds
	g.times = append(g.times, measured{index: index, log: math.Log(t.seconds), mhz: t.mhz, weight: 1 / (1 + half*half/(scatter*scatter))})
	return nil
}

// weigh sets the group's clock, and lowers the weights of slow plans.
func (g *group) weigh() {
	var clocks []float64
	for _, t := range g.times {
		if t.mhz > 0 {
			clocks = append(clocks, t.mhz)
		}
	}
	if len(clocks) > 0 {
		g.arch.LoadMHz = stats.Median(clocks)
	}
	best := g.best()
	for i := range g.times {
		t := &g.times[i]
		beyond := t.log - best - math.Log(farAway)
		t.near = beyond <= 0
		t.weight *= math.Exp(-decay * max(0, beyond))
	}
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
func shape(c sized) sized {
	c.DType = ""
	return c
}

// holdOut draws a fifth of the shapes, which are excluded from the fit.
func (s *samples) holdOut(seed uint64) {
	var shapes []sized
	groups := map[sized][]*group{}
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

func (s *samples) expected(groups []*group, card *calibration.Card) ([]expectation, error) {
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
				ps, err := plans(groups[i].arch, groups[i].c, groups[i].family)
				if err != nil {
					return err
				}
				all[i] = groups[i].expect(ps)
			}
			return nil
		})
	}
	return all, parts.Wait()
}

// expect returns the group's expectation among all plans of its family.
func (g *group) expect(plans []planned) expectation {
	first := 0
	for i, plan := range plans {
		if plan.seconds < plans[first].seconds {
			first = i
		}
	}
	e := expectation{logs: make([]float64, len(g.times)), least: math.Log(plans[first].seconds), pick: g.slowest(), unmeasured: true}
	for i, t := range g.times {
		e.logs[i] = math.Log(plans[t.index].seconds)
		if t.index == first {
			e.pick, e.unmeasured = i, false
		}
	}
	return e
}
