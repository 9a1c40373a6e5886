package sweep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type guard struct {
	sentinel
	last Drift
}

// settle chooses sentinels, for up to two data types, and runs the first until the device is in its steady
// state.
func (p *part) settle(ctx context.Context) error {
	byType := map[kernels.DType]bool{}
	tried := 0
	for _, c := range sentinelCandidates(p.sound(), p.r.est, p.past.visits) {
		if len(p.sentinels) == 2 || tried == 8 {
			break
		}
		if byType[c.DType] {
			continue
		}
		tried++
		g := &guard{sentinel: sentinel{station: station{c: c}}}
		if err := p.loadFor(ctx, c); err != nil {
			if deviceLost(err) || errors.Is(err, errHalted) {
				return err
			}
			continue
		}
		var err error
		if len(p.sentinels) == 0 {
			p.warm, err = warmUp(ctx, p.rig, &g.station, p.warmUpConfig(), p.r.Now)
		} else {
			err = p.rig.pilot(ctx, &g.station)
		}
		if deviceLost(err) || errors.Is(err, errHalted) {
			return err
		}
		if i, ok := p.index[c.ID]; ok && err != nil && (p.late(0) || errors.Is(err, kernels.ErrProcessLost)) {
			// It took its process with it, as it would again, or no time is left in which it would fail as a case.
			if err := p.fails(i, p.firstMissing(i), err); err != nil {
				return err
			}
			if p.late(0) {
				return nil
			}
		}
		if err != nil {
			continue // it will fail as a case, with its reason
		}
		byType[c.DType] = true
		for _, s := range p.past.sentinel[c.ID] {
			g.last = g.add(s)
		}
		for _, round := range p.past.visits[c.ID] {
			g.round = max(g.round, round+1)
		}
		p.sentinels = append(p.sentinels, g)
	}
	switch cfg := p.warmUpConfig(); {
	case len(p.sentinels) == 0:
		p.r.note("%s: no case could serve as a sentinel, so drift is not monitored", p.rig.spec.ID)
	case !p.warm.Settled && ctx.Err() == nil && p.warm.Spread <= cfg.SettleSpread:
		p.r.note("%s: the warm-up ended after %v, too early to tell whether the device has settled", p.rig.spec.ID, cfg.SettleCap)
	case !p.warm.Settled && ctx.Err() == nil:
		p.r.note("%s: the warm-up did not settle in %v: the last %d windows are spread over %.1f %%, expected %.1f %%",
			p.rig.spec.ID, cfg.SettleCap, cfg.SettleWindows, 100*p.warm.Spread, 100*cfg.SettleSpread)
	}
	return nil
}

func (p *part) sound() []results.Case {
	var out []results.Case
	for i, c := range p.cases {
		if !p.gone[i] {
			out = append(out, c)
		}
	}
	return out
}

// warmUpShare is the warm-up's maximum share of the deadline: a machine that does not settle must still be
// measured.
const warmUpShare = 0.1

// warmUpConfig limits the plan's warm-up, to leave the deadline to the samples.
func (p *part) warmUpConfig() SentinelConfig {
	cfg := p.r.Plan.Sentinel
	if d := p.r.Plan.Deadline; d > 0 {
		cfg.SettleCap = min(cfg.SettleCap, time.Duration(warmUpShare*float64(d)))
	}
	return cfg
}

func (p *part) watch(ctx context.Context, always bool) error {
	cfg := p.r.Plan.Sentinel
	p.since++
	if !always && !p.visited.IsZero() && p.since < cfg.Blocks && p.r.Now().Sub(p.visited) < cfg.Every {
		return nil
	}
	for _, g := range p.sentinels {
		if p.group != nil && p.rig.sets[matrixOf(g.c)] == nil {
			continue // its weights are not loaded; the visit waits for them
		}
		n := g.perBlock
		err := p.rig.begin(ctx, &g.station, n, false, func(started time.Time, span kernels.Span, err error) error {
			if err != nil {
				return p.guardFails(g, err)
			}
			return p.visit(g, p.rig.sample(g.c, results.PhaseSentinel, g.round, n, started, span, p.telemetry(started)))
		})
		if err != nil {
			return err
		}
	}
	p.collect(false)
	p.visited, p.since = p.r.Now(), 0
	return nil
}

func (p *part) visit(g *guard, s results.Sample) error {
	if p.failure != nil {
		return p.failure
	}
	if p.failure = p.r.journal.append(&s); p.failure != nil {
		return p.failure
	}
	g.round++
	g.last = g.add(s)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.Observer.Sample(g.c, s)
	p.r.Observer.Drift(g.last)
	return nil
}

func (p *part) guardFails(g *guard, why error) error {
	if deviceLost(why) || errors.Is(why, errHalted) {
		return why
	}
	p.r.note("%s: sentinel %v: %v", p.rig.spec.ID, g.c, why)
	if errors.Is(why, kernels.ErrProcessLost) { // it would be lost again at each visit
		p.sentinels = slices.DeleteFunc(slices.Clone(p.sentinels), func(o *guard) bool { return o == g })
	}
	return nil
}
