package remedy

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// The listed remedy of a row, its stretch and the lookup table must agree.

// list records the result of each row: the stretch's remedy if a stretch covers the row, otherwise the best
// one that was tried.
func (r *Result) list(contests []*contest, all []settled) {
	type place struct {
		from *stretchPlan
		m    int
	}
	served := map[place]rules.Remedy{}
	for _, s := range all {
		for _, p := range s.Proofs {
			served[place{s.from, p.M}] = p
		}
	}
	for _, c := range contests {
		best, ok := served[place{c.stretch, c.m}]
		if !ok {
			of := c.entries[0]
			for _, e := range c.entries[1:] {
				if e.paying && !of.paying || e.paying == of.paying && e.beats(of) {
					of = e
				}
			}
			best = of.remedy
		}
		switch row := (Row{c.stretch.curve.Series.Key, best}); {
		case best.Pays:
			r.Splits = append(r.Splits, row)
		case best.Executed:
			r.Rejected = append(r.Rejected, row)
		default:
			r.Untried++ // its samples failed
		}
	}
}

// cut splits a stretch of pads in place where a row also pays with its rows copied. That row, and the rows
// between two such rows, are kept as copied. Rows between one of each kind are padded in place, which pays at
// both.
func (whole settled) cut(contests []*contest) []settled {
	twin := slices.IndexFunc(whole.from.plans, func(p plan) bool { return twins(p, whole.plan) && p.pad == table.Copied })
	if twin < 0 {
		return []settled{whole}
	}
	copied := whole.from.plans[twin]
	at := map[int]rules.Remedy{}
	for _, c := range contests {
		if e := c.entry(copied); e != nil && e.paying {
			at[c.m] = e.remedy
		}
	}
	isCopied := func(m int) bool {
		next, exact := slices.BinarySearchFunc(whole.Proofs, m, func(p rules.Remedy, m int) int { return cmp.Compare(p.M, m) })
		_, after := at[whole.Proofs[next].M]
		if exact {
			return after
		}
		_, before := at[whole.Proofs[next-1].M]
		return before && after
	}
	var out []settled
	for _, m := range whole.Ms {
		p := whole.plan
		if isCopied(m) {
			p = copied
		}
		if n := len(out); n == 0 || out[n-1].plan.pad != p.pad {
			out = append(out, settled{whole.from.stretch(p, m), whole.from, p})
		}
		part := &out[len(out)-1]
		part.ToM, part.Ms = m, append(part.Ms, m)
	}
	for i := range out {
		for _, proof := range whole.Proofs {
			if proof.M < out[i].FromM || proof.M > out[i].ToM {
				continue
			}
			if out[i].plan.pad == table.Copied {
				proof = at[proof.M]
			}
			out[i].Proofs = append(out[i].Proofs, proof)
		}
	}
	return out
}
