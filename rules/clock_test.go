package rules

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// A card at nine tenths of its peak's clock with full efficiency per cycle has an MFU of 0.9, and 1 at its
// clock.
func TestMFUAtClock(t *testing.T) {
	const peak, clock = 1e15, 1830.0
	flops := func(m int) float64 { return kernels.Shape{M: m, N: synthetic.Key.N, K: synthetic.Key.K}.FLOPs() }
	w := synthetic.ByM(func(m int) float64 { return flops(m) / (0.9 * peak) * 1e6 }, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(3, 3)))
	w.Clock = func(results.Case) float64 { return 0.9 * clock }
	data := w.Sweep(synthetic.Grid(64, 1024, 64), 7)
	data.Series[0].Peak = kernels.Peak{DType: synthetic.Key.DType, FLOPS: peak, Origin: kernels.DataSheet, ClockMHz: clock}
	audit, err := RunAudit(t.Context(), data, Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range audit.Series[0].Rows {
		if math.Abs(r.MFU.Mid-0.9) > 0.005 || math.Abs(r.MFUAtClock.Mid-1) > 0.005 {
			t.Errorf("m%d: MFU %.4f, at its clock %.4f", r.M, r.MFU.Mid, r.MFUAtClock.Mid)
		}
		if !(r.MFUAtClock.Lo < r.MFUAtClock.Mid && r.MFUAtClock.Mid < r.MFUAtClock.Hi) {
			t.Errorf("m%d: bounds %v", r.M, r.MFUAtClock)
		}
	}
	data.Series[0].Peak.ClockMHz = 0
	if audit, _ = RunAudit(t.Context(), data, Default(), nil); audit.Series[0].Rows[0].MFUAtClock != (stats.Interval{}) {
		t.Error("a peak of no known clock was scaled")
	}
}
