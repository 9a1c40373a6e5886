package rules

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func articleConfig(threshold float64) Config {
	c := Default().Only(Monotonic)
	c.Method, c.Threshold = MethodArticle, threshold
	return c
}

// At most one finding in twenty of the published sweep has no cause, and each of these has exclusions.
func TestCausesWithoutLabels(t *testing.T) {
	data := synthetic.Rtx4090(t)
	for i := range data.Series[0].Rows {
		data.Series[0].Rows[i].Case.Label = ""
		data.Series[0].Rows[i].Case.Launch = results.Launch{}
	}
	a, err := RunAudit(context.Background(), data, articleConfig(0.85), nil)
	if err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for _, f := range a.Findings {
		if f.Cause != cause.Unknown {
			continue
		}
		unknown++
		if len(f.Excluded) == 0 {
			t.Errorf("%s: nothing is excluded", f.ID)
		}
	}
	t.Logf("%d findings, %d without a cause", len(a.Findings), unknown)
	if len(a.Findings) < 90 || 20*unknown > len(a.Findings) {
		t.Errorf("%d of %d findings have no cause", unknown, len(a.Findings))
	}
}

// On the published RTX 4090 sweep the library chooses a slow kernel; on the A800 the cliffs are waves of
// tiles on 108 SMs.
func TestPublishedCauses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		data  func(testing.TB) infer.Data
		cause cause.Kind
		share float64
		least int
	}{
		{"rtx4090", synthetic.Rtx4090, cause.HeuristicChoice, 0.95, 90},
		{"a800", synthetic.A800, cause.WaveQuantization, 0.9, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := RunAudit(context.Background(), tc.data(t), articleConfig(0.85), nil)
			if err != nil {
				t.Fatal(err)
			}
			rows, of := 0, 0
			causes := map[cause.Kind]int{}
			for _, f := range a.Findings {
				causes[f.Cause] += f.Rows
				rows += f.Rows
				if f.Cause == tc.cause {
					of += f.Rows
				}
			}
			t.Logf("%d findings, rows by cause %v; first: %s", len(a.Findings), causes, a.Findings[0].Explanation)
			for _, f := range a.Findings {
				if f.Cause != tc.cause {
					t.Logf("m%d-%d: %s: %s", f.FromM, f.ToM, f.Cause, f.Explanation)
				}
			}
			if len(a.Findings) < tc.least {
				t.Errorf("%d findings, want at least %d", len(a.Findings), tc.least)
			}
			if float64(of) < tc.share*float64(rows) {
				t.Errorf("%d of %d rows have the cause %s", of, rows, tc.cause)
			}
		})
	}
}
