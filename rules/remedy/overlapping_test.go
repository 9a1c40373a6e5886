package remedy

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Auto with overlap is judged by its own rows alone, and is nobody's alternative or remedy, whichever is faster.
func TestOverlappingIsNoAlternative(t *testing.T) {
	for _, c := range []struct {
		name                   string
		overlapping, auto      float64 // times relative to the worker's kernel
		findings, replacements int     // of alternative
	}{
		{"overlap wins", 0.5, 1, 0, 0},
		{"overlap loses", 2, 1, 0, 0},
		{"the worker beats auto", 0.5, 2, 1, 1},
	} {
		data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("auto", kernels.BF16),
			synthetic.Keyed(kernels.Overlapping, kernels.BF16), synthetic.Keyed("mine", kernels.BF16)},
			func(r results.Case) float64 {
				return (10 + float64(r.M)) * map[string]float64{"auto": c.auto, kernels.Overlapping: c.overlapping, "mine": 1}[r.Kernel]
			}, synthetic.Grid(16, 512, 16), 4)
		f := only(t, rules.Alternative, data, w)
		if len(f) != c.findings {
			t.Errorf("%s: findings %+v", c.name, f)
		}
		for _, x := range f {
			if x.Series.Kernel != "auto" || x.Against == nil || x.Against.Kernel != "mine" {
				t.Errorf("%s: a finding on %s against %+v", c.name, x.Series.Kernel, x.Against)
			}
		}
		r, err := Find(context.Background(), data, rules.Default().Only(rules.Alternative), Options{Among: AmongAll}, w)
		if err != nil {
			t.Fatal(err)
		}
		replaced := map[string]bool{}
		for _, s := range r.Splits {
			if s.Kind != rules.RemedyOther {
				continue
			}
			if replaced[s.Series.Kernel] = true; s.Kernel != "mine" || s.Series.Kernel != "auto" {
				t.Errorf("%s: %s is a remedy of %s", c.name, s.Kernel, s.Series.Kernel)
			}
		}
		if len(replaced) != c.replacements {
			t.Errorf("%s: %d series have another kernel as a remedy, expected %d", c.name, len(replaced), c.replacements)
		}
	}
}
