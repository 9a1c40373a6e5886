package sweep

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// Kernels that compute exactly, in sums that depend on M, wrongly, and not at all.
func numericDevice() *simulated.Device {
	cost := simulated.Linear(1e10, 5e-6)
	coarse := func(bits float64) func(kernels.Task, float64) float64 {
		return func(_ kernels.Task, sum float64) float64 { return math.Round(sum*bits) / bits }
	}
	return simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "exact", Cost: cost, Arithmetic: true},
		{Name: "same", Cost: cost, Arithmetic: true},
		{Name: "coarse", Cost: cost, Arithmetic: true, Sum: coarse(1 << 20)},
		{Name: "changing", Cost: cost, Arithmetic: true, Sum: func(p kernels.Task, sum float64) float64 {
			if p.M > 16 {
				return coarse(1<<20)(p, sum)
			}
			return sum
		}},
		{Name: "wrong", Cost: cost, Arithmetic: true, Sum: func(_ kernels.Task, sum float64) float64 { return sum * 1.01 }},
		{Name: "infinite", Cost: cost, Arithmetic: true, Sum: func(_ kernels.Task, sum float64) float64 { return math.Inf(1) }},
		{Name: "idle", Cost: cost},
		{Name: "refusing", Cost: cost, Arithmetic: true, MaxM: 20},
	}})
}

func numericCase(kernel string, layout kernels.Layout, m int) results.Case {
	s := kernels.Product(kernels.FP32, 40, 64)
	s.Layout = layout
	return results.Case{M: m, SeriesKey: results.SeriesKey{Device: "sim", Kernel: kernel, Subject: s, Regime: results.Engine}}
}

func padded(c results.Case, to int, copied bool) results.Case {
	c.PadTo, c.Copied = to, copied
	return c
}

func divided(c results.Case, parts ...int) results.Case {
	c.Parts = parts
	return c
}

func TestNumerics(t *testing.T) {
	for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
		m := newMeasurer(t, numericDevice(), nil, nil)
		at := func(kernel string, ms ...int) (out []results.Case) {
			for _, m := range ms {
				out = append(out, numericCase(kernel, layout, m))
			}
			return out
		}
		direct := at("exact", 24, 1, 12, 25)
		got, ok, err := m.Numerics(context.Background(), results.ResultRequest{Direct: direct, Remedies: [][]results.Case{
			at("same", 24, 1, 12, 25),
			at("coarse", 24, 1, 12, 25),
			at("changing", 24, 1, 12, 25),
			at("wrong", 24, 1),
			at("idle", 24),
			at("refusing", 24),
			at("infinite", 24),
			{padded(direct[0], 32, false), padded(direct[2], 32, false)},
			{padded(direct[0], 32, true), padded(direct[2], 32, true)},
			{divided(direct[0], 16, 8), divided(direct[3], 16, 9)},
		}})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		for i, want := range []struct {
			same, invariant, wrong bool
			failed                 string
		}{
			{same: true, invariant: true}, {invariant: true}, {}, {wrong: true, invariant: true},
			{failed: "was not written"}, {failed: "does not support fp32"}, {failed: "not finite"},
			{same: true, invariant: true}, {same: true, invariant: true}, {same: true, invariant: true},
		} {
			n := got[i]
			if want.failed != "" {
				if !strings.Contains(n.Failed, want.failed) {
					t.Errorf("%v, remedy %d: %+v", layout, i, n)
				}
				continue
			}
			if n.Failed != "" || n.SameBits != want.same || n.BatchInvariant != want.invariant || !n.DirectBatchInvariant ||
				(n.Wrong > 0) != want.wrong {
				t.Errorf("%v, remedy %d: %+v", layout, i, n)
			}
			if n.Rows < numericRows-2 || n.Columns != numericColumns {
				t.Errorf("%v, remedy %d: %d rows and %d columns were looked at", layout, i, n.Rows, n.Columns)
			}
			if !(n.DirectError > 0 && n.DirectError < 1e-7) || want.same != (n.RemedyError == n.DirectError) ||
				want.wrong != (n.RemedyError > 0.009) {
				t.Errorf("%v, remedy %d: errors of %g and %g", layout, i, n.DirectError, n.RemedyError)
			}
		}
		if ms := got[0].OtherMs; !slices.Equal(ms, []int{1, 12, 25}) {
			t.Errorf("compared at %v", ms)
		}
		// A direct product may depend on M, but must compute something.
		changing, ok, err := m.Numerics(context.Background(),
			results.ResultRequest{Direct: at("changing", 24, 8), Remedies: [][]results.Case{at("exact", 24, 8)}})
		if err != nil || !ok || changing[0].DirectBatchInvariant || !changing[0].BatchInvariant || changing[0].SameBits {
			t.Errorf("%+v, %v, %v", changing, ok, err)
		}
		if _, ok, err := m.Numerics(context.Background(),
			results.ResultRequest{Direct: at("idle", 24), Remedies: [][]results.Case{at("exact", 24)}}); ok || err != nil {
			t.Errorf("of a product that writes nothing: %v, %v", ok, err)
		}
	}
	idle := newMeasurer(t, declared(nil), nil, nil)
	if _, ok, err := idle.Numerics(context.Background(), results.ResultRequest{Direct: []results.Case{simCase(8)}}); ok || err != nil {
		t.Errorf("of a device that computes nothing: %v, %v", ok, err)
	}
}

func TestNumericsOfRoundedWeights(t *testing.T) {
	const bound = 0x1p-10
	look := resultLook{columns: []int{0}, exact: []exactElement{{sums: []exactSum{{1, bound, 0, 0}, {1.5, bound, 0, 0}}}}}
	c := numericCase("exact", kernels.Transposed, 1)
	for got, wrong := range map[float64]int{1: 0, 1 + bound: 0, 1.5 - bound: 0, 1.25: 1, 2: 1, math.NaN(): 1} {
		row := make([]byte, 4)
		if err := kernels.Encode(kernels.FP32, []float64{got}, row); err != nil {
			t.Fatal(err)
		}
		relative, n, err := look.errors(c, [][]byte{row})
		if n != wrong || (err != nil) != math.IsNaN(got) || wrong == 0 && relative > bound {
			t.Errorf("%g: %d wrong, error of %g, %v", got, n, relative, err)
		}
	}
}

func TestNumericsBeforeTiming(t *testing.T) {
	d := numericDevice()
	p := planned(t, declared(nil), "1:3", nil)
	m := newMeasurer(t, d, newRun(t, p), nil)
	direct, other := numericCase("exact", kernels.Transposed, 24), numericCase("exact", kernels.Transposed, 23)
	if _, ok, err := m.Numerics(context.Background(), results.ResultRequest{Direct: []results.Case{direct, other},
		Remedies: [][]results.Case{{padded(direct, 32, true)}}}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	requests := []results.Request{
		{Case: direct, Phase: results.PhaseRemedy}, {Case: other, Phase: results.PhaseRemedy},
		{Case: padded(direct, 32, true), Phase: results.PhaseRemedy},
	}
	got, err := m.Measure(context.Background(), requests, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, samples := range got {
		if len(samples) != 3 || samples[0].CaseID == 0 {
			t.Errorf("request %d has the samples %+v", i, samples)
		}
	}
}

// Both sides of each boundary between parts are included.
func TestLookedRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 5000).Draw(t, "m")
		direct := numericCase("exact", kernels.Transposed, m)
		var remedies [][]results.Case
		if m > 1 && rapid.Bool().Draw(t, "split") {
			part := rapid.IntRange(1, m-1).Draw(t, "part")
			remedies = append(remedies, []results.Case{divided(direct, part, m-part)})
		}
		rows := lookedRows(direct, remedies)
		if len(rows) > numericRows || len(rows) < min(m, numericRows)/2 || rows[0] != 0 || rows[len(rows)-1] != m-1 ||
			!slices.IsSorted(rows) || len(slices.Compact(slices.Clone(rows))) != len(rows) {
			t.Fatalf("of %d rows: %v", m, rows)
		}
		for _, r := range remedies {
			if at := r[0].Parts[0]; !slices.Contains(rows, at) || !slices.Contains(rows, at-1) {
				t.Errorf("the parts of m%d meet at %d, rows %v", m, at, rows)
			}
		}
	})
}

// The product reads the copy, and the time includes both launches.
func TestCopiedPad(t *testing.T) {
	var blocks []simulated.Block
	d := declared(func(c *simulated.Config) { c.Observe = func(b simulated.Block) { blocks = append(blocks, b) } })
	m := newMeasurer(t, d, newRun(t, planned(t, d, "1:3", nil)), nil)
	c := padded(simCase(24), 40, true)
	got, err := m.Measure(context.Background(),
		[]results.Request{{Case: c, Phase: results.PhaseRemedy}, {Case: padded(simCase(24), 40, false), Phase: results.PhaseRemedy}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(24 * 128 * 4)
	product := 5 + simCase(40).FLOPs()/1e10*1e6
	for i, want := range []float64{product + 2*float64(bytes)/100e9*1e6, product} {
		for _, s := range got[i] {
			if math.Abs(s.US-want) > 1e-6*want {
				t.Errorf("request %d took %g us, expected %g", i, s.US, want)
			}
		}
	}
	seen := false
	for _, b := range blocks {
		for i, l := range b.Launches {
			if l.Copied == 0 {
				continue
			}
			seen = true
			if next := b.Launches[i+1]; l.Copied != bytes || next.Task.M != 40 || next.AOffset != 0 || next.COffset != 0 {
				t.Fatalf("%d bytes are copied before %+v", l.Copied, next)
			}
		}
	}
	if !seen {
		t.Error("nothing was copied")
	}
}
