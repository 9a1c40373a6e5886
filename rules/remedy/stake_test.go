package remedy

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestTimeAtStake(t *testing.T) {
	for _, tc := range []struct{ loss, us, weight, want float64 }{
		{0.25, 200, 1, 50}, {0.25, 200, 3, 150}, {-0.5, 200, 1, 0}, {0, 200, 1, 0}, {math.NaN(), 200, 1, 0}, {0.5, math.Inf(1), 1, 0},
		{math.Inf(-1), 200, 1, 0},
	} {
		if got := rules.TimeAtStake(tc.loss, tc.us, tc.weight); got != tc.want {
			t.Errorf("loss %v, %v us, weight %v: %v us at stake, expected %v", tc.loss, tc.us, tc.weight, got, tc.want)
		}
	}
}

// A small loss of much time ranks before a large loss of little; the stake is the sum over rows.
func TestStakeIsSummedAndRanks(t *testing.T) {
	us := func(m int) float64 {
		base := 10 + float64(m)
		switch {
		case m == 48:
			return 2 * base
		case m >= 1024 && m <= 1088:
			return 1.25 * base
		}
		return base
	}
	w := synthetic.ByM(us, synthetic.Gaussian(0.003), rand.New(rand.NewPCG(9, 1)))
	data := w.Sweep(synthetic.Grid(16, 2048, 16), 12)
	a, err := rules.RunAudit(context.Background(), data, rules.Default().Only(rules.Pad), w)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Findings) != 2 || a.Findings[0].WorstM < 1024 || a.Findings[1].WorstM != 48 ||
		a.Findings[0].Loss.Mid >= a.Findings[1].Loss.Mid {
		t.Fatalf("findings %+v", a.Findings)
	}
	want := []float64{0, us(48) - us(64)}
	for m := 1024; m <= 1088; m += 16 {
		want[0] += us(m) - us(1104)
	}
	for i, f := range a.Findings {
		if math.Abs(f.StakeUS/want[i]-1) > 0.05 {
			t.Errorf("m%d-%d: %.1f us at stake, expected about %.1f", f.FromM, f.ToM, f.StakeUS, want[i])
		}
	}

	r, err := Find(context.Background(), data, rules.Default().Only(rules.Pad), Options{Among: AmongAll}, w)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Splits) < 2 || len(r.Stretches) < 2 {
		t.Fatalf("remedies %+v, stretches %+v", r.Splits, r.Stretches)
	}
	for i, s := range r.Splits {
		if saved := s.DirectUS - s.DirectUS/s.Gain.Mid; math.Abs(s.StakeUS-saved) > 1e-6*saved ||
			i > 0 && s.StakeUS > r.Splits[i-1].StakeUS {
			t.Errorf("remedy %d of m%d saves %v us, expected %v and the most first", i, s.M, s.StakeUS, saved)
		}
	}
	for i, s := range r.Stretches {
		var proven float64
		for _, p := range s.Proofs {
			proven += p.StakeUS
		}
		if s.StakeUS < proven || i > 0 && s.StakeUS > r.Stretches[i-1].StakeUS {
			t.Errorf("stretch %d of m%d-%d saves %v us, expected at least the %v of its proofs and the most first", i, s.FromM, s.ToM,
				s.StakeUS, proven)
		}
		if len(s.Ms) > len(s.Proofs) && s.StakeUS <= proven {
			t.Errorf("stretch %d of m%d-%d counts its proofs alone", i, s.FromM, s.ToM)
		}
	}
}

func TestRankRemedies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Row {
			r := Row{Series: synthetic.Keyed(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kernel"), kernels.BF16)}
			r.M, r.StakeUS = rapid.IntRange(1, 9).Draw(t, "m"), float64(rapid.IntRange(0, 3).Draw(t, "stake"))
			r.Executed = rapid.Bool().Draw(t, "executed")
			r.Pays = r.Executed && rapid.Bool().Draw(t, "pays")
			return r
		})).Draw(t, "rows")
		Rank(rows)
		for i := 1; i < len(rows); i++ {
			a, b := rows[i-1], rows[i]
			switch {
			case b.Pays && !a.Pays, b.Executed && !a.Executed:
				t.Fatalf("%+v stands after %+v", b, a)
			case a.Pays == b.Pays && a.Executed == b.Executed && b.StakeUS > a.StakeUS:
				t.Fatalf("%+v saves more than %+v before it", b, a)
			}
		}
	})
}

func TestUncoveredOfNothing(t *testing.T) {
	w := newWeighing(infer.Data{Traffic: results.Traffic{{M: 1, Weight: 1}}})
	if got := w.uncoveredOf(nil); got != 0 {
		t.Errorf("no series leave out %v of the traffic, want 0", got)
	}
	if got := newWeighing(infer.Data{}).uncoveredOf([]results.SeriesKey{{}}); got != 0 {
		t.Errorf("without traffic %v of it is left out, want 0", got)
	}
}
