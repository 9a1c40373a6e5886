package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

var key = results.SeriesKey{Device: "cuda:0", Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 4096, 4096), Regime: results.Engine}

func runOf(day int, device, driver string, ms []int, us func(m int) float64) infer.Data {
	k := key
	k.Device = device
	s := results.Series{Key: k}
	for i, m := range ms {
		row := results.Row{Case: results.Case{ID: int64(i + 1), SeriesKey: k, M: m}}
		for round := range 5 {
			row.Samples = append(row.Samples, results.Sample{CaseID: int64(i + 1), Phase: results.PhaseSweep, Round: round,
				Seq: int64(round*len(ms) + i), Launches: 1, US: us(m)})
		}
		s.Rows = append(s.Rows, row)
	}
	spec := kernels.Spec{ID: device, Name: "Card X", Versions: map[string]string{"driver": driver}}
	return infer.Data{Series: []results.Series{s},
		Meta: results.Meta{Created: time.Date(2025, 1, day, 0, 0, 0, 0, time.UTC),
			Fingerprint: results.Fingerprint{Hostname: "host", Devices: []kernels.Spec{spec}}}}
}

// Over 24 runs, M 64 is slower by 4 % from the 15th on, when the driver changed. The card's id alternates.
// Runs arrive unordered.
func collected(t *testing.T) *Result {
	t.Helper()
	r := rand.New(rand.NewPCG(2, 3))
	c := NewCollector(rules.Default())
	for _, i := range r.Perm(24) {
		day, driver := i+1, "550"
		if day >= 15 {
			driver = "560"
		}
		ms := []int{32, 64, 128}
		if day%3 == 0 {
			ms = ms[:2]
		}
		if day == 4 {
			ms = append(ms, 256)
		}
		c.Add(fmt.Sprintf("%02d.db", day), runOf(day, []string{"cuda:0", "cuda:1"}[day%2], driver, ms, func(m int) float64 {
			us := float64(m) * math.Exp(0.004*r.NormFloat64())
			if m == 64 && day >= 15 {
				us *= 1.04
			}
			return us
		}))
	}
	return c.Result(Default())
}

func TestHistory(t *testing.T) {
	r := collected(t)
	if len(r.Runs) != 24 || r.Runs[0].Path != "01.db" || r.Runs[23].Path != "24.db" {
		t.Fatalf("runs are not in order of their dates: %+v", r.Runs)
	}
	if len(r.Cases) != 4 || r.Short != 1 || r.Changed() != 1 || r.Slower() != 1 {
		t.Fatalf("%d cases, %d short, %d changed, %d slower", len(r.Cases), r.Short, r.Changed(), r.Slower())
	}
	c := r.Cases[1]
	if c.M != 64 || len(c.Changes) != 1 {
		t.Fatalf("case %+v", c)
	}
	x := c.Changes[0]
	if r.Runs[x.Run].Path != "15.db" || r.Runs[x.Before].Path != "14.db" || x.Ratio.Lo > 1.04 || x.Ratio.Hi < 1.04 ||
		math.Abs(x.FromUS-64) > 0.5 {
		t.Errorf("change %+v", x)
	}
	if len(r.Events) != 1 || r.Events[0].Slower != 1 || r.Events[0].Faster != 0 {
		t.Fatalf("events %+v", r.Events)
	}
	told := false
	for _, d := range r.Events[0].Factors {
		told = told || d.A == "550" || d.B == "560"
	}
	if !told {
		t.Errorf("that the driver changed is not among %+v", r.Events[0].Factors)
	}
	if n := r.Cases[2].US; n[2] != nil || n[3] == nil {
		t.Error("a case has a time in a run that has not the case, or none in one that has")
	}
}

func unchanged(seed uint64, histories int) (wrong int) {
	r := rand.New(rand.NewPCG(4, seed))
	for range histories {
		c := &Result{Settings: Default(), Runs: make([]Run, 60)}
		for m := range 50 {
			k := Case{M: m}
			for _, v := range simulate(r, make([]float64, 60)) {
				us := math.Exp(v)
				k.US = append(k.US, &us)
			}
			c.Cases = append(c.Cases, k)
		}
		c.find()
		if c.Changed() > 0 {
			wrong++
		}
	}
	return wrong
}

func TestHistoriesOfManyCases(t *testing.T) {
	if wrong := unchanged(5, 20); wrong > 2 {
		t.Errorf("%d of 20 histories of 50 cases have a change", wrong)
	}
}

func TestCollectorKeepsNoSamples(t *testing.T) {
	c := NewCollector(rules.Default())
	sample := func() weak.Pointer[results.Sample] {
		data := runOf(1, "cuda:0", "550", []int{32, 64}, func(m int) float64 { return float64(m) })
		c.Add("a.db", data)
		return weak.Make(&data.Series[0].Rows[0].Samples[0])
	}()
	for range 3 {
		runtime.GC()
	}
	if sample.Value() != nil {
		t.Error("the samples are kept")
	}
	runtime.KeepAlive(c)
}

// Single samples with 2 % noise show no change of 1 %, and the result reports what they can show.
func TestShows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ noise, least, most float64 }{{0, 0, 0.01}, {0.02, 0.08, 0.25}} {
		collector := NewCollector(rules.Default())
		for day := range 30 {
			collector.Add(fmt.Sprint(day), runOf(day, "card", "1", []int{64, 128, 192, 256, 320},
				func(m int) float64 { return float64(m) * math.Exp(c.noise*r.NormFloat64()) }))
		}
		if got := collector.Result(Default()); got.Shows < c.least || got.Shows > c.most || got.Changed() > 0 {
			t.Errorf("noise of %g: a step of %g shows, expected %g to %g; %d cases changed", c.noise, got.Shows, c.least, c.most,
				got.Changed())
		}
	}
}
