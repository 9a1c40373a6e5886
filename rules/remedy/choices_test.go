package remedy

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestChoiceIsARemedy(t *testing.T) {
	data, w := synthetic.ChosenBadly("lt", "lt:1", "lt:2")
	for _, method := range []string{rules.MethodInterval, rules.MethodArticle} {
		r, err := Find(context.Background(), data, rules.Default(), Options{Among: AmongAll, Method: method}, w)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Searched) != 1 || r.Searched[0].Kernel != "lt" {
			t.Errorf("%s: searched %v", method, r.Searched)
		}
		if method == rules.MethodArticle {
			continue
		}
		served := 0
		for _, s := range r.Stretches {
			if s.Series.Kernel != "lt" {
				t.Errorf("a candidate got a remedy: %+v", s)
			}
			if s.Kind == rules.RemedyAlgorithm && s.Kernel == "lt:2" {
				served += len(s.Ms)
			}
		}
		if served != 5 {
			t.Errorf("lt:2 serves %d rows, want 5: %+v", served, r.Stretches)
		}
	}
}
