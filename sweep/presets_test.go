package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// machine is as fast as two cores of a server times scale.
func machine(t *testing.T, scale float64) (kernels.Device, *Predictor) {
	t.Helper()
	var peaks []kernels.Peak
	for dtype, flops := range map[kernels.DType]float64{
		kernels.FP32: 540e9, kernels.FP16: 540e9, kernels.BF16: 1070e9, kernels.INT8: 2100e9,
	} {
		peaks = append(peaks, kernels.Peak{DType: dtype, FLOPS: flops * scale, Origin: kernels.Measured})
	}
	cost := simulated.Linear(1e11, 0)
	ours := []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8}
	d := simulated.New(simulated.Config{LastLevelCacheBytes: 32 << 20,
		Ceilings: kernels.Ceilings{Peaks: peaks, ReadBandwidth: 50e9 * scale},
		Gemms: []simulated.KernelConfig{
			{Name: "tiled", DTypes: ours, Cost: cost},
			{Name: "openblas", DTypes: []kernels.DType{kernels.FP32}, Cost: cost},
			{Name: "onednn", DTypes: []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8}, Cost: cost},
		}})
	ceilings, err := d.Ceilings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d, NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings})
}

// Every preset fits its budget on two cores and covers more on a machine ten times as fast.
func TestPresetsFitTheirBudgets(t *testing.T) {
	for _, preset := range Presets() {
		t.Run(preset.Name, func(t *testing.T) {
			if preset.Budget <= 0 || preset.Deadline <= preset.Budget {
				t.Errorf("budget %v, deadline %v", preset.Budget, preset.Deadline)
			}
			cases := 0
			for _, scale := range []float64{1, 10} {
				d, est := machine(t, scale)
				p, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Preset: preset.Name}, est)
				if err != nil {
					t.Fatal(err)
				}
				e := est.Plan(p, nil, CacheSizes([]kernels.Device{d}))
				if e.Expected > preset.Budget || e.Round > preset.Deadline {
					t.Errorf("%g times the speed: %v for %d cases, budget %v", scale, e.Expected, e.Cases, preset.Budget)
				}
				if e.Cases < cases {
					t.Errorf("%g times the speed: %d cases, %d at the lower speed", scale, e.Cases, cases)
				}
				cases = e.Cases
				for _, s := range p.Series {
					if len(s.Ms) < 30 || !slices.IsSorted(s.Ms) {
						t.Errorf("%g times the speed: %v of %v", scale, s.Ms, s.SeriesKey)
					}
				}
			}
		})
	}
}

// A deadline thins the preset's grid, never an explicit one.
func TestBudgetsYield(t *testing.T) {
	d, est := machine(t, 1)
	devices := []kernels.Device{d}
	p, err := NewPlan(t.Context(), devices, Options{Preset: "overnight", Deadline: time.Hour}, est)
	if err != nil {
		t.Fatal(err)
	}
	if e := est.Plan(p, nil, CacheSizes(devices)); e.Expected > time.Hour {
		t.Errorf("%v for a deadline of an hour", e.Expected)
	}
	grid := Batches{1, 2, 4096, 8192, 16384, 32768}
	if p, err = NewPlan(t.Context(), devices, Options{Preset: "quick", Batches: grid}, est); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Series {
		if !slices.Equal(s.Ms, grid) {
			t.Errorf("%v became %v", grid, s.Ms)
		}
	}
}

func TestSpaced(t *testing.T) {
	ms, err := ParseBatches("1:16,20:400:4")
	if err != nil {
		t.Fatal(err)
	}
	got := spaced(ms, 1.0/8)
	if !slices.Equal(got[:16], ms[:16]) || got[len(got)-1] != 400 {
		t.Errorf("the ends of %v are not those of %v", got, ms)
	}
	for i := 17; i < len(got)-1; i++ {
		if ratio := float64(got[i]) / float64(got[i-1]); ratio < 1.125 {
			t.Errorf("%d follows %d", got[i], got[i-1])
		}
	}
	if short := ms[:17]; !slices.Equal(spaced(short, 1), short) {
		t.Error("a short grid was thinned")
	}
}

// A preset's deadline does not cut explicit requests; the plan notes if they take longer.
func TestAPresetsDeadlineIsForItsOwnPlan(t *testing.T) {
	d, est := machine(t, 1)
	devices := []kernels.Device{d}
	quick := findPreset(t, "quick")
	small, huge := []Target{{N: 64, K: 64}}, []Target{{N: 1 << 16, K: 1 << 16}}
	var many Batches
	for m := range 4096 {
		many = append(many, m+1)
	}
	for _, c := range []struct {
		name     string
		o        Options
		deadline time.Duration
		said     bool
	}{
		{"the preset's own", Options{}, quick.Deadline, false},
		{"a shape that fits", Options{Targets: small}, quick.Deadline, false},
		{"a shape that needs longer", Options{Targets: huge}, 0, true},
		{"few batches", Options{Targets: small, Batches: Batches{1, 2}}, 0, false},
		{"many batches", Options{Targets: small, Batches: many}, 0, true},
		{"few rounds", Options{Rounds: 2}, 0, false},
		{"many rounds", Options{Rounds: 50000}, 0, true},
		{"many batches and a deadline", Options{Targets: small, Batches: many, Deadline: time.Minute}, time.Minute, false},
	} {
		c.o.Preset = "quick"
		p, err := NewPlan(t.Context(), devices, c.o, est)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		said := slices.ContainsFunc(p.Notes, func(n Note) bool {
			return strings.Contains(n.Why, "its deadline of "+quick.Deadline.String()) && strings.Contains(n.Why, "--deadline")
		})
		if p.Deadline != c.deadline || said != c.said {
			t.Errorf("%s: deadline %v, expected %v; notes %q", c.name, p.Deadline, c.deadline, p.Notes)
		}
	}
}

func findPreset(t *testing.T, name string) Preset {
	t.Helper()
	p, err := FindPreset(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
