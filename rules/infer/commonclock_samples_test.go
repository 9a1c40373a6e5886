package infer

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
)

// clockedRun makes a run with a sample of each case in each round; the first case is also a sentinel. A time
// of 0 omits the sample.
func clockedRun(t *testing.T, meta results.Meta, cases []results.Case, rounds int,
	sample func(c results.Case, round int) (us, mhz float64)) *results.Run {
	t.Helper()
	run, err := results.Create(filepath.Join(t.TempDir(), "run.db"), meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	cases, err = run.AddCases(cases)
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for round := range rounds {
		for i, c := range cases {
			us, mhz := sample(c, round)
			if us == 0 {
				continue
			}
			phases := []results.Phase{results.PhaseSweep}
			if i == 0 {
				phases = append(phases, results.PhaseSentinel)
			}
			for _, phase := range phases {
				if err := run.Append(results.Sample{CaseID: c.ID, Phase: phase, Round: round, Seq: seq, Launches: 1, US: us,
					ClockMHz: mhz}); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
	}
	return run
}

func TestCommonClockOfSamples(t *testing.T) {
	const reference = 1500.0
	cases := []results.Case{{SeriesKey: syntheticKey, M: 64}, {SeriesKey: syntheticKey, M: 128}, {SeriesKey: syntheticKey, M: 192},
		{SeriesKey: syntheticKey, M: 192, Parts: []int{64, 128}}, {SeriesKey: syntheticKey, M: 192, PadTo: 256},
		{SeriesKey: syntheticKey, M: 256, Parts: []int{256}}}
	run := clockedRun(t, results.Meta{ReferenceClock: map[string]float64{syntheticKey.Device: reference}}, cases, 9,
		func(c results.Case, round int) (us, mhz float64) {
			mhz = reference * (1 + 0.01*float64((round*5+c.M/64)%9-4))
			return float64(c.M) * reference / mhz, mhz
		})
	clock, err := FitCommonClock(run, Basis{Confidence: 0.95, DriftBound: 1, Along: AlongAuto, MinSamples: 5})
	if err != nil {
		t.Fatal(err)
	}
	added, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil || len(samples) != 54 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for _, s := range samples {
		c := added[s.CaseID-1]
		if len(c.Parts) > 0 || c.PadTo > 0 {
			continue
		}
		us, mhz := clock.At(c, s)
		if want := float64(c.M); math.Abs(us/want-1) > 0.002 || mhz != reference {
			t.Errorf("m%d: a sample of %.2f us at %.0f MHz is %.2f us at %.0f MHz, expected %.0f us at %.0f", c.M, s.US, s.ClockMHz, us,
				mhz, want, reference)
		}
	}
	unclocked := samples[0]
	unclocked.ClockMHz = 0
	for what, got := range map[string]func() (float64, float64){
		"a sample without a clock": func() (float64, float64) { return clock.At(added[0], unclocked) },
		"a split":                  func() (float64, float64) { return clock.At(added[3], samples[0]) },
		"a split into one":         func() (float64, float64) { return clock.At(added[5], samples[0]) },
		"a padded product":         func() (float64, float64) { return clock.At(added[4], samples[0]) },
	} {
		if us, mhz := got(); us != 0 || mhz != 0 {
			t.Errorf("%s is %v us at %v MHz, expected nothing", what, us, mhz)
		}
	}
}

// The fit without samples in memory equals the rules' fit: two devices with different clocks, a curve with a
// sample without a clock, and a device with an invalid clock.
func TestCommonClockIsTheRules(t *testing.T) {
	other, dark, slow := syntheticKey, syntheticKey, syntheticKey
	other.Device, dark.Kernel, slow.Device = "cuda:7", "dark", "cuda:9"
	var cases []results.Case
	for _, key := range []results.SeriesKey{syntheticKey, other, dark, slow} {
		for m := 512; m >= 8; m -= 8 {
			cases = append(cases, results.Case{SeriesKey: key, M: m})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, meta := range []results.Meta{{}, {ReferenceClock: map[string]float64{other.Device: 1700}}} {
		run := clockedRun(t, meta, cases, 9, func(c results.Case, round int) (us, mhz float64) {
			mhz = 1500 * (1 + 0.04*rng.NormFloat64())
			us = float64(c.M) * math.Pow(1500/mhz, float64(c.M%5)/5) * math.Exp(0.01*rng.NormFloat64())
			switch {
			case c.Device == slow.Device:
				mhz = 12 // rounded to 0
			case c.Device == other.Device:
				mhz *= 0.8
			case c.Kernel == dark.Kernel && c.M == 64 && round == 3:
				mhz = 0
			case c.M == 88 && round > 0 || c.M == 96:
				us = 0
			}
			return us, mhz
		})
		got, err := FitCommonClock(run, Basis{Confidence: 0.95, DriftBound: 1, Along: AlongAuto, MinSamples: 5})
		if err != nil {
			t.Fatal(err)
		}
		data, err := LoadData(run)
		if err != nil {
			t.Fatal(err)
		}
		clocks := ReferenceClocks(data, Basis{Confidence: 0.95, DriftBound: 1, Along: AlongAuto, MinSamples: 5})
		if fmt.Sprint(got.clocks) != fmt.Sprint(clocks) || len(clocks) != 3 || clocks[slow.Device] != 0 {
			t.Errorf("clocks %v, the rules have %v", got.clocks, clocks)
		}
		want := map[int64]float64{}
		for _, c := range PrepareAt(data, clocks).Curves {
			for _, p := range c.Points {
				if c.Clocked {
					want[c.Series.Rows[p.Row].Case.ID] = p.Elastic.Beta
				}
			}
		}
		if fmt.Sprint(got.betas) != fmt.Sprint(want) || len(want) != 2*64-1 {
			t.Errorf("%d elasticities %v, the rules have %d %v", len(got.betas), got.betas, len(want), want)
		}
	}
}

// An export at the common clock must not hold the run in memory.
func TestExportHoldsNoRun(t *testing.T) {
	const rounds = 1500
	var cases []results.Case
	for m := 8; m <= 256; m += 8 {
		cases = append(cases, results.Case{SeriesKey: syntheticKey, M: m})
	}
	run := clockedRun(t, results.Meta{}, cases, rounds, func(c results.Case, round int) (us, mhz float64) {
		return float64(c.M), 1500 + float64(round%7)
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	clock, err := FitCommonClock(run, Basis{Confidence: 0.95, DriftBound: 1, Along: AlongAuto, MinSamples: 5})
	if err != nil {
		t.Fatal(err)
	}
	n, during := 0, uint64(0)
	some := export.Samples{AtClock: clock.At, Select: func(*export.Line) (bool, error) {
		if n++; n == rounds*len(cases)/2 {
			during = heap()
		}
		return true, nil
	}}
	if err := export.Write(run, io.Discard, export.FormatCSV, some); err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20 // the samples take 6.9 MB
	if n != rounds*(len(cases)+1) || during > before+most {
		t.Errorf("%d samples, and %d bytes more in memory than before, expected at most %d", n, int64(during)-int64(before), most)
	}
}
