package sweep

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func (p *part) loadFor(ctx context.Context, c results.Case) error {
	g := 0
	if p.group != nil {
		g = p.group[p.index[c.ID]]
	}
	return p.load(ctx, g)
}

func (p *part) load(ctx context.Context, g int) error {
	if p.loadedG == g {
		return nil
	}
	var ds []demand
	var members []int
	member := map[matrixKey]bool{}
	for i, c := range p.cases {
		if p.group == nil || p.group[i] == g {
			members = append(members, i)
			member[matrixOf(c)] = true
		}
	}
	for _, d := range p.demands {
		if member[d.key] {
			ds = append(ds, d)
		}
	}
	failed, err := p.rig.load(ctx, ds)
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
	if err := p.reserve(ctx, members); err != nil {
		return err
	}
	p.loadedG = g
	return nil
}

// reserve allocates A and C. If memory is short, the largest cases of a data type fail and all others are
// measured.
func (p *part) reserve(ctx context.Context, members []int) error {
	byType := map[kernels.DType][]int{}
	for _, i := range members {
		if d := p.cases[i].DType; !p.gone[i] {
			byType[d] = append(byType[d], i)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(byType)) {
		of := byType[d]
		slices.SortStableFunc(of, func(i, j int) int {
			return cmp.Compare(p.rig.operandBytes(p.cases[i]), p.rig.operandBytes(p.cases[j]))
		})
		var why error
		first := func(n int) error {
			cases := make([]results.Case, n)
			for k, i := range of[:n] {
				cases[k] = p.cases[i]
			}
			return p.rig.reserve(ctx, cases)
		}
		// fits ≤ number of cases known to fit < fails.
		fits, fails := 0, len(of)+1
		for n := len(of); fits+1 < fails; n = (fits + fails) / 2 {
			switch err := first(n); {
			case err == nil:
				fits = n
			case deviceLost(err) || errors.Is(err, errHalted):
				return err
			default:
				fails, why = n, err
			}
		}
		if fits == len(of) {
			continue
		}
		if err := first(fits); err != nil {
			return err
		}
		for _, i := range of[fits:] {
			if err := p.giveUp(i, p.firstMissing(i), why); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *part) rotation() []Rotation {
	var out []Rotation
	for _, r := range p.rig.rotations {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rotation) int {
		return cmp.Or(cmp.Compare(a.Weights, b.Weights), cmp.Compare(a.Kernel, b.Kernel))
	})
	for _, r := range out {
		if !r.Enough {
			p.r.note("%s: weights %s of %s rotate over %d bytes, less than %d times the last-level cache of %d",
				p.rig.spec.ID, r.Weights, r.Kernel, r.Bytes, kernels.RotationFactor, p.rig.spec.LastLevelCacheBytes)
		}
	}
	return out
}
