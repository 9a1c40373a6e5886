package remedy

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// PadsAlong is the remedy that computes a larger size of a subject's curve in place of a smaller one; empty if
// there is none.
func PadsAlong(s kernels.Subject) rules.RemedyKind {
	if s.OverM() {
		return rules.RemedyPad
	}
	if kind := rules.RemedyKind("pad-" + s.Along.Dimension); s.Paddable() && kind.PadsWeights() {
		return kind
	}
	return ""
}

// adviceOf lists the proven remedies that pad weights, for a table.
func adviceOf(r *Result) []table.Advice {
	var out []table.Advice
	for _, s := range r.Stretches {
		if !s.Kind.PadsWeights() || !s.Series.Operation.IsProduct() || s.Series.Products > 0 || s.Series.PackInside {
			continue
		}
		for _, p := range s.Proofs {
			of := s.Series
			subject, m := of.At(p.M)
			of.Subject = subject
			out = append(out,
				table.Advice{Product: served(of), Kind: string(s.Kind), PadTo: p.PadTo, Pad: p.Pad, ExtraBytes: p.ExtraBytes,
					Proof: table.Proof{M: m, DirectUS: p.DirectUS, RemedyUS: p.ExecutedUS.Mid, GainLo: p.Gain.Lo, GainMid: p.Gain.Mid,
						GainHi: p.Gain.Hi}})
		}
	}
	slices.SortStableFunc(out, func(a, b table.Advice) int { return cmp.Or(a.Compare(b.Product), cmp.Compare(a.Proof.M, b.Proof.M)) })
	return out
}
