package results

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// Loaded is the part of a run that rules judge.
type Loaded struct {
	// Series are the curves: see [Run.Series].
	Series []Series
	// Sentinels are the recurring cases' samples by seq.
	Sentinels []Sample
	// Sustained are the samples of cases run alone, by seq.
	Sustained []Sample
	// Confirmed counts the samples of suspects measured again, and of their references.
	Confirmed int
}

type counted struct {
	failures []Failure      // of the sweep
	taken    map[source]int // samples of all phases by origin
}

// Swept is the extent of a run's sweep.
type Swept struct {
	// Series are the keys of [Run.Series], in its order.
	Series []SeriesKey
	// Cases have a sample or failure in the sweep; Samples counts both.
	Cases, Samples int
}

// Load returns the part of a run that rules judge. It reads the file once; later calls add what this Run has
// appended. The result is shared and must not be changed.
func (r *Run) Load() (Loaded, error) {
	r.records.Lock()
	defer r.records.Unlock()
	if r.loaded == nil {
		t, err := r.tally()
		if err != nil {
			return Loaded{}, err
		}
		if r.loaded, err = r.load(t); err != nil {
			return Loaded{}, err
		}
		r.swept, r.told = t.swept(), map[int64]caseNews{}
		r.counted = counted{slices.DeleteFunc(slices.Clone(t.failures), func(f Failure) bool { return f.Phase != PhaseSweep }), t.taken}
	}
	r.applyTold()
	return *r.loaded, nil
}

// Series returns the run's curves for the rules: single-launch cases with their sweep samples, sorted by key
// and M. Planned cases without sample or failure are omitted. A case with samples counts as measured even if
// other rounds failed.
//
// The peak is from [kernels.Ceilings.Peak]. Without one FLOPS is 0, the origin is [kernels.Relative], and the
// series is relative to its fastest row.
//
// The result is shared, see [Run.Load].
func (r *Run) Series() ([]Series, error) {
	l, err := r.Load()
	return l.Series, err
}

// Swept counts the contents of the run's sweep.
func (r *Run) Swept() (Swept, error) {
	r.records.Lock()
	defer r.records.Unlock()
	if r.swept == nil {
		t, err := r.tally()
		if err != nil {
			return Swept{}, err
		}
		r.swept = t.swept()
	}
	return *r.swept, nil
}

type caseNews struct {
	label  string
	launch Launch
}

func (r *Run) tell(c Case) {
	if r.loaded != nil {
		r.told[c.ID] = caseNews{c.Label, c.Launch}
	}
}

// applyTold updates the loaded data in a copy; earlier results stay unchanged.
func (r *Run) applyTold() {
	if len(r.told) == 0 {
		return
	}
	r.loaded.Series = slices.Clone(r.loaded.Series)
	for i := range r.loaded.Series {
		s := &r.loaded.Series[i]
		own := false
		for j := range s.Rows {
			news, ok := r.told[s.Rows[j].Case.ID]
			if !ok {
				continue
			}
			if !own {
				s.Rows, own = slices.Clone(s.Rows), true
			}
			c := &s.Rows[j].Case
			c.Label, c.Launch = news.label, news.launch
		}
	}
	clear(r.told)
}

// appended adds a sample to the loaded data. A sweep sample invalidates the curves, which are then reloaded
// on demand.
func (r *Run) appended(s Sample) {
	switch {
	case s.Phase == PhaseSweep:
		r.forget(s.Phase)
	case s.Phase == PhaseSentinel && r.loaded != nil:
		r.follow(&r.loaded.Sentinels, s)
	case s.Phase == PhaseSustained && r.loaded != nil:
		r.follow(&r.loaded.Sustained, s)
	case s.Phase == PhaseConfirm && r.loaded != nil:
		r.loaded.Confirmed++
	}
}

// follow appends a sample to a list sorted by seq, or invalidates everything if it belongs earlier.
func (r *Run) follow(list *[]Sample, s Sample) {
	if n := len(*list); n > 0 && (*list)[n-1].Seq > s.Seq {
		r.loaded = nil
		return
	}
	*list = append(*list, s)
}

// forget invalidates loaded data that depends on a phase.
func (r *Run) forget(phase Phase) {
	if phase == PhaseSweep {
		r.loaded, r.swept = nil, nil
	}
}

// load reads the rows' samples directly into their final places, and those of sentinels and sustained cases.
func (r *Run) load(t *tally) (*Loaded, error) {
	starts := make([]int, len(t.rows)+1)
	for i := range t.rows {
		p, _ := t.position(t.rows[i].Case.ID)
		starts[i+1] = starts[i] + t.count(p)
	}
	all := make([]Sample, starts[len(t.rows)])
	onLargePages(all)
	next := make([][]int, len(t.parts)) // by part and row
	for part := range t.parts {
		next[part] = slices.Clone(starts[:len(t.rows)])
		for i, row := range t.rowOf {
			for before := 0; row >= 0 && before < part; before++ {
				next[part][row] += int(t.counts[before][i])
			}
		}
	}
	confirmed := make([]int, len(t.parts))
	sentinels, sustained := make([][]Sample, len(t.parts)), make([][]Sample, len(t.parts))
	err := r.inParts(t.parts, func(part int, d *reader, within string) error {
		next := next[part]
		return d.query(`SELECT `+d.sampleColumns()+` FROM samples `+within, func(s *direct.Stmt) error {
			switch phase := s.Text(2); {
			case string(phase) == string(PhaseSentinel):
				var x Sample
				_, err := d.sample(s, &x)
				sentinels[part] = append(sentinels[part], x)
				return err
			case string(phase) == string(PhaseSustained):
				var x Sample
				_, err := d.sample(s, &x)
				sustained[part] = append(sustained[part], x)
				return err
			case string(phase) == string(PhaseConfirm):
				confirmed[part]++
				return s.Err()
			case string(phase) != string(PhaseSweep):
				return s.Err()
			}
			p, ok := t.position(s.Int(1))
			if !ok || t.rowOf[p] < 0 {
				return s.Err()
			}
			// Samples added since counting are omitted.
			row := t.rowOf[p]
			at := next[row]
			if at == starts[row+1] {
				return s.Err()
			}
			next[row]++
			_, err := d.sample(s, &all[at])
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for i := range t.rows {
		row := &t.rows[i]
		if row.Samples = all[starts[i]:starts[i+1]:starts[i+1]]; len(row.Samples) == 0 {
			row.Samples, row.Failed = nil, t.failed[row.Case.ID]
		}
	}
	if err := distinctRounds(t.rows); err != nil {
		return nil, r.damaged("read samples", err)
	}
	return &Loaded{Series: r.curves(t.rows), Sentinels: slices.Concat(sentinels...), Sustained: slices.Concat(sustained...),
		Confirmed: sum(confirmed)}, nil
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func distinctRounds(rows []Row) error {
	parts := runtime.GOMAXPROCS(0)
	errs := make([]error, parts)
	var wait sync.WaitGroup
	for k := range parts {
		wait.Go(func() {
			for _, row := range rows[k*len(rows)/parts : (k+1)*len(rows)/parts] {
				if err := oneARound(row.Samples); err != nil {
					errs[k] = err
					return
				}
			}
		})
	}
	wait.Wait()
	return cmp.Or(errs...)
}

func oneARound(samples []Sample) error {
	rising := true
	for i := 1; i < len(samples) && rising; i++ {
		rising = samples[i-1].Round < samples[i].Round
	}
	if rising {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return cmp.Compare(a.Round, b.Round) })
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Round == sorted[i-1].Round {
			return fmt.Errorf("%v and %v are of one round", sorted[i-1], sorted[i])
		}
	}
	return nil
}

func (r *Run) curves(rows []Row) []Series {
	meta := r.Meta()
	var out []Series
	for first := 0; first < len(rows); {
		key := rows[first].Case.SeriesKey
		end := first + 1
		for end < len(rows) && rows[end].Case.SeriesKey == key {
			end++
		}
		out = append(out, Series{
			Key:       key,
			Rows:      rows[first:end:end],
			Peak:      PeakOf(meta, key),
			Bandwidth: meta.Ceilings[key.Device].Bandwidth(key.Operation),
		})
		first = end
	}
	return out
}

// RowsOf groups samples by case, in the order of each case's first sample. Samples of unknown cases are
// omitted.
func (r *Run) RowsOf(samples []Sample) ([]Row, error) {
	if len(samples) == 0 {
		return nil, nil
	}
	cases, err := r.Cases()
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]Case, len(cases))
	for _, c := range cases {
		byID[c.ID] = c
	}
	var rows []Row
	place := map[int64]int{}
	for _, s := range samples {
		c, ok := byID[s.CaseID]
		if !ok {
			continue
		}
		at, ok := place[s.CaseID]
		if !ok {
			at = len(rows)
			place[s.CaseID] = at
			rows = append(rows, Row{Case: c})
		}
		rows[at].Samples = append(rows[at].Samples, s)
	}
	return rows, nil
}
