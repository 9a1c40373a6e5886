package rules

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

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

func TestCleanRowsEndFindings(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 {
		if m != 832 && 736 <= m && m <= 928 {
			return 1.4 * (float64(m) + 200)
		}
		return float64(m) + 200
	}, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(1, 16)))
	a, err := RunAudit(t.Context(), w.Sweep(synthetic.Grid(64, 2048, 32), 8), Default().Only(Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]int
	for _, f := range a.Findings {
		got = append(got, [2]int{f.FromM, f.ToM})
	}
	slices.SortFunc(got, func(a, b [2]int) int { return a[0] - b[0] })
	if !slices.Equal(got, [][2]int{{736, 800}, {864, 928}}) {
		t.Errorf("findings %v", got)
	}
}

// Sizes that a finding joins across fast aligned ones are slow, those between them are not.
func TestFindingAmongMeasuredSizes(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int
		rows     int
		ms, want []int
	}{
		{"aligned sizes are fast", 4093, 4099, 6, synthetic.Grid(4093, 4099, 1), []int{4093, 4094, 4095, 4097, 4098, 4099}},
		{"all are slow", 4093, 4099, 7, synthetic.Grid(4093, 4099, 1), synthetic.Grid(4093, 4099, 1)},
		{"an undecided one is spanned", 320, 384, 2, synthetic.Grid(320, 384, 32), synthetic.Grid(320, 384, 32)},
	} {
		f := Finding{FromM: c.from, ToM: c.to, Rows: c.rows}
		if got := f.Among(c.ms); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
