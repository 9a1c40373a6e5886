package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// mostBatches is at how many sizes a table is tried when none are given.
const mostBatches = 16

// checkBatches refuses prompt sizes that the model has no room for.
func (o *validateOptions) checkBatches(limit int) error {
	for _, m := range o.batches {
		if m < 1 || m > limit {
			return usagef("--batches: %d, expected 1 to the model's context of %d", m, limit)
		}
	}
	return nil
}

// tableBatches are the prompt sizes at which a table is tried with a kernel: those given,
// or those for which it has a proof; and of those the ones at which it changes a product.
func (o *validateOptions) tableBatches(l *loaded, kernel string, most int) []int {
	saving := map[int]float64{} // microseconds that the proofs of a size promise
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
	return triedSizes(saving, mostBatches)
}

// triedSizes picks at most `most` sizes, ascending: half of them those that save most, the
// rest spread over the others, so that not only the best is shown.
func triedSizes(saving map[int]float64, most int) []int {
	all := slices.Sorted(maps.Keys(saving))
	if len(all) <= most {
		return all
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(saving[b], saving[a]) })
	tried, others := all[:most/2:most/2], slices.Sorted(slices.Values(all[most/2:]))
	for i := range most - most/2 {
		tried = append(tried, others[i*len(others)/(most-most/2)])
	}
	slices.Sort(tried)
	return tried
}

// prefills times a kernel's prompts with the table and without.
func (o *validateOptions) prefills(ctx context.Context, l *loaded, kernel string, v *report.ModelValidation) error {
	if err := l.Use(kernel); err != nil {
		return nil // skipped before, with the reason
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

// tryTable times prompts of several sizes by two sessions, without the table and with it. All
// take turns: each round has an order of its own, in which the two of a size stand together,
// after one round that loads code and does not count.
func (o *validateOptions) tryTable(ctx context.Context, l *loaded, kernel string, sessions [2]*mistral.Session, batches []int) ([]report.TableGain, error) {
	o.app.notef("kernel %s: prompts of %s tokens with the table and without", kernel, results.JoinInts(batches, ", "))
	times := make([][2][]float64, len(batches))
	size := make([]int, 2*len(batches)) // the size of each turn
	for i := range size {
		size[i] = i / 2
	}
	for round := range o.rounds + 1 {
		for _, turn := range sweep.RoundOrder(passSeed, round, len(size), size) {
			which := turn % 2
			m := batches[size[turn]]
			o.kept.begin()
			span, err := sessions[which].TimePrompt(ctx, m)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				continue
			}
			of := &times[size[turn]][which]
			*of = append(*of, span.Seconds)
			if err := o.kept.keep(kernels.DecoderPrompt, kernel+[]string{"", "+table"}[which], m, results.PhaseRemedy, round-1, 1, span); err != nil {
				return nil, err
			}
		}
	}
	gains := make([]report.TableGain, len(batches))
	for i, m := range batches {
		g := report.TableGain{Kernel: kernel, Rows: m, Gain: rules.Gain(times[i][0], times[i][1]),
			PlainUS: 1e6 * rules.Centre(times[i][0]).Mid, TableUS: 1e6 * rules.Centre(times[i][1]).Mid}
		g.Applied, g.Products = l.Applied(l.table, m)
		gains[i] = g
	}
	return gains, nil
}
