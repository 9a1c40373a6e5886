package mistral

import (
	"math"
	"slices"
)

// feedForward adds the outputs of a layer's gated unit, or of its experts, to the residual stream x.
func (r *reference) feedForward(layer int, h, x [][]float64) {
	if r.cfg.Experts == 0 {
		for p, delta := range r.gatedUnit(layer, 0, h) {
			for j, d := range delta {
				x[p][j] += d
			}
		}
		return
	}
	logits := r.linear(r.cfg.Router(layer), r.cfg.Experts, h)
	r.router = append(r.router, logits)
	visits := make([][]visit, r.cfg.Experts)
	for p, row := range logits {
		for _, v := range mostLikely(row, r.cfg.TopK) {
			visits[v.expert] = append(visits[v.expert], visit{v.expert, p, v.weight})
		}
	}
	for expert, of := range visits {
		if len(of) == 0 {
			continue // its weights are not read
		}
		in := make([][]float64, len(of))
		for i, v := range of {
			in[i] = h[v.row]
		}
		for i, out := range r.gatedUnit(layer, expert, in) {
			for j, d := range out {
				x[of[i].row][j] += of[i].weight * d
			}
		}
	}
}

// visit is one row's use of an expert.
type visit struct {
	expert, row int
	weight      float64
}

// mostLikely returns the n experts with the largest logits, and the softmax over those.
func mostLikely(logits []float64, n int) []visit {
	all := make([]visit, len(logits))
	for e, l := range logits {
		all[e] = visit{expert: e, weight: l}
	}
	slices.SortStableFunc(all, func(a, b visit) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	chosen, sum := all[:n], 0.
	top := chosen[0].weight
	for i := range chosen {
		chosen[i].weight = math.Exp(chosen[i].weight - top)
		sum += chosen[i].weight
	}
	for i := range chosen {
		chosen[i].weight /= sum
	}
	return chosen
}

// gatedUnit returns the outputs of a gated unit, or of one expert, for each row of h.
func (r *reference) gatedUnit(layer, expert int, h [][]float64) [][]float64 {
	gateName, upName, downName := r.cfg.GatedUnit(layer, expert)
	gate, up := r.linear(gateName, r.cfg.Inner, h), r.linear(upName, r.cfg.Inner, h)
	if r.err != nil {
		return nil
	}
	for p := range gate {
		for j, g := range gate[p] {
			gate[p][j] = g / (1 + math.Exp(-g)) * up[p][j]
		}
	}
	return r.linear(downName, r.cfg.Hidden, gate)
}
