package rules

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestTimeAtStake(t *testing.T) {
	for _, tc := range []struct{ loss, us, weight, want float64 }{
		{0.25, 200, 1, 50}, {0.25, 200, 3, 150}, {-0.5, 200, 1, 0}, {0, 200, 1, 0}, {math.NaN(), 200, 1, 0}, {0.5, math.Inf(1), 1, 0},
		{math.Inf(-1), 200, 1, 0},
	} {
		if got := timeAtStake(tc.loss, tc.us, tc.weight); got != tc.want {
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
	a, err := RunAudit(context.Background(), data, Default().Only(Pad), w)
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

	r, err := FindSplits(context.Background(), data, Default().Only(Pad), SplitOptions{Among: AmongAll}, w)
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
		rows := rapid.SliceOf(rapid.Custom(func(t *rapid.T) SplitRow {
			r := SplitRow{Series: synthetic.Keyed(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kernel"), kernels.BF16)}
			r.M, r.StakeUS = rapid.IntRange(1, 9).Draw(t, "m"), float64(rapid.IntRange(0, 3).Draw(t, "stake"))
			r.Executed = rapid.Bool().Draw(t, "executed")
			r.Pays = r.Executed && rapid.Bool().Draw(t, "pays")
			return r
		})).Draw(t, "rows")
		RankRemedies(rows)
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

func TestMarginalRowsSplitNoInterval(t *testing.T) {
	c := &infer.Curve{Series: results.Series{Key: synthetic.Key}}
	for i := range 5 {
		m := 8 * (i + 1)
		c.Points = append(c.Points, infer.Point{Row: i, M: m})
		c.Series.Rows = append(c.Series.Rows, results.Row{Case: results.Case{SeriesKey: synthetic.Key, M: m}})
	}
	for _, tc := range []struct {
		between []Verdict
		want    []int
	}{
		{[]Verdict{Anomalous, Marginal, Anomalous, Anomalous, Anomalous}, []int{4}},
		{[]Verdict{Anomalous, Marginal, Undecided, Anomalous, Marginal}, []int{2}},
		{[]Verdict{Anomalous, Clean, Anomalous, Anomalous, Clean}, []int{1, 2}},
		{[]Verdict{Anomalous, Marginal, Marginal, Marginal, Anomalous}, []int{1, 1}},
		{[]Verdict{Marginal, Marginal, Clean, Marginal, Marginal}, nil},
	} {
		var rows []Judgement
		for i, v := range tc.between {
			rows = append(rows, Judgement{Curve: c, Point: i, Verdict: v, sign: 1})
		}
		var got []int
		for _, k := range Merge(Pad, rows, func(j *Judgement) bool { return j.Verdict == Anomalous }, Bridges) {
			got = append(got, len(k.Rows))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v: intervals of %v rows, expected %v", tc.between, got, tc.want)
		}
	}
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

// A loss that only one part of the samples shows is chance. The upper bound stays.
func TestWorstLossWithoutLuck(t *testing.T) {
	type row struct {
		enough float64
		of     [stats.Folds]float64 // over enough
	}
	lucky, steady, usual := row{5, [stats.Folds]float64{0.16}}, row{5, [stats.Folds]float64{0.04, 0.04, 0.04, 0.04}},
		row{7, [stats.Folds]float64{0.01, 0.01, 0.01, 0.01}}
	loss := stats.Interval{Lo: 0.15, Mid: 0.2, Hi: 0.25}
	for _, c := range []struct {
		name     string
		rows     []row
		unfolded bool
		sign     float64
		want     stats.Interval
	}{
		{"one part of four", []row{lucky, usual}, false, 1,
			stats.Interval{Lo: 1 - 0.85*math.Exp(0.04), Mid: 1 - 0.8*math.Exp(0.04), Hi: 0.25}},
		{"all parts", []row{steady, usual}, false, 1, loss},
		{"a single row", []row{lucky}, false, 1, loss},
		{"too few samples for parts", []row{lucky, usual}, true, 1, loss},
		{"too fast", []row{lucky, usual}, false, -1, loss},
	} {
		k := &Candidate{}
		points := &infer.Curve{}
		for i, r := range c.rows {
			p, mean := infer.Point{M: 8 * (i + 1), Folded: !c.unfolded}, 0.0
			for _, v := range r.of {
				mean += v / stats.Folds
			}
			for fold, v := range r.of {
				p.Of[fold], p.Without[fold] = r.enough+v, r.enough+(stats.Folds*mean-v)/(stats.Folds-1)
			}
			p.US.Y = r.enough + mean
			points.Points = append(points.Points, p)
			k.Rows = append(k.Rows, &Judgement{Curve: points, Point: i, sign: c.sign, Enough: r.enough, Loss: loss})
		}
		k.Worst = k.Rows[0]
		if got := k.worstLoss(); math.Abs(got.Lo-c.want.Lo) > 1e-9 || math.Abs(got.Mid-c.want.Mid) > 1e-9 || got.Hi != c.want.Hi {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
}
