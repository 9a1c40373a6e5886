package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
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

// prefills times a kernel's prompts with the table and without, a pair a round, in
// alternating order.
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
	for _, m := range batches {
		if m > plain.Batch() {
			continue
		}
		o.app.notef("kernel %s: prompts of %d tokens with the table and without", kernel, m)
		g := report.TableGain{Kernel: kernel, Rows: m}
		g.Applied, g.Products = l.Applied(l.table, m)
		var times [2][]float64
		sessions := [2]*mistral.Session{plain, with}
		for round := range o.rounds + 1 {
			for i := range sessions {
				which := (i + round) % 2
				seconds, err := sessions[which].TimePrompt(ctx, m)
				if err != nil {
					return err
				}
				if round > 0 { // the first loads code
					times[which] = append(times[which], seconds)
				}
			}
		}
		g.Gain = rules.Gain(times[0], times[1])
		g.PlainUS, g.TableUS = 1e6*rules.Centre(times[0]).Mid, 1e6*rules.Centre(times[1]).Mid
		v.Prefills = append(v.Prefills, g)
	}
	return nil
}
