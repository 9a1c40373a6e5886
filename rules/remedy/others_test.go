package remedy

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestAlternative(t *testing.T) {
	data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("auto", kernels.BF16), synthetic.Keyed("tiled", kernels.BF16),
		synthetic.Keyed("naive", kernels.BF16)},
		func(c results.Case) float64 {
			us := 10 + float64(c.M)
			switch {
			case c.Kernel == "auto" && c.M >= 128 && c.M <= 192:
				us *= 1.4 // chose wrongly
			case c.Kernel == "naive":
				us *= 20 // not judged
			}
			return us
		}, synthetic.Grid(16, 512, 16), 4)
	f := only(t, rules.Alternative, data, w)
	if len(f) != 1 || f[0].Series.Kernel != "auto" || f[0].FromM != 128 || f[0].ToM != 192 || f[0].Cause != cause.HeuristicChoice {
		t.Errorf("findings %+v", f)
	}
	if len(f) > 0 && math.Abs(f[0].Loss.Mid-(1-1/1.4)) > 0.03 {
		t.Errorf("loss %+v, want about %.3f", f[0].Loss, 1-1/1.4)
	}
	r, err := Find(context.Background(), data, rules.Default().Only(rules.Alternative), Options{Among: AmongAll}, w)
	if err != nil {
		t.Fatal(err)
	}
	other := 0
	for _, s := range r.Stretches {
		if s.Series.Kernel == "auto" && s.Kind == rules.RemedyOther && s.Kernel == "tiled" {
			other += len(s.Ms)
		}
	}
	if other != 5 {
		t.Errorf("the other kernel serves %d rows, want 5: %+v", other, r.Stretches)
	}
}

// A library with wrong results is no alternative and no remedy. The audit and the remedies warn of it once.
func TestWrongResultsAreNoAlternative(t *testing.T) {
	for _, known := range []bool{false, true} {
		data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("auto", kernels.BF16), synthetic.Keyed("wrong", kernels.BF16)},
			func(c results.Case) float64 {
				us := 10 + float64(c.M)
				if c.Kernel == "auto" {
					us *= 2
				}
				return us
			}, synthetic.Grid(16, 512, 16), 4)
		if known {
			data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: synthetic.Key.Device, Faults: []kernels.KnownFault{
				{Kernel: "wrong", DType: kernels.BF16, Ordinary: true, Text: "sums saturate"},
			}}}
		}
		a, err := rules.RunAudit(t.Context(), data, rules.Default().Only(rules.Alternative), w)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Find(t.Context(), data, rules.Default().Only(rules.Alternative), Options{Among: AmongAll}, w)
		if err != nil {
			t.Fatal(err)
		}
		other := slices.ContainsFunc(r.Splits, func(s Row) bool { return s.Kind == rules.RemedyOther })
		if found := len(a.Findings) > 0; found == known || other == known {
			t.Errorf("known to be wrong: %v; findings: %v, another kernel as a remedy: %v", known, found, other)
		}
		for _, warnings := range [][]rules.Warning{a.Warnings, r.Warnings} {
			n := 0
			for _, warning := range warnings {
				if strings.Contains(warning.Text, "its results are wrong") && strings.HasSuffix(warning.Subject, "/wrong/bf16") {
					n++
				}
			}
			if known && n != 1 || !known && n != 0 {
				t.Errorf("known to be wrong: %v, warnings %+v", known, warnings)
			}
		}
	}
}
