package cards

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestBesides(t *testing.T) {
	e := func(y float64) stats.Estimate { return stats.Estimate{Y: y, SE: 0.1, DF: 10, Open: 0} }
	for _, c := range []struct {
		all  []stats.Estimate
		k    int
		want float64
		se   float64
	}{
		{[]stats.Estimate{e(1), e(3)}, 0, -2, math.Sqrt2},
		{[]stats.Estimate{e(1), e(3)}, 1, 2, math.Sqrt2},
		{[]stats.Estimate{e(1), e(3), e(9)}, 1, 0, 0},
		{[]stats.Estimate{e(1), e(3), e(9)}, 2, 6, math.Sqrt2},
		{[]stats.Estimate{e(1), e(3), e(5), e(9)}, 3, 5, math.Sqrt(1.5)},
		{[]stats.Estimate{e(1), e(3), e(5), e(9)}, 1, -1, math.Sqrt2 / 2},
		{[]stats.Estimate{e(1), e(3), e(5), e(9)}, 2, 1, math.Sqrt2 / 2},
		{[]stats.Estimate{e(1), e(3), e(5), e(9)}, 0, -3, math.Sqrt(1.5)},
	} {
		got := besides(c.all, c.k)
		if math.Abs(got.Y-c.want) > 1e-12 || math.Abs(got.SE-0.1*c.se) > 1e-12 {
			t.Errorf("%v beside %d: %+v, expected %v ± %v", c.all, c.k, got, c.want, 0.1*c.se)
		}
	}
}

func TestConditionOfOneSample(t *testing.T) {
	s := results.Sample{ClockMHz: 1500, PowerW: 600, TempC: 60, Throttle: "power cap"}
	c := &infer.Curve{Series: results.Series{Key: results.SeriesKey{Device: "cuda:1"}, Rows: []results.Row{{Samples: []results.Sample{s}}}}}
	v := Verdict{Device: "cuda:1"}
	(&bench{curvesOf: map[string][]*infer.Curve{"cuda:1": {c}}}).condition(&v)
	if v.ClockMHz != 1500 || v.PowerW != 600 || v.TempC != 60 || v.Throttle != "power cap" || v.Throttled != 1 {
		t.Errorf("%+v", v)
	}
}
