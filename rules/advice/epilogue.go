package advice

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// finishes are the series of one shape by epilogue, 0 for the product alone.
type finishes map[kernels.Epilogue]infer.SeriesTimes

// from returns the series of a product: with the epilogue of its layer, else the product alone, else the only other one. It has
// no rows if there is none.
func (p Product) from(known map[shape]finishes) (infer.SeriesTimes, error) {
	of := known[p.shape()]
	for _, e := range []kernels.Epilogue{p.Epilogue, 0} {
		if s, ok := of[e]; ok {
			return s, nil
		}
	}
	epilogues := slices.Sorted(maps.Keys(of))
	switch len(epilogues) {
	case 0:
		return infer.SeriesTimes{}, nil
	case 1:
		return of[epilogues[0]], nil
	}
	return infer.SeriesTimes{}, fmt.Errorf("the product n%d k%d has the epilogues %v and %v: expected one of them", p.N, p.K, epilogues[0],
		epilogues[1])
}

// compareEpilogues compares the epilogues of a pass's series with those of its layers. A pass of plain products is no mixture: its
// epilogues count as the rest of the pass.
func (m *Match) compareEpilogues(layers []Product, known map[shape]finishes) {
	fused, beyond := false, false
	var warnings []rules.Warning
	for _, p := range layers {
		s, _ := p.from(known)
		e := s.Key.Epilogue
		fused, beyond = fused || e != 0, beyond || p.Beyond != ""
		if e != p.Epilogue {
			text := fmt.Sprintf("%v was measured with the epilogue %s; the layer's is %s", p, word(e), word(p.Epilogue))
			if p.Beyond != "" {
				text += ": " + p.Beyond
			}
			warnings = append(warnings, rules.Warning{Subject: p.Name, Text: text})
		}
	}
	if fused {
		m.Fused, m.Warnings = len(warnings) == 0 && !beyond, warnings
	}
}

func word(e kernels.Epilogue) string {
	if e == 0 {
		return "none"
	}
	return e.String()
}
