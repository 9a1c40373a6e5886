package main

import (
	"context"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/sweep/passes"
)

// mostBatches is the number of prompt sizes tested with a table by default.
const mostBatches = 16

func (o *validateOptions) checkBatches(limit int) error {
	for _, m := range o.batches {
		if m < 1 || m > limit {
			return usagef("--batches: %d, expected 1 to the model's context of %d", m, limit)
		}
	}
	return nil
}

// tableBatches returns the prompt sizes for testing a table with a kernel: those given, else those with a
// proof, restricted to sizes where the table changes a product.
func (o *validateOptions) tableBatches(l *loaded, kernel string, most int) []int {
	saving := map[int]float64{} // microseconds saved according to the proofs
	for _, m := range o.batches {
		saving[m] = 0
	}
	if len(o.batches) == 0 {
		for _, s := range l.table.Series {
			if s.Kernel != kernel || s.DType != string(l.DType()) {
				continue
			}
			for _, i := range s.Intervals {
				for _, p := range i.Proofs {
					saving[p.M] += p.DirectUS - p.RemedyUS
				}
			}
		}
	}
	maps.DeleteFunc(saving, func(m int, _ float64) bool {
		applied, _ := l.Applied(l.table, m)
		return applied == 0 || m > most
	})
	if len(o.batches) > 0 {
		return slices.Sorted(maps.Keys(saving))
	}
	return passes.TriedSizes(saving, mostBatches)
}

func (o *validateOptions) prefills(ctx context.Context, l *loaded, kernel string, v *report.ModelValidation) error {
	if err := l.Use(kernel); err != nil {
		return nil // skipped earlier, with the reason
	}
	batches := o.tableBatches(l, kernel, o.batch)
	if len(batches) == 0 {
		return nil
	}
	options := l.sessions
	options.Table = nil
	plain, err := l.NewSession(options)
	if err != nil {
		return err
	}
	defer plain.Close()
	with, err := l.NewSession(l.sessions)
	if err != nil {
		return err
	}
	defer with.Close()
	batches = slices.DeleteFunc(batches, func(m int) bool { return m > plain.Batch() })
	for several := range slices.Chunk(batches, mistral.KeptPasses) {
		gains, err := o.tryTable(ctx, l, kernel, [2]*mistral.Session{plain, with}, several)
		if err != nil {
			return err
		}
		v.Prefills = append(v.Prefills, gains...)
	}
	return nil
}

// tryTable times prompts of several sizes in two sessions, without and with the table.
func (o *validateOptions) tryTable(
	ctx context.Context, l *loaded, kernel string, sessions [2]*mistral.Session, batches []int,
) ([]report.TableGain, error) {
	o.app.notef("kernel %s: prompts of %s tokens with and without the table", kernel, results.JoinInts(batches, ", "))
	times, err := o.kept.WithTable(ctx, kernel, sessions, batches, o.rounds)
	if err != nil {
		return nil, err
	}
	gains := make([]report.TableGain, len(batches))
	for i, m := range batches {
		g := report.TableGain{Kernel: kernel, Rows: m, Gain: stats.Gain(times[i][0], times[i][1]),
			PlainUS: 1e6 * stats.CentreInterval(times[i][0]).Mid, TableUS: 1e6 * stats.CentreInterval(times[i][1]).Mid}
		g.Applied, g.Products = l.Applied(l.table, m)
		gains[i] = g
	}
	return gains, nil
}
