package sweep

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// loadFor brings the weights of a case's set into memory, and A and C with them.
func (p *part) loadFor(ctx context.Context, c results.Case) error {
	g := 0
	if p.group != nil {
		g = p.group[slices.IndexFunc(p.cases, func(o results.Case) bool { return o.ID == c.ID })]
	}
	return p.load(ctx, g)
}

func (p *part) load(ctx context.Context, g int) error {
	if p.loadedG == g {
		return nil
	}
	var ds []demand
	var cases []results.Case
	member := map[matrixKey]bool{}
	for i, c := range p.cases {
		if p.group == nil || p.group[i] == g {
			cases = append(cases, c)
			member[matrixOf(c)] = true
		}
	}
	for _, d := range p.demands {
		if member[d.key] {
			ds = append(ds, d)
		}
	}
	failed, err := p.bench.load(ctx, ds)
	if err != nil {
		return err
	}
	for i, c := range p.cases {
		if why := failed[matrixOf(c)]; why != nil && !p.gone[i] {
			if err := p.giveUp(i, p.firstMissing(i), why); err != nil {
				return err
			}
		}
	}
	if err := p.bench.reserve(ctx, cases); err != nil {
		if lost(err) || errors.Is(err, errHalted) {
			return err
		}
		p.r.note("%s: %v", p.bench.spec.ID, err)
	}
	p.loadedG = g
	return nil
}

// rotation lists how weights rotated, and notes what did not rotate enough.
func (p *part) rotation() []Rotation {
	var out []Rotation
	for _, r := range p.bench.rotations {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rotation) int {
		return cmp.Or(cmp.Compare(a.Weights, b.Weights), cmp.Compare(a.Kernel, b.Kernel))
	})
	for _, r := range out {
		if !r.Enough {
			p.r.note("%s: weights %s of %s rotate over %d bytes, less than %d times the last-level cache of %d",
				p.bench.spec.ID, r.Weights, r.Kernel, r.Bytes, rotationFactor, p.bench.spec.LastLevelCacheBytes)
		}
	}
	return out
}
