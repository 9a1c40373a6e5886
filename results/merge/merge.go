package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/results"
)

// Options relax the conditions for a merge.
type Options struct {
	// DifferentMachines allows different fingerprints. The new run then mixes machines and has the first
	// run's fingerprint.
	DifferentMachines bool
	// Command is stored in the new run's [results.Meta]; empty keeps the first run's.
	Command string
}

// Runs joins shards of a sweep into a new run at out and opens it for reading. Plans (without the top-level
// field "shard"), regime, distribution and seed must be equal, and fingerprints unless opt allows otherwise;
// an [Error] names a difference. Equal cases are unified. Samples are renumbered by wall clock, then old
// number. A sample or failure in several runs is taken once if the copies are equal, otherwise it is an
// error.
//
// The new run's labels are those that all runs share. The others stay with the samples, in [results.Run.Origins], and
// a warning names them.
//
// The highest of several measured ceilings is kept. The state "status" becomes "complete" only if all runs
// are complete; other conflicting state is dropped with a warning.
func Runs(ctx context.Context, out string, inputs []string, opt Options) (*results.Run, error) {
	if len(inputs) == 0 {
		return nil, errors.New("merge: no run given, expected at least one")
	}
	m := &merger{ids: map[results.CaseKey]int64{}, choices: map[results.SeriesKey]results.Choices{}}
	r, err := results.Build(ctx, out, func(w *results.Writer) error {
		for _, path := range inputs {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("merge: %w", err)
			}
			if err := m.add(path, opt); err != nil {
				return err
			}
		}
		if err := m.unify(); err != nil {
			return err
		}
		m.tellLabels()
		if opt.Command != "" {
			m.meta.Command = opt.Command
		}
		return m.store(ctx, w)
	})
	if err != nil {
		return nil, err
	}
	r.Warn(m.warnings...)
	return r, nil
}

type merger struct {
	inputs   []string
	meta     results.Meta
	warnings []string
	states   []map[string]string
	// differing are keys of labels that differ, possibly repeated.
	differing []string

	cases    []results.Case // ID is index + 1
	ids      map[results.CaseKey]int64
	origins  []results.Origin // ID is index + 1
	samples  []sourced[results.Sample]
	failures []sourced[results.Failure]
	choices  map[results.SeriesKey]results.Choices
	launches []results.OtherLaunch
}

// round identifies a sample or failure.
type round struct {
	caseID int64
	phase  results.Phase
	round  int
}

// sourced is a value with the index of its run, and for a sample its origin.
type sourced[T any] struct {
	v      T
	input  int32
	origin int32
}

func (m *merger) add(path string, opt Options) error {
	r, err := results.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	input := int32(len(m.inputs))
	m.inputs = append(m.inputs, path)
	if input == 0 {
		m.meta = r.Meta()
	} else if err := m.join(r.Meta(), path, opt); err != nil {
		return err
	}
	for _, w := range r.Warnings() {
		m.warnings = append(m.warnings, path+": "+w)
	}
	state, err := r.AllState()
	if err != nil {
		return err
	}
	m.states = append(m.states, state)
	ids, err := m.addCases(r)
	if err != nil {
		return err
	}
	origins, err := m.addOrigins(r)
	if err != nil {
		return err
	}
	failures, err := r.Failures()
	if err != nil {
		return err
	}
	if err := m.addChoices(r); err != nil {
		return err
	}
	launches, err := r.OtherLaunches()
	if err != nil {
		return err
	}
	unify := func(id *int64, what string) error {
		own, ok := ids[*id]
		if !ok {
			return results.BadValue(path, what, *id)
		}
		*id = own
		return nil
	}
	err = r.EachWithOrigin(func(s results.Sample, origin int64) error {
		if err := unify(&s.CaseID, "the case of a sample"); err != nil {
			return err
		}
		m.samples = append(m.samples, sourced[results.Sample]{s, input, origins[origin]})
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range launches {
		if err := unify(&o.CaseID, "the case of a launch"); err != nil {
			return err
		}
		m.launches = append(m.launches, o)
	}
	for _, f := range failures {
		if err := unify(&f.CaseID, "the case of a failure"); err != nil {
			return err
		}
		m.failures = append(m.failures, sourced[results.Failure]{v: f, input: input})
	}
	return nil
}

// addCases unifies a run's cases with earlier ones; the result maps its IDs to ours.
func (m *merger) addCases(r *results.Run) (map[int64]int64, error) {
	cases, err := r.Cases()
	if err != nil {
		return nil, err
	}
	ids := make(map[int64]int64, len(cases))
	for _, c := range cases {
		key := c.Key()
		id, ok := m.ids[key]
		if !ok {
			id = int64(len(m.cases)) + 1
			m.ids[key] = id
			m.cases = append(m.cases, c)
			m.cases[id-1].ID = id
		} else {
			m.cases[id-1].Learn(c.Label, c.Launch)
		}
		ids[c.ID] = id
	}
	return ids, nil
}

// addOrigins unifies a run's origins with earlier ones; the result maps its IDs to ours.
func (m *merger) addOrigins(r *results.Run) (map[int64]int32, error) {
	origins, err := r.Origins()
	ids := make(map[int64]int32, len(origins))
	for _, o := range origins {
		i := slices.IndexFunc(m.origins, o.Same)
		if i < 0 {
			i = len(m.origins)
			own := o
			own.ID = int64(i) + 1
			m.origins = append(m.origins, own)
		}
		ids[o.ID] = int32(i) + 1
	}
	return ids, err
}

// addChoices adds a run's choices. All shards of a sweep have the same, so the first of a series is kept.
func (m *merger) addChoices(r *results.Run) error {
	choices, err := r.Choices()
	if err != nil {
		return err
	}
	differ := 0
	for key, c := range choices {
		first, told := m.choices[key]
		if !told {
			m.choices[key] = c
		} else if !slices.Equal(first, c) {
			differ++
		}
	}
	if differ > 0 {
		m.warnings = append(m.warnings,
			fmt.Sprintf("%s: other choices for %d series than in earlier runs; the earlier ones are kept", r.Path(), differ))
	}
	return nil
}

func (m *merger) tellLabels() {
	slices.Sort(m.differing)
	for _, key := range slices.Compact(m.differing) {
		var values []string
		for _, o := range m.origins {
			value := "none"
			if v, ok := o.Labels[key]; ok {
				value = strconv.Quote(v)
			}
			if !slices.Contains(values, value) {
				values = append(values, value)
			}
		}
		m.warnings = append(m.warnings,
			fmt.Sprintf("the runs differ in label %s: %s; each sample keeps its own", key, results.BriefWords(values)))
	}
}

func (m *merger) unify() error {
	slices.SortStableFunc(m.samples, func(a, b sourced[results.Sample]) int {
		return cmp.Or(cmp.Compare(a.v.StartedUnixMicro, b.v.StartedUnixMicro), cmp.Compare(a.v.Seq, b.v.Seq), cmp.Compare(a.input, b.input))
	})
	conflict := func(k round, a, b int32) error {
		return fmt.Errorf("merge: runs %s and %s hold different figures for %v, phase %s, round %d",
			m.inputs[a], m.inputs[b], m.cases[k.caseID-1], k.phase, k.round)
	}
	// Kept items move to the front of their slice; held is their index there.
	held := make(map[round]int32, len(m.samples))
	samples := m.samples[:0]
	for _, s := range m.samples {
		k := round{s.v.CaseID, s.v.Phase, s.v.Round}
		s.v.Seq = int64(len(samples))
		if i, twice := held[k]; twice {
			same := s.v
			same.Seq = samples[i].v.Seq
			if same != samples[i].v {
				return conflict(k, samples[i].input, s.input)
			}
			continue
		}
		held[k] = int32(len(samples))
		samples = append(samples, s)
	}
	failed := map[round]sourced[results.Failure]{}
	failures := m.failures[:0]
	for _, f := range m.failures {
		k := round{f.v.CaseID, f.v.Phase, f.v.Round}
		if i, measured := held[k]; measured {
			return conflict(k, samples[i].input, f.input)
		}
		if first, twice := failed[k]; twice {
			if first.v != f.v {
				return conflict(k, first.input, f.input)
			}
			continue
		}
		failures = append(failures, f)
		failed[k] = f
	}
	m.samples, m.failures = samples, failures
	return nil
}

func (m *merger) store(ctx context.Context, w *results.Writer) error {
	if err := w.Meta(m.meta); err != nil {
		return err
	}
	for _, o := range m.origins {
		if err := w.Origin(o); err != nil {
			return err
		}
	}
	series := map[results.SeriesKey]int64{}
	seriesOf := func(key results.SeriesKey) (int64, error) {
		if id, ok := series[key]; ok {
			return id, nil
		}
		id, err := w.Series(key)
		series[key] = id
		return id, err
	}
	for _, c := range m.cases {
		id, err := seriesOf(c.SeriesKey)
		if err != nil {
			return err
		}
		if err := w.Case(id, c); err != nil {
			return err
		}
	}
	for i := range m.samples {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.Sample(&m.samples[i].v, int64(m.samples[i].origin)); err != nil {
			return err
		}
	}
	for _, f := range m.failures {
		if err := w.Failure(f.v); err != nil {
			return err
		}
	}
	for _, key := range results.ChosenSeries(m.choices) {
		id, err := seriesOf(key)
		if err == nil {
			err = w.Choices(id, m.choices[key])
		}
		if err != nil {
			return err
		}
	}
	if err := w.OtherLaunches(m.launches); err != nil {
		return err
	}
	for k, v := range mergeStates(m.states) {
		if err := w.State(k, v); err != nil {
			return err
		}
	}
	return nil
}
