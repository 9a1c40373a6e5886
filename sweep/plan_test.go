package sweep

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

func TestPlanSurvivesTheRunFile(t *testing.T) {
	p := planned(t, declared(nil), "1:16,4:512:4", func(o *Options) { o.Shard, o.Deadline = Shard{2, 3}, time.Hour })
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 2000 {
		t.Errorf("a plan of %d cases takes %d bytes", len(p.Cases()), len(data))
	}
	back, err := DecodePlan(data)
	if err != nil || !reflect.DeepEqual(p, back) {
		t.Errorf("read back %+v, %v; expected %+v", back, err, p)
	}
	for _, bad := range []string{"", "{}", "[]", `{"schema":"gemmaudit/plan/9"}`, `{"schema":"gemmaudit/plan/1"}`, "\x00"} {
		if _, err := DecodePlan([]byte(bad)); err == nil {
			t.Errorf("%q was read as a plan", bad)
		}
	}
}

func TestPlansOfAbsurdSizesAreRefused(t *testing.T) {
	p := planned(t, declared(nil), "1:3", nil)
	p.Series[0].K = 1 << 40
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "m1 n256 k1099511627776") {
		t.Errorf("error %v", err)
	}
}

// A run file from elsewhere may hold any plan; its warm-up must still end.
func TestPlansOfAbsurdSentinelsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*SentinelConfig){
		"time between visits of the sentinels": func(c *SentinelConfig) { c.Every = -1 },
		"settle window":                        func(c *SentinelConfig) { c.SettleWindow = 2 * time.Hour },
		"settle cap":                           func(c *SentinelConfig) { c.SettleCap = 1 << 62 },
		"bound of drift":                       func(c *SentinelConfig) { c.DriftBound = -0.1 },
		"settle spread":                        func(c *SentinelConfig) { c.SettleSpread = -1 },
	} {
		p := planned(t, declared(nil), "1:3", nil)
		change(&p.Sentinel)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

func TestPlansChooseWhatCanRun(t *testing.T) {
	d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "naive", Cost: simulated.Linear(1e9, 0)},
		{Name: "ours", Cost: simulated.Linear(1e10, 0)},
		{Name: "theirs", Cost: simulated.Linear(1e10, 0), DTypes: []kernels.DType{kernels.FP32}},
	}})
	names := func(o Options) ([]string, []string, error) {
		o.Targets, o.Batches = []Target{{N: 64, K: 64}, {N: 64, K: 64}, {N: 32, K: 64, M: 7}}, Batches{1, 2}
		p, err := NewPlan(t.Context(), []kernels.Device{d}, o, nil)
		if err != nil {
			return nil, nil, err
		}
		var out []string
		for _, s := range p.Series {
			if s.N == 64 {
				out = append(out, s.Kernel+"/"+string(s.DType))
			} else if !slices.Equal(s.Ms, Batches{7}) {
				t.Errorf("a shape with its own M got %v", s.Ms)
			}
		}
		return out, strings.Split(lines(p.Notes), "\n"), nil
	}
	for _, c := range []struct {
		name  string
		o     Options
		want  []string
		notes string
		err   string
	}{
		{"defaults", Options{}, []string{"ours/bf16", "ours/fp32", "theirs/fp32"},
			"kernel naive on sim is left out: it is the slow reference", ""},
		{"a kernel by name", Options{Kernels: []string{"naive"}}, []string{"naive/bf16", "naive/fp32"}, "", ""},
		{"a kernel without the default type", Options{Kernels: []string{"theirs"}}, []string{"theirs/fp32"}, "does not support bf16", ""},
		{"a type", Options{DTypes: []kernels.DType{kernels.BF16}}, []string{"ours/bf16"}, "theirs does not support bf16", ""},
		{"kernel and type at odds", Options{Kernels: []string{"theirs"}, DTypes: []kernels.DType{kernels.BF16}}, nil, "",
			"kernel theirs does not support bf16"},
		{"of several, one pair at odds", Options{Kernels: []string{"ours", "theirs"}, DTypes: []kernels.DType{kernels.BF16, kernels.FP32}},
			[]string{"ours/bf16", "ours/fp32", "theirs/fp32"}, "theirs on sim: kernel theirs does not support bf16", ""},
		{"a type that none of those chosen takes",
			Options{Kernels: []string{"theirs"}, DTypes: []kernels.DType{kernels.FP32, kernels.INT8}}, nil, "", "does not support int8"},
		{"a kernel that takes none of several", Options{Kernels: []string{"ours", "theirs"}, DTypes: []kernels.DType{kernels.BF16}}, nil,
			"", "kernel theirs does not support bf16"},
		{"no such kernel", Options{Kernels: []string{"ours", "magma"}}, nil, "",
			`unknown kernel "magma" on sim: expected one of naive, ours, theirs`},
		{"no such type", Options{DTypes: []kernels.DType{"fp6"}}, nil, "", `unknown dtype "fp6"`},
		{"no such preset", Options{Preset: "lunch"}, nil, "", `unknown preset "lunch": expected one of quick, standard, overnight`},
		{"negative rounds", Options{Rounds: -1}, nil, "", "-1 rounds"},
		{"no such regime", Options{Regime: "warm"}, nil, "", `unknown regime "warm"`},
		{"no such shard", Options{Shard: Shard{9, 8}}, nil, "", "shard 9/8"},
		{"past deadline", Options{Deadline: -time.Second}, nil, "", "deadline -1s"},
	} {
		got, notes, err := names(c.o)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, expected %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) || !strings.Contains(strings.Join(notes, "\n"), c.notes) {
			t.Errorf("%s: %v, notes %q, %v; expected %v and %q", c.name, got, notes, err, c.want, c.notes)
		}
	}
	var no *kernels.Unsupported
	if _, _, err := names(Options{Kernels: []string{"theirs"}, DTypes: []kernels.DType{kernels.BF16}}); !errors.As(err, &no) {
		t.Errorf("%v is not typed", err)
	}
}

// A kernel with known wrong results is measured only if named. Faults in special cases alone do not exclude
// it.
func TestPlansLeaveOutWrongResults(t *testing.T) {
	d := simulated.New(simulated.Config{
		Gemms: []simulated.KernelConfig{{Name: "ours", Cost: simulated.Linear(1e10, 0)}, {Name: "theirs", Cost: simulated.Linear(1e10, 0)}},
		Faults: []kernels.KnownFault{
			{Kernel: "theirs", DType: kernels.INT8, Ordinary: true, Text: "sums saturate"},
			{Kernel: "theirs", DType: kernels.BF16, Text: "infinities are NaN"},
		},
	})
	for _, c := range []struct {
		named []string
		want  []string
		note  string
	}{
		{nil, []string{"ours/bf16", "ours/int8", "theirs/bf16"},
			"kernel theirs/int8 on sim is left out: its results are wrong: sums saturate"},
		{[]string{"theirs"}, []string{"theirs/bf16", "theirs/int8"},
			"kernel theirs/int8 on sim: measured since it is named, but its results are wrong: sums saturate"},
	} {
		p, err := NewPlan(t.Context(), []kernels.Device{d}, Options{
			Targets: []Target{{N: 64, K: 64}}, Batches: Batches{1, 2}, DTypes: []kernels.DType{kernels.BF16, kernels.INT8},
			Kernels: c.named,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range p.Series {
			got = append(got, s.Kernel+"/"+string(s.DType))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) || lines(p.Notes) != c.note {
			t.Errorf("named %v: %v, notes %q; expected %v and %q", c.named, got, p.Notes, c.want, c.note)
		}
	}
}

// A kernel requested by name is rejected only if it supports no M.
func TestPlansKeepTheBatchesThatRun(t *testing.T) {
	d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "naive", Cost: simulated.Linear(1e9, 0)},
		{Name: "any", Cost: simulated.Linear(1e9, 0)},
		{Name: "few", MaxM: 4, Cost: simulated.Linear(1e9, 0)},
	}})
	o := Options{Targets: []Target{{N: 64, K: 64}}, Batches: Batches{1, 2, 4, 8},
		Kernels: []string{"any", "few"}, DTypes: []kernels.DType{kernels.FP32}}
	p, err := NewPlan(t.Context(), []kernels.Device{d}, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Series) != 2 || len(p.Series[0].Ms) != 4 || !slices.Equal(p.Series[1].Ms, Batches{1, 2, 4}) {
		t.Errorf("planned %+v", p.Series)
	}
	if want := "few on sim: takes M up to 4 of the grid: 1 of 4 batches of one series are skipped"; !strings.Contains(lines(p.Notes),
		want) {
		t.Errorf("notes are %q, expected %q", p.Notes, want)
	}
	o.Batches = Batches{8, 16}
	if _, err := NewPlan(t.Context(), []kernels.Device{d}, o, nil); err == nil || !strings.Contains(err.Error(), "M is 8, at most 4") {
		t.Errorf("a kernel that can run nothing of the grid: %v", err)
	}
	d = simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "naive", MaxM: 4, Cost: simulated.Linear(1e9, 0)}, {Name: "few", MaxM: 4, Cost: simulated.Linear(1e9, 0)},
		{Name: "fewer", MaxM: 2, Cost: simulated.Linear(1e9, 0)}}})
	o.Kernels = nil
	if _, err := NewPlan(t.Context(), []kernels.Device{d}, o, nil); err == nil ||
		!strings.Contains(err.Error(), "no case to measure: few on sim") || !strings.Contains(err.Error(), "; fewer on sim: ") {
		t.Errorf("a plan without a case: %v", err)
	}
}

// The quick preset keeps to its time limit, from a slow laptop to an accelerator.
func TestQuickFits(t *testing.T) {
	for _, m := range []struct {
		flops, bandwidth float64
		llc              int64
	}{{40e9, 10e9, 8 << 20}, {500e9, 30e9, 32 << 20}, {4e12, 60e9, 320 << 20}, {900e12, 4e12, 50 << 20}} {
		var peaks []kernels.Peak
		for _, d := range kernels.DTypes() {
			peaks = append(peaks, kernels.Peak{DType: d, FLOPS: m.flops, Origin: kernels.Measured})
		}
		d := simulated.New(simulated.Config{LastLevelCacheBytes: m.llc,
			Ceilings: kernels.Ceilings{Peaks: peaks, ReadBandwidth: m.bandwidth},
			Gemms: []simulated.KernelConfig{{Name: "a", Cost: simulated.Linear(1, 0)}, {Name: "b", Cost: simulated.Linear(1, 0)},
				{Name: "c", Cost: simulated.Linear(1, 0)}}})
		c, _ := d.Ceilings(t.Context())
		est := NewPredictor(map[string]kernels.Ceilings{"sim": c})
		p, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Preset: "quick"}, est)
		if err != nil {
			t.Fatal(err)
		}
		e := est.Plan(p, nil, map[string]int64{"sim": m.llc})
		if e.Expected > findPreset(t, "quick").Budget || e.Cases < 6*8 {
			t.Errorf("%g FLOP/s: %d cases in %v", m.flops, e.Cases, e.Expected)
		}
	}
}

func TestEstimateIsWhatTheSweepTakes(t *testing.T) {
	d := simulated.New(simulated.Config{LastLevelCacheBytes: 1 << 20,
		Gemms: []simulated.KernelConfig{{Name: "k", Cost: simulated.Linear(5e11, 2e-6)}}}) // half of the peak, as predicted
	p := planned(t, d, "8:512:8", func(o *Options) { o.Targets = []Target{{N: 1024, K: 1024}} })
	c, _ := d.Ceilings(t.Context())
	e := NewPredictor(map[string]kernels.Ceilings{"sim": c}).Plan(p, nil, CacheSizes([]kernels.Device{d}))
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Now: d.Now}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ratio := sum.Wall.Seconds() / e.Expected.Seconds(); ratio < 0.8 || ratio > 1.6 {
		t.Errorf("a sweep of an estimated %v took %v", e.Expected, sum.Wall)
	}
	if e.Cases != 64 || e.Samples != 192 || e.Round > e.Screening || e.Screening > e.Expected {
		t.Errorf("estimate %+v", e)
	}
}

// forgetful at first can't report what it supports, and then rejects one more batch.
type forgetful struct {
	kernels.Device
	asked int
}

type forgetfulGemm struct {
	kernels.Kernel
	of *forgetful
}

func (d *forgetful) Kernels(o kernels.Operation) []kernels.Kernel {
	return []kernels.Kernel{forgetfulGemm{d.Device.Kernels(o)[0], d}}
}

func (g forgetfulGemm) Supports(p kernels.Task) error {
	g.of.asked++
	switch {
	case g.of.asked <= 2:
		return errors.New("out of memory")
	case p.M == 3:
		return &kernels.Unsupported{Kernel: g.Name(), DType: p.DType, Reason: "three is odd"}
	}
	return nil
}

// A device error during a query is no rejection: the request stays in the plan.
func TestFailureIsNoRefusal(t *testing.T) {
	p := planned(t, &forgetful{Device: declared(nil)}, "1:4", nil)
	if got := p.Series[0].Ms; !slices.Equal(got, Batches{1, 2, 4}) {
		t.Errorf("batches %v, expected 1, 2 and 4", got)
	}
}
