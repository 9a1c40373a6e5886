package choose

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Times equal the audit's, including inferred rows, and their intervals have the stated coverage.
func TestTimes(t *testing.T) {
	sparse, audit := inferWorkshop(t, workshopRun(t, 11, nil), true)
	times, invalid := infer.Times(sparse, rules.Default().Basis())
	if invalid != "" || len(times) != 1 || times[0].Key != synthetic.Key {
		t.Fatalf("%d series, %q", len(times), invalid)
	}
	shown := map[int]rules.RowVerdict{}
	for _, r := range audit.Series[0].Rows {
		shown[r.M] = r
	}
	inferred, off, last := 0, 0, 0
	for _, r := range times[0].Rows {
		if r.M <= last {
			t.Fatalf("m%d follows m%d", r.M, last)
		}
		last = r.M
		if r.Inferred {
			inferred++
		}
		if s, ok := shown[r.M]; ok && math.Abs(s.US.Mid/r.US-1) > 1e-9 {
			t.Errorf("m%d takes %g us, the audit has %g", r.M, r.US, s.US.Mid)
		}
		if us, _ := workshop(r.M); math.Abs(math.Log(r.US/us)) > 3*r.SE+1e-4 {
			off++
		}
		if r.SE <= 0 || r.DF < 1 {
			t.Fatalf("m%d: %+v", r.M, r)
		}
	}
	if n := len(times[0].Rows); inferred < n/2 || off > n/50 {
		t.Errorf("of %d rows %d are inferred, and %d lie off by more than three standard errors", n, inferred, off)
	}
}

func TestTimesOfTwoLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := synthetic.ByM(func(m int) float64 {
		us := float64(m)
		if m == 640 && rng.IntN(2) == 0 {
			us *= 1.2
		}
		return us
	}, synthetic.Gaussian(0.001), rng)
	times, _ := infer.Times(w.Sweep(synthetic.Grid(64, 1280, 64), 15), rules.Default().Basis())
	for _, r := range times[0].Rows {
		if two := r.M == 640; two != (r.SE > 0.05) {
			t.Errorf("m%d has the standard error %g", r.M, r.SE)
		}
	}
	if len(times[0].Rows) != 20 {
		t.Errorf("%d rows", len(times[0].Rows))
	}
}
