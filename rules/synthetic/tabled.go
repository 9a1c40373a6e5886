package synthetic

import (
	"context"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// ProductSeries is a series of a product at some Ms, each with samples of us ± 0.5 %.
func ProductSeries(rng *rand.Rand, n, k int, ms []int, us func(m int) float64) results.Series {
	s := results.Series{Key: results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.BF16, n, k),
		Regime: results.Engine},
		Peak: kernels.Peak{FLOPS: 1e15, Origin: kernels.Measured}}
	for _, m := range ms {
		r := results.Row{Case: results.Case{ID: rng.Int64(), SeriesKey: s.Key, M: m}}
		for round := range 9 {
			r.Samples = append(r.Samples,
				results.Sample{CaseID: r.Case.ID, Round: round, Launches: 1, US: us(m) * (1 + 0.005*rng.NormFloat64())})
		}
		s.Rows = append(s.Rows, r)
	}
	return s
}

// OverNs are products of N from 4000 on in steps of 8 at some Ms, whose times follow N.
func OverNs(ms []int, count int) infer.Data {
	rng := rand.New(rand.NewPCG(1, 2))
	d := infer.Data{Name: "n", Meta: results.Meta{Source: "a table"}}
	for i := range count {
		n := 4000 + 8*i
		d.Series = append(d.Series, ProductSeries(rng, n, 4096, ms, func(m int) float64 { return float64(n) * (10 + float64(m)) / 1000 }))
	}
	return d
}

// Tabled measures by answering with the sweep's own samples; a copy of the activations takes tabledCopyUS more.
type Tabled struct{ Data infer.Data }

const tabledCopyUS = 20

// Measure satisfies rules.Measurer.
func (m *Tabled) Measure(_ context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	out := make([][]results.Sample, len(requests))
	for i, r := range requests {
		copied := r.Case.Copied
		if copied {
			r.Case.Copied, r.Case.PadTo = false, 0
		}
		for _, s := range m.Data.Series {
			for _, row := range s.Rows {
				if row.Case.Key() != r.Case.Key() {
					continue
				}
				for round := range rounds {
					x := row.Samples[round%len(row.Samples)]
					x.Round = round
					if copied {
						x.US += tabledCopyUS
					}
					out[i] = append(out[i], x)
				}
			}
		}
	}
	return out, nil
}
