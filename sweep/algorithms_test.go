package sweep

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// choosing is a device with a library whose first choice is slow from m32 on. Its second next choice exists
// up to m40.
func choosing() *simulated.Device {
	flat := simulated.Linear(1e12, 20e-6)
	return simulated.New(simulated.Config{Noise: simulated.Disturbances{Sigma: 0.005}, Gemms: []simulated.KernelConfig{
		{Name: "ours", Cost: simulated.Linear(5e11, 30e-6)},
		{Name: "lt", Cost: simulated.Slow(flat, 32, 64, 1.5), Candidates: []simulated.KernelConfig{
			{Cost: simulated.Linear(9e11, 22e-6), Label: func(kernels.Task) string { return "algo 2" }},
			{Cost: flat, MaxM: 40},
		}},
	}})
}

// planning is a device whose kernel "ours" lists plans.
type planning struct{ *simulated.Device }

type listing struct{ kernels.Kernel }

type named struct {
	kernels.Kernel
	name string
}

func (n named) Name() string { return n.name }
func (l listing) Plan(n int) kernels.Kernel {
	return named{l.Kernel, kernels.CandidateName(l.Name(), n)}
}
func (d planning) Kernels(o kernels.Operation) []kernels.Kernel {
	all := slices.Clone(d.Device.Kernels(o))
	all[0] = listing{all[0]}
	return all
}

func TestPlansOfAlgorithms(t *testing.T) {
	for _, c := range []struct {
		name   string
		device kernels.Device
		o      Options
		want   []string
		note   string
		err    string
	}{
		{"none by default", choosing(), Options{}, []string{"ours 3", "lt 3"}, "", ""},
		{"two, and one more than there are", choosing(), Options{Algorithms: 3}, []string{"ours 3", "lt 3", "lt:1 3", "lt:2 2"},
			"lt:3 on sim", ""},
		{"by name", choosing(), Options{Kernels: []string{"lt:2"}}, []string{"lt:2 2"}, "takes M up to 40", ""},
		{"by name and number", choosing(), Options{Kernels: []string{"lt:1", "lt"}, Algorithms: 1}, []string{"lt:1 3", "lt 3"}, "", ""},
		{"without a choice", declared(nil), Options{Algorithms: 1}, []string{"ours 3", "theirs 3"},
			"other algorithms on sim: no kernel of the plan", ""},
		{"one that does not choose", choosing(), Options{Kernels: []string{"ours:1"}}, nil, "",
			`unknown kernel "ours:1" on sim: ours does not choose among`},
		{"plans are not algorithms", planning{choosing()}, Options{Algorithms: 1}, []string{"ours 3", "lt 3", "lt:1 3"}, "", ""},
		{"plans by name", planning{choosing()}, Options{Kernels: []string{"ours"}, Algorithms: 1}, []string{"ours 3", "ours:1 3"}, "", ""},
		{"a plan by name", planning{choosing()}, Options{Kernels: []string{"ours:2"}}, []string{"ours:2 3"}, "", ""},
		{"too many", choosing(), Options{Algorithms: 100}, nil, "", "100 algorithms, expected 0 to 99"},
	} {
		c.o.Targets, c.o.Batches, c.o.DTypes = []Target{{N: 256, K: 256}}, Batches{1, 40, 64}, []kernels.DType{kernels.FP32}
		p, err := NewPlan(t.Context(), []kernels.Device{c.device}, c.o, nil)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, s := range p.Series {
			got = append(got, s.Kernel+" "+string(rune('0'+len(s.Ms))))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: planned %q, want %q", c.name, got, c.want)
		}
		if notes := lines(p.Notes); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", c.name, notes, c.note)
		}
	}
	// An M without any choice is an error only if that choice was requested.
	var no *kernels.Unsupported
	_, err := NewPlan(t.Context(), []kernels.Device{choosing()}, Options{Targets: []Target{{N: 256, K: 256}}, Batches: Batches{64},
		Kernels: []string{"lt:2"}, DTypes: []kernels.DType{kernels.FP32}}, nil)
	if !errors.As(err, &no) {
		t.Errorf("a choice that serves nothing: %v", err)
	}
	if _, err := NewPlan(t.Context(), []kernels.Device{choosing()}, Options{Targets: []Target{{N: 256, K: 256}}, Batches: Batches{64},
		Kernels: []string{"lt"}, DTypes: []kernels.DType{kernels.FP32}, Algorithms: 2}, nil); err != nil {
		t.Errorf("a further choice that serves nothing: %v", err)
	}
}

func TestSweepOfAlgorithms(t *testing.T) {
	d := choosing()
	p := planned(t, d, "8:64:8", func(o *Options) {
		o.Kernels, o.Algorithms, o.Rounds, o.DTypes = []string{"lt"}, 2, 10, []kernels.DType{kernels.FP32}
		o.Targets = []Target{{N: 256, K: 256}}
	})
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := infer.LoadData(run)
	if err != nil {
		t.Fatal(err)
	}
	labelled := slices.ContainsFunc(data.Series,
		func(s results.Series) bool { return s.Key.Kernel == "lt:1" && s.Rows[0].Case.Label == "algo 2" })
	if len(data.Series) != 3 || !labelled {
		t.Errorf("series %+v", data.Series)
	}
	m, err := NewMeasurer(MeasureConfig{Devices: []kernels.Device{d}, Now: d.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	audit, err := rules.RunAudit(t.Context(), data, rules.Default().Only(rules.Alternative), m)
	if err != nil {
		t.Fatal(err)
	}
	if f := audit.Findings; len(f) != 1 || f[0].Series.Kernel != "lt" || f[0].FromM != 32 || f[0].ToM != 64 ||
		f[0].Cause != cause.HeuristicChoice || f[0].Status != rules.Confirmed {
		t.Errorf("findings %+v", f)
	}
	found, err := remedy.Find(t.Context(), data, rules.Default(), remedy.Options{Among: remedy.AmongAll}, m)
	if err != nil {
		t.Fatal(err)
	}
	byChoice := 0
	for _, s := range found.Stretches {
		if s.Kind == rules.RemedyAlgorithm && strings.HasPrefix(s.Kernel, "lt:") && s.Series.Kernel == "lt" {
			byChoice += len(s.Ms)
		}
	}
	if byChoice != 5 {
		t.Errorf("other choices serve %d rows, want 5: %+v", byChoice, found.Stretches)
	}
}
