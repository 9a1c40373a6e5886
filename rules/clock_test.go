package rules

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A card at nine tenths of its peak's clock with full efficiency per cycle has an MFU of 0.9, and 1 at its
// clock.
func TestMFUAtClock(t *testing.T) {
	const peak, clock = 1e15, 1830.0
	flops := func(m int) float64 { return kernels.Shape{M: m, N: syntheticKey.N, K: syntheticKey.K}.FLOPs() }
	w := byM(func(m int) float64 { return flops(m) / (0.9 * peak) * 1e6 }, gaussian(0.001), rand.New(rand.NewPCG(3, 3)))
	w.clock = func(results.Case) float64 { return 0.9 * clock }
	data := w.sweep(grid(64, 1024, 64), 7)
	data.Series[0].Peak = kernels.Peak{DType: syntheticKey.DType, FLOPS: peak, Origin: kernels.DataSheet, ClockMHz: clock}
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

// Runs on one model are compared at the clock between theirs. If that is too far from either, each keeps its
// own and the diff warns.
func TestClocksOfTwoRuns(t *testing.T) {
	const mhz = 1500.0
	at := func(model string, mhz float64) infer.Data {
		m := simMeta(func(m *results.Meta) {
			m.Fingerprint.Devices[0].Name, m.ReferenceClock = model, map[string]float64{"sim": mhz}
		})
		return infer.Data{Meta: m, Series: []results.Series{{Key: syntheticKey}}}
	}
	for _, c := range []struct {
		name   string
		model  string
		of, in float64
		one    float64
		warns  bool
	}{
		{"one clock", "x", mhz, mhz, mhz, false},
		{"a little faster", "x", mhz, mhz * 1.02, mhz * math.Sqrt(1.02), false},
		{"just near enough", "x", mhz, mhz * (1 + infer.ClockGap - 0.001), mhz * math.Sqrt(1+infer.ClockGap-0.001), false},
		{"slower and near enough", "x", mhz * (1 + infer.ClockGap - 0.001), mhz, mhz * math.Sqrt(1+infer.ClockGap-0.001), false},
		{"just too far", "x", mhz, mhz * (1 + infer.ClockGap + 0.001), 0, true},
		{"slower and too far", "x", mhz * (1 + infer.ClockGap + 0.001), mhz, 0, true},
		{"another model", "y", mhz, mhz * 1.02, 0, false},
	} {
		d := &DiffResult{}
		of, in := d.clocks(at("x", c.of), at(c.model, c.in), Default())
		wantOf, wantIn := c.of, c.in
		if c.one > 0 {
			wantOf, wantIn = c.one, c.one
		}
		if math.Abs(of["sim"]-wantOf) > 25 || math.Abs(in["sim"]-wantIn) > 25 {
			t.Errorf("%s: judged at %v and %v MHz, expected %.0f and %.0f", c.name, of["sim"], in["sim"], wantOf, wantIn)
		}
		if c.one > 0 && of["sim"] != in["sim"] || hasWarning(d.Warnings, "too different") != c.warns {
			t.Errorf("%s: clocks %v and %v, warnings %v", c.name, of, in, d.Warnings)
		}
	}
}
