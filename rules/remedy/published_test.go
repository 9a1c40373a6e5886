package remedy

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestPublishedCounts(t *testing.T) {
	for _, tc := range []struct {
		name      string
		data      func(testing.TB) infer.Data
		cases     int
		at90      int
		at85      int
		splitFlag int
		splitAll  int
	}{
		{"rtx4090", synthetic.Rtx4090, 8197, 3021, 2882, 2881, 2890},
		{"a800", synthetic.A800, 517, 322, 287, 192, 192},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := tc.data(t)
			for threshold, want := range map[float64]int{0.9: tc.at90, 0.85: tc.at85} {
				a, err := rules.RunAudit(context.Background(), data, articleConfig(threshold), nil)
				if err != nil {
					t.Fatal(err)
				}
				if a.Cases != tc.cases || len(a.Flagged) != want {
					t.Errorf("threshold %v: %d cases, %d flagged; want %d, %d", threshold, a.Cases, len(a.Flagged), tc.cases, want)
				}
				if !slices.IsSorted(a.Flagged) {
					t.Error("flagged is not ascending")
				}
				rows := 0
				for _, f := range a.Findings {
					rows += f.Rows
				}
				if rows != want {
					t.Errorf("threshold %v: findings hold %d rows, want %d", threshold, rows, want)
				}
			}
			for among, want := range map[string]int{AmongFlagged: tc.splitFlag, AmongAll: tc.splitAll} {
				r, err := Find(context.Background(), data, rules.Default(),
					Options{Method: rules.MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: among}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Splits) != want {
					t.Errorf("splits among %s: %d, want %d", among, len(r.Splits), want)
				}
			}
		})
	}
}

func TestPublishedRows(t *testing.T) {
	r, err := Find(context.Background(), synthetic.Rtx4090(t), rules.Default(),
		Options{Method: rules.MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: AmongFlagged}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byM := map[int]Row{}
	for _, s := range r.Splits {
		byM[s.M] = s
	}
	for m, parts := range map[int][]int{2180: {192, 1988}, 3076: {384, 2692}, 4228: {172, 4056}} {
		if !slices.Equal(byM[m].Parts, parts) {
			t.Errorf("m%d: parts %v, want %v", m, byM[m].Parts, parts)
		}
	}
	if s := byM[2180]; math.Abs(s.PredictedUS-1716.7) > 0.005 || s.DirectUS != 2106.16 {
		t.Errorf("m2180: predicted %v, direct %v; want 1716.7, 2106.16", s.PredictedUS, s.DirectUS)
	}
	text, err := json.Marshal(byM[2180])
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]any
	if err := json.Unmarshal(text, &flat); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"series", "m", "parts", "predicted_us", "direct_us"} {
		if flat[key] == nil {
			t.Errorf("no key %q at the top of %s", key, text)
		}
	}
}
