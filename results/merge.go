package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MergeOptions say what may differ between runs that are merged.
type MergeOptions struct {
	// DifferentMachines allows runs whose fingerprints differ. Figures of several
	// machines then stand in one run, whose fingerprint is the first run's.
	DifferentMachines bool
	// Command goes into the new run's [Meta]; empty keeps the first run's.
	Command string
}

// Merge joins shards of one sweep into a new run at out, and opens it for
// reading. Their plans must be equal but for the top-level field "shard", and so
// must regime, distribution and seed, and the machines' fingerprints unless the
// options allow otherwise; what differs is named by a [MergeError]. Equal cases
// become one. Samples are numbered anew by the wall clock, and by their old
// numbers where it is the same. A sample or failure that several runs hold is
// taken once when the copies are equal, and is an error otherwise.
//
// Labels on which all runs agree are those of the new one. The others stay with the samples, in [Run.Origins], and
// a warning names them.
//
// Of ceilings that were measured several times the highest stands. The state
// "status" becomes "complete" only when all runs are; other state on which the
// runs disagree is left out with a warning.
func Merge(ctx context.Context, out string, inputs []string, opt MergeOptions) (*Run, error) {
	if len(inputs) == 0 {
		return nil, errors.New("merge: no run given, expected at least one")
	}
	if err := refuseExisting(out); err != nil {
		return nil, err
	}
	m := &merger{ids: map[CaseKey]int64{}, choices: map[SeriesKey]Choices{}}
	for _, path := range inputs {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("merge: %w", err)
		}
		if err := m.add(path, opt); err != nil {
			return nil, err
		}
	}
	if err := m.unify(); err != nil {
		return nil, err
	}
	m.tellLabels()
	if opt.Command != "" {
		m.meta.Command = opt.Command
	}
	err := buildBulk(ctx, out, func(w *bulkWriter) error { return m.store(ctx, w) })
	if err != nil {
		return nil, err
	}
	r, err := Open(out)
	if err != nil {
		return nil, err
	}
	r.warnings = append(r.warnings, m.warnings...)
	return r, nil
}

// merger collects the content of runs.
type merger struct {
	inputs   []string
	meta     Meta
	warnings []string
	states   []map[string]string
	// differing are keys of labels on which the runs disagree, some twice.
	differing []string

	cases    []Case // ID is the index + 1
	ids      map[CaseKey]int64
	origins  []Origin // ID is the index + 1
	samples  []sourced[Sample]
	failures []sourced[Failure]
	choices  map[SeriesKey]Choices
}

// sourced is something together with the index of the run it came from, and a sample
// with its origin.
type sourced[T any] struct {
	v      T
	input  int32
	origin int32
}

// add reads one run.
func (m *merger) add(path string, opt MergeOptions) error {
	r, err := Open(path)
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
	state, err := r.allState()
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
	unify := func(id *int64, what string) error {
		own, ok := ids[*id]
		if !ok {
			return badValue(path, what, *id)
		}
		*id = own
		return nil
	}
	err = r.eachSample("", func(s Sample, origin int64) error {
		if err := unify(&s.CaseID, "the case of a sample"); err != nil {
			return err
		}
		from, ok := origins.of(m.cases[s.CaseID-1].Device, origin)
		if !ok {
			return badValue(path, "the origin of a sample", origin)
		}
		m.samples = append(m.samples, sourced[Sample]{s, input, int32(from)})
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range failures {
		if err := unify(&f.CaseID, "the case of a failure"); err != nil {
			return err
		}
		m.failures = append(m.failures, sourced[Failure]{v: f, input: input})
	}
	return nil
}

// addCases unifies the cases of a run with those before; the result maps its
// IDs to ours.
func (m *merger) addCases(r *Run) (map[int64]int64, error) {
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
			m.cases[id-1].learn(c.Label, c.Launch)
		}
		ids[c.ID] = id
	}
	return ids, nil
}

// addOrigins unifies the origins of a run with those before; the result finds ours.
func (m *merger) addOrigins(r *Run) (originIndex, error) {
	origins, err := r.Origins()
	if err != nil {
		return originIndex{}, err
	}
	index := indexOrigins(r.schema, origins)
	for _, o := range origins {
		i := slices.IndexFunc(m.origins, o.same)
		if i < 0 {
			i = len(m.origins)
			own := o
			own.ID = int64(i) + 1
			m.origins = append(m.origins, own)
		}
		index.rename(o, int64(i)+1)
	}
	return index, nil
}

// addChoices adds the choices of a run. All shards of a sweep are told the same, so of a
// series that was told before the first word stands.
func (m *merger) addChoices(r *Run) error {
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
		m.warnings = append(m.warnings, fmt.Sprintf("%s: other kernels were foretold for %d series than in the runs before it, which stand", r.Path(), differ))
	}
	return nil
}

// tellLabels warns of labels on which the runs disagree.
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
		m.warnings = append(m.warnings, fmt.Sprintf("the runs differ in label %s: %s; each sample keeps its own", key, briefWords(values)))
	}
}

// mostNamed is how many values a warning lists.
const mostNamed = 8

// briefWords joins words, the first of many.
func briefWords(words []string) string {
	if more := len(words) - mostNamed; more > 0 {
		return strings.Join(words[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}

// unify orders and numbers what was collected, and removes copies.
func (m *merger) unify() error {
	slices.SortStableFunc(m.samples, func(a, b sourced[Sample]) int {
		return cmp.Or(
			cmp.Compare(a.v.StartedUnixMicro, b.v.StartedUnixMicro),
			cmp.Compare(a.v.Seq, b.v.Seq),
			cmp.Compare(a.input, b.input),
		)
	})
	conflict := func(k roundKey, a, b int32) error {
		return fmt.Errorf("merge: runs %s and %s hold different figures for %v, phase %s, round %d",
			m.inputs[a], m.inputs[b], m.cases[k.caseID-1], k.phase, k.round)
	}
	// What is kept moves to the front of its slice; held is where it stands there.
	held := make(map[roundKey]int32, len(m.samples))
	samples := m.samples[:0]
	for _, s := range m.samples {
		k := roundKey{s.v.CaseID, s.v.Phase, s.v.Round}
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
	failed := map[roundKey]sourced[Failure]{}
	failures := m.failures[:0]
	for _, f := range m.failures {
		k := roundKey{f.v.CaseID, f.v.Phase, f.v.Round}
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

// store writes the merged run.
func (m *merger) store(ctx context.Context, w *bulkWriter) error {
	if err := w.meta(m.meta); err != nil {
		return err
	}
	for _, o := range m.origins {
		if err := w.origin(o); err != nil {
			return err
		}
	}
	series := map[SeriesKey]int64{}
	seriesOf := func(key SeriesKey) (int64, error) {
		if id, ok := series[key]; ok {
			return id, nil
		}
		id := int64(len(series)) + 1
		series[key] = id
		return id, w.series(id, key)
	}
	for _, c := range m.cases {
		id, err := seriesOf(c.SeriesKey)
		if err != nil {
			return err
		}
		if err := w.addCase(id, c); err != nil {
			return err
		}
	}
	for i := range m.samples {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.sample(&m.samples[i].v, int64(m.samples[i].origin)); err != nil {
			return err
		}
	}
	for _, f := range m.failures {
		if err := w.failure(f.v); err != nil {
			return err
		}
	}
	if err := m.storeChoices(w, seriesOf); err != nil {
		return err
	}
	for k, v := range mergeStates(m.states) {
		if err := w.state(k, v); err != nil {
			return err
		}
	}
	return nil
}

// storeChoices writes the choices; seriesOf is the id of a series, which it stores.
func (m *merger) storeChoices(w *bulkWriter, seriesOf func(SeriesKey) (int64, error)) error {
	kinds := map[LaunchKind]int64{}
	for _, key := range ChosenSeries(m.choices) {
		id, err := seriesOf(key)
		if err != nil {
			return err
		}
		for _, s := range m.choices[key] {
			kind, ok := kinds[s.Kind]
			if !ok {
				kind = int64(len(kinds)) + 1
				kinds[s.Kind] = kind
				if err := runWith(w.insertKind, s.Kind.bind(kind)...); err != nil {
					return err
				}
			}
			if err := runWith(w.insertChoice, id, s.From, s.To, kind); err != nil {
				return err
			}
		}
	}
	return nil
}
