package sweep

import (
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// knownTraffic sweeps until the deadline. It returns the traffic share of rows that are inferred or have the
// screening's samples.
func knownTraffic(t *testing.T, p *Plan, traffic results.Traffic) float64 {
	t.Helper()
	d := library(1, 0.002)
	run := newRun(t, p)
	if p.Infers() {
		told(t, d, p, run)
	}
	r := ruled(t, d, p, run)
	r.Now = d.Now
	sum, err := r.Run(t.Context())
	if err != nil || sum.Status != StatusDeadline {
		t.Fatalf("%+v, %v", sum, err)
	}
	data, err := infer.LoadData(run)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := rules.RunAudit(t.Context(), data, rules.Default().Only(rules.Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	var known, all float64
	for _, s := range p.Series {
		for _, m := range s.Ms {
			all += traffic.Weight(m)
		}
	}
	for _, s := range audit.Series {
		for _, row := range s.Rows {
			if row.Inferred || row.Samples >= p.Screening {
				known += traffic.Weight(row.M)
			}
		}
	}
	return known / all
}

func TestTrafficIsKnownFirst(t *testing.T) {
	// Nearly all of it lies between two bounds that are no tile edges.
	traffic := results.Traffic{{M: 1, Weight: 0.001}, {M: 1500, Weight: 1}, {M: 1600, Weight: 0.001}, {M: 4096, Weight: 0.001}}
	for _, c := range []struct {
		name     string
		batches  string
		infer    bool
		deadline time.Duration
	}{
		{"inferred", "1:4096", true, 500 * time.Millisecond},
		{"measured", "4:4096:4", false, 3 * time.Second},
	} {
		sweep := func(traffic results.Traffic) *Plan {
			return planned(t, library(1, 0.002), c.batches, func(o *Options) {
				o.Infer, o.DTypes, o.Rounds, o.Screening, o.Targets = &c.infer, []kernels.DType{kernels.BF16}, 15, 7,
					[]Target{{N: 1024, K: 1024}}
				o.Deadline, o.Traffic = c.deadline, traffic
			})
		}
		with, without := knownTraffic(t, sweep(traffic), traffic), knownTraffic(t, sweep(nil), traffic)
		if with < 0.9 || with-without < 0.3 {
			t.Errorf("%s: %.3f of the traffic is known, %.3f where the sweep does not know it", c.name, with, without)
		}
	}
}

// Ms without traffic are dropped first, then those with the least.
func TestThinKeepsTraffic(t *testing.T) {
	traffic := results.Traffic{{M: 100, Weight: 1}, {M: 200, Weight: 9}, {M: 250, Weight: 0}, {M: 900, Weight: 3}, {M: 1000, Weight: 3}}
	d := library(1, 0)
	ceilings, err := d.Ceilings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		budget time.Duration
		infer  bool
	}{{8 * time.Second, false}, {4 * time.Second, false}, {time.Second, false}, {time.Millisecond, false}, {400 * time.Millisecond, true}} {
		p := planned(t, d, "1:1000", func(o *Options) {
			o.Infer, o.DTypes, o.Rounds, o.Screening, o.Traffic = &c.infer, []kernels.DType{kernels.BF16}, 15, 7, traffic
		})
		est := NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings})
		p.thin(t.Context(), est, nil, c.budget, &Options{})
		ms := p.Series[0].Ms
		if err := p.Validate(); err != nil || len(ms) == 1000 {
			t.Fatalf("budget %v: %d Ms, %v", c.budget, len(ms), err)
		}
		fits := est.Plan(p, nil, nil).Expected <= c.budget
		if !fits && len(ms) > leastInferred {
			t.Errorf("budget %v: %d Ms take %v", c.budget, len(ms), est.Plan(p, nil, nil).Expected)
		}
		lightest := 9.0
		for _, m := range ms {
			lightest = min(lightest, traffic.Weight(m))
		}
		for m := 1; m <= 1000; m++ {
			if !ms.Has(m) && traffic.Weight(m) > lightest {
				t.Errorf("budget %v: m%d of weight %g went, and weight %g is kept", c.budget, m, traffic.Weight(m), lightest)
				break
			}
		}
	}
}

// At most a sixteenth of each series is dropped in excess.
func TestLightenStopsInTime(t *testing.T) {
	for _, c := range []struct{ had, room, want int }{{64, 64, 64}, {64, 60, 60}, {64, 59, 56}, {20, 19, 18}, {20, 0, 4}} {
		p := &Plan{Series: make([]PlannedSeries, 1)}
		for m := 1; m <= c.had; m++ {
			p.Series[0].Ms = append(p.Series[0].Ms, m)
			p.Traffic = append(p.Traffic, results.Load{M: m, Weight: float64(m)})
		}
		p.lighten(func() bool { return len(p.Series[0].Ms) <= c.room })
		ms := p.Series[0].Ms
		if len(ms) != c.want || ms[0] != c.had-c.want+1 {
			t.Errorf("room for %d of %d: %d stay, from %d, expected the last %d", c.room, c.had, len(ms), ms[0], c.want)
		}
	}
}

func TestTrafficOfAPlan(t *testing.T) {
	beyond := results.Traffic{{M: 1, Weight: 3}, {M: 64, Weight: 1}}
	p := planned(t, stepped(), "8:40", func(o *Options) { o.Traffic, o.Deadline = beyond, time.Minute })
	if !p.staged() ||
		!slices.Contains(p.Notes, Note{What: "traffic", Why: "2 of its 2 Ms lie beyond the plan's, with 100.0 % of the weight"}) {
		t.Errorf("staged %v, notes %q", p.staged(), p.Notes)
	}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := DecodePlan(text); err != nil || !slices.Equal(back.Traffic, beyond) {
		t.Errorf("read as %v, %v", back.Traffic, err)
	}
	p.Traffic = results.Traffic{{M: 2, Weight: -1}}
	if err := p.Validate(); err == nil {
		t.Error("a negative weight is accepted")
	}
	if p := planned(t, stepped(), "8:40", func(o *Options) { o.Traffic = results.Traffic{{M: 8, Weight: 1}} }); p.staged() {
		t.Errorf("a step of %v without a deadline", p.Step)
	}
}

// All of the smallest Ms, then each at a distance given as a share or a number of rows, and the end.
func TestAssumedSeeds(t *testing.T) {
	for _, c := range []struct {
		from, to, step int
		want           Batches // seeds after the first 16
	}{
		{1, 16, 1, Batches{}}, {1, 18, 1, Batches{18}}, {101, 124, 1, Batches{121, 124}},
		{2001, 2081, 1, Batches{2049, 2081}}, {1000, 1200, 10, Batches{1200}},
	} {
		var ms Batches
		for m := c.from; m <= c.to; m += c.step {
			ms = append(ms, m)
		}
		got := assumedSeeds(ms)
		if n := min(len(ms), wholeBatches); !slices.Equal(got[:n], ms[:n]) || !slices.Equal(got[n:], c.want) {
			t.Errorf("m%d to m%d: %v, expected %v behind the first", c.from, c.to, got, c.want)
		}
	}
}
