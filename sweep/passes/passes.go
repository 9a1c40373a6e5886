// Package passes times whole passes of a decoder and their parts, and stores the samples in a run file. Prompts and
// tokens are operations of their own, and M is the number of tokens of a prompt or of the context.
package passes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// Seed is the seed of the order of passes.
const Seed = 1

// Order is the order of a round's n passes.
func Order(round, n int) []int { return sweep.RoundOrder(Seed, round, n, nil) }

// Record stores every sample in a run file. A nil Record discards them.
type Record struct {
	run     *results.Run
	now     func() time.Time
	series  results.SeriesKey // without operation and kernel
	weights string            // weight format, appended to the kernel's name; empty if unquantized
	cases   map[results.CaseKey]results.Case
	started time.Time // start of the next stored measurement
	seq     int64
}

// NewRecord records samples of a model in a run. weights is the format of quantized weights, or empty.
func NewRecord(run *results.Run, series results.SeriesKey, weights string, now func() time.Time) *Record {
	if weights != "" {
		weights = "+" + weights
	}
	return &Record{run: run, now: now, series: series, weights: weights, cases: map[results.CaseKey]results.Case{}}
}

// Close closes the run, which is complete unless failure is set.
func (r *Record) Close(failure error) error {
	if r == nil {
		return nil
	}
	status := sweep.StatusComplete
	if failure != nil {
		status = sweep.StatusInterrupted
	}
	return errors.Join(r.run.SetState(sweep.StateStatus, status), r.run.Close())
}

// Begin notes the start of the next kept sample.
func (r *Record) Begin() {
	if r != nil {
		r.started = r.now()
	}
}

// Keep stores a kernel's time for launches passes of an operation with m tokens, since Begin.
func (r *Record) Keep(o kernels.Operation, kernel string, m int, phase results.Phase, round, launches int, span kernels.Span) error {
	if r == nil {
		return nil
	}
	c := results.Case{SeriesKey: r.series, M: m}
	c.Kernel, c.Operation = kernel+r.weights, o
	known, ok := r.cases[c.Key()]
	if !ok {
		stored, err := r.run.AddCases([]results.Case{c})
		if err != nil {
			return err
		}
		known = stored[0]
		r.cases[c.Key()] = known
	}
	err := r.run.Append(results.Sample{
		CaseID: known.ID, Phase: phase, Round: round, Seq: r.seq, StartedUnixMicro: r.started.UnixMicro(),
		Launches: launches, US: 1e6 * span.Seconds / float64(launches), ClockMHz: span.ClockMHz, Disturbance: span.Disturbance.String(),
	})
	r.seq++
	return err
}

// keepTiming stores a sample of one part of a pass in that part's phase, and of the whole pass in the sweep's.
func (r *Record) keepTiming(kernel string, t mistral.Timing, round int, span kernels.Span) error {
	phase := results.PhaseSweep
	if t.Part != "" {
		phase = results.Phase("part:" + string(t.Part))
	}
	if t.Rows == 1 && t.Context > 0 {
		return r.Keep(kernels.DecoderToken, kernel, t.Context, phase, round, 1, span)
	}
	return r.Keep(kernels.DecoderPrompt, kernel, t.Rows, phase, round, 1, span)
}

// Time returns the seconds of a pass, the first of timings, and of its parts in each round. After a warm-up round
// in the given order, each round has its own random order, as in a sweep.
func (r *Record) Time(ctx context.Context, kernel string, timings []mistral.Timing, rounds int) ([][]float64, error) {
	seconds := make([][]float64, len(timings))
	for i := range timings {
		if _, err := timings[i].Run(ctx); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for _, i := range Order(round, len(timings)) {
			r.Begin()
			span, err := timings[i].Run(ctx)
			if err != nil {
				return nil, err
			}
			if err := r.keepTiming(kernel, timings[i], round, span); err != nil {
				return nil, err
			}
			seconds[i] = append(seconds[i], span.Seconds)
		}
	}
	return seconds, nil
}

// WithTable returns the seconds of prompts of several sizes in two sessions, without and with a table. After a
// warm-up round that loads code, each round has its own order, with the two runs of a size adjacent.
func (r *Record) WithTable(ctx context.Context, kernel string, sessions [2]*mistral.Session, sizes []int,
	rounds int) ([][2][]float64, error) {
	times := make([][2][]float64, len(sizes))
	pair := make([]int, 2*len(sizes)) // the size of each turn
	for i := range pair {
		pair[i] = i / 2
	}
	for round := range rounds + 1 {
		for _, turn := range sweep.RoundOrder(Seed, round, len(pair), pair) {
			which, m := turn%2, sizes[pair[turn]]
			r.Begin()
			span, err := sessions[which].TimePrompt(ctx, m)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				continue
			}
			of := &times[pair[turn]][which]
			*of = append(*of, span.Seconds)
			name := kernel + []string{"", "+table"}[which]
			if err := r.Keep(kernels.DecoderPrompt, name, m, results.PhaseRemedy, round-1, 1, span); err != nil {
				return nil, err
			}
		}
	}
	return times, nil
}

// TriedSizes picks at most `most` sizes, ascending: half with the largest savings, the rest spread over the
// others, to avoid showing only the best.
func TriedSizes(saving map[int]float64, most int) []int {
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
