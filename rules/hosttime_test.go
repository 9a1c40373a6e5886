package rules

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// A slow row that the host bounds is explained by the host, whatever else would explain it.
func TestHostBound(t *testing.T) {
	const slow = 1024
	for _, tc := range []struct {
		name  string
		share float64 // of the time of the slow row
		every int     // one of so many samples has a host time
		bound bool
	}{{"a graph", 0, 1, false}, {"half", 0.5, 1, false}, {"just below", 0.85, 1, false}, {"just above", 0.95, 1, true},
		{"longer", 1.2, 1, true}, {"few samples", 0.95, 4, false}} {
		t.Run(tc.name, func(t *testing.T) {
			data := synthetic.ByM(func(m int) float64 {
				if m == slow {
					return 2000
				}
				return 50 + float64(m)/2
			}, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(128, 2048, 128), 9)
			for i := range data.Series[0].Rows {
				row := &data.Series[0].Rows[i]
				for j := range row.Samples {
					if s := &row.Samples[j]; row.Case.M == slow && j%tc.every == 0 {
						s.HostUS = tc.share * s.US
					}
				}
			}
			a, err := RunAudit(context.Background(), data, Default(), nil)
			if err != nil || len(a.Findings) == 0 {
				t.Fatalf("%d findings, %v", len(a.Findings), err)
			}
			for _, f := range a.Findings {
				if (f.Cause == cause.HostBound) != tc.bound {
					t.Errorf("%s m%d: %s: %s", f.Rule, f.WorstM, f.Cause, f.Explanation)
				}
				if tc.bound && !strings.Contains(f.Explanation, "the host needs ") {
					t.Errorf("%s", f.Explanation)
				}
			}
			for _, r := range a.Series[0].Rows {
				if is := r.M == slow && tc.bound; (r.Cause == cause.HostBound) != is {
					t.Errorf("m%d: %s", r.M, r.Cause)
				}
				if known := r.M == slow && tc.share > 0 && tc.every == 1; (r.HostUS > 0) != known {
					t.Errorf("m%d: %g us of the host", r.M, r.HostUS)
				}
			}
		})
	}
}
