package diff

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Feeds arbitrary run contents to every function, and prints the results.
func TestNothingPanics(t *testing.T) {
	times := []float64{0, -1, 1e-300, 1e-7, 1e-5, 1, 2, 3, 150, 272, 1e9, 1e14, 1e300, math.Inf(1), math.NaN()}
	clocks := []float64{0, 1, 2000, math.NaN()}
	draw := func(t *rapid.T, name string) infer.Data {
		d := infer.Data{Name: name}
		for range rapid.IntRange(0, 3).Draw(t, "series") {
			k := synthetic.Keyed(rapid.SampledFrom([]string{"a", "b", "naive"}).Draw(t, "kernel"),
				rapid.SampledFrom(kernels.DTypes()).Draw(t, "dtype"))
			s := results.Series{Key: k}
			s.Peak.FLOPS = rapid.SampledFrom([]float64{0, 1, 1e14}).Draw(t, "peak")
			s.Bandwidth.Rate = rapid.SampledFrom([]float64{0, 1, 1e12}).Draw(t, "bandwidth")
			for i, m := range synthetic.Grid(1, rapid.IntRange(0, 30).Draw(t, "rows"), 1) {
				r := results.Row{Case: results.Case{ID: int64(i), SeriesKey: k, M: m * 4}}
				r.Case.Label, r.Case.Launch = kernels.ReadLabel(rapid.SampledFrom([]string{"", "x_64x64", "y_128x64", "nvjet_128x64",
					"x_64x64 splitk 2"}).Draw(t, "label"))
				for round := range rapid.IntRange(0, 7).Draw(t, "samples") {
					r.Samples = append(r.Samples, results.Sample{CaseID: int64(i), Round: round, Seq: int64(round*30 + i),
						US: rapid.SampledFrom(times).Draw(t, "us"), ClockMHz: rapid.SampledFrom(clocks).Draw(t, "clock")})
				}
				s.Rows = append(s.Rows, r)
			}
			d.Series = append(d.Series, s)
		}
		for i := range rapid.IntRange(0, 30).Draw(t, "sentinels") {
			d.Sentinels = append(d.Sentinels, results.Sample{Seq: int64(i / 2), US: rapid.SampledFrom(times).Draw(t, "us")})
		}
		return d
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(1, 1)))
		cfg := rules.Default()
		cfg.MinSamples = 2
		var out []any
		for _, m := range []rules.Measurer{nil, w} {
			audit, err := rules.RunAudit(context.Background(), a, cfg, m)
			if err != nil {
				t.Fatal(err)
			}
			splits, err := remedy.Find(context.Background(), a, cfg, remedy.Options{Among: remedy.AmongAll}, m)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, audit, splits)
		}
		plain := cfg
		plain.Method = rules.MethodArticle
		audit, err := rules.RunAudit(context.Background(), a, plain, nil)
		if err != nil {
			t.Fatal(err)
		}
		diff, err := Compare(a, b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range append(out, audit, diff) {
			if _, err := json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
	})
}
