package results

import (
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// Writer fills a new run that nothing else can see yet: see [Build]. The caller numbers origins, series and
// cases from 1 and names each before it is used.
type Writer struct {
	db    *direct.DB
	run   string
	kinds map[LaunchKind]int64
	keys  []SeriesKey // of series, by id - 1
	cases []written   // by id - 1
	swept Swept

	insertOrigin, insertSeries, insertCase, insertSample *direct.Stmt
	insertFailure, insertState, putMeta                  *direct.Stmt
	insertKind, insertChoice                             *direct.Stmt

	insertHostTime *direct.Stmt // nil until it is needed
}

// written is what the extent of the sweep depends on.
type written struct {
	series        int64
	single, swept bool
}

// Build writes a whole run with fill, which stores the run's Meta too, and opens it for reading. It refuses an
// existing path; the file appears whole or not at all. Errors of fill are returned as they are, those of the
// database describe the run.
func Build(ctx context.Context, path string, fill func(w *Writer) error) (*Run, error) {
	if err := refuseExisting(path); err != nil {
		return nil, err
	}
	swept, err := buildWith(ctx, path, fill)
	if err != nil {
		return nil, err
	}
	r, err := Open(path)
	if err == nil {
		r.swept = swept
	}
	return r, err
}

func buildWith(ctx context.Context, path string, fill func(w *Writer) error) (swept *Swept, err error) {
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	defer l.release()
	err = publishDraft(path, func(part string) error {
		run := newRunID()
		if err := fillFile(ctx, part, path, Meta{}, run, nil); err != nil {
			return err
		}
		w, err := newWriter(part, run)
		if err != nil {
			return describe(path, "create", err)
		}
		err = fill(w)
		if code, _ := sqliteCode(err); err != nil && code == 0 {
			w.close()
			return err
		}
		if err == nil {
			swept = w.extent()
			err = w.db.Exec("COMMIT")
		}
		// The file is discarded on any error.
		return describe(path, "create", errors.Join(err, w.close()))
	})
	return swept, err
}

func newWriter(part, run string) (*Writer, error) {
	uri, err := databaseURI(part, "mode=rw")
	if err != nil {
		return nil, err
	}
	db, err := direct.Open(uri, "locking_mode=EXCLUSIVE", "journal_mode=OFF", "synchronous=OFF", "trusted_schema=0", "cache_size=-16384")
	if err != nil {
		return nil, err
	}
	w := &Writer{db: db, run: run, kinds: map[LaunchKind]int64{}}
	err = db.Exec("BEGIN")
	for _, p := range w.statements() {
		if err == nil {
			*p.stmt, err = db.Prepare(p.query)
		}
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

type preparation struct {
	stmt  **direct.Stmt
	query string
}

func (w *Writer) statements() []preparation {
	return []preparation{
		{&w.insertOrigin, insertOrigin}, {&w.insertSeries, insertSeries}, {&w.insertCase, insertCase},
		{&w.insertSample, insertSample}, {&w.insertFailure, insertFailure}, {&w.insertState, insertState},
		{&w.putMeta, putMeta}, {&w.insertKind, insertKind}, {&w.insertChoice, insertChoice},
	}
}

func (w *Writer) close() error {
	for _, p := range w.statements() {
		if *p.stmt != nil {
			(*p.stmt).Close()
		}
	}
	if w.insertHostTime != nil {
		w.insertHostTime.Close()
	}
	return w.db.Close()
}

func runWith(s *direct.Stmt, values ...any) error {
	s.Bind(values...)
	return s.Run()
}

// RunID returns the new run's id.
func (w *Writer) RunID() string { return w.run }

// Meta stores the description of the run.
func (w *Writer) Meta(meta Meta) error {
	return WriteMeta(meta, func(key, value string) error { return runWith(w.putMeta, key, value) })
}

// Origin stores an origin.
func (w *Writer) Origin(o Origin) error { return runWith(w.insertOrigin, o.bind()...) }

// Series stores a series and returns its id.
func (w *Writer) Series(k SeriesKey) (id int64, err error) {
	id = int64(len(w.keys)) + 1
	values, err := bindSeries(id, k)
	if err != nil {
		return 0, err
	}
	w.keys = append(w.keys, k)
	return id, runWith(w.insertSeries, values...)
}

// Case stores a case of a series. Cases are numbered from 1 in the order of their storing.
func (w *Writer) Case(series int64, c Case) error {
	w.cases = append(w.cases, written{series: series, single: len(c.Parts) == 0 && c.PadTo == 0})
	return runWith(w.insertCase, bindCase(series, c)...)
}

// sweep counts a sample or failure of the sweep.
func (w *Writer) sweep(caseID int64, phase Phase) {
	if phase == PhaseSweep && caseID > 0 && caseID <= int64(len(w.cases)) {
		w.cases[caseID-1].swept = true
		w.swept.Samples++
	}
}

func (w *Writer) extent() *Swept {
	curves := map[SeriesKey]bool{}
	for _, c := range w.cases {
		if !c.swept {
			continue
		}
		w.swept.Cases++
		if k := w.keys[c.series-1]; c.single && !curves[k] {
			curves[k] = true
			w.swept.Series = append(w.swept.Series, k)
		}
	}
	slices.SortFunc(w.swept.Series, SeriesKey.Compare)
	return &w.swept
}

// Sample stores a sample. It binds the values of [Sample.bind] one by one: it runs millions of times.
func (w *Writer) Sample(s *Sample, origin int64) error {
	w.sweep(s.CaseID, s.Phase)
	b := w.insertSample
	b.BindInt64(1, s.Seq)
	b.BindInt64(2, s.CaseID)
	b.BindText(3, string(s.Phase))
	b.BindInt64(4, int64(s.Round))
	b.BindInt64(5, s.StartedUnixMicro)
	b.BindInt64(6, int64(s.Launches))
	b.BindFloat(7, s.US)
	b.BindFloat(8, s.ClockMHz)
	b.BindFloat(9, s.PowerW)
	b.BindFloat(10, s.TempC)
	b.BindText(11, string(s.Throttle))
	b.BindText(12, s.Disturbance)
	b.BindInt64(13, int64(s.Allocation))
	if s.EnergyMJ > 0 {
		b.BindFloat(14, s.EnergyMJ)
	} else {
		b.BindNull(14)
	}
	b.BindFloat(15, s.Utils)
	b.BindInt64(16, origin)
	if err := constraint(s.CaseID, b.Run()); err != nil || s.HostUS == 0 {
		return err
	}
	return w.hostTime(s)
}

// Failure stores a failure.
func (w *Writer) Failure(f Failure) error {
	w.sweep(f.CaseID, f.Phase)
	return constraint(f.CaseID, runWith(w.insertFailure, f.CaseID, string(f.Phase), f.Round, f.Reason))
}

// Choices stores the choices of a series.
func (w *Writer) Choices(series int64, c Choices) error {
	for _, s := range c {
		kind, ok := w.kinds[s.Kind]
		if !ok {
			kind = int64(len(w.kinds)) + 1
			w.kinds[s.Kind] = kind
			if err := runWith(w.insertKind, s.Kind.bind(kind)...); err != nil {
				return err
			}
		}
		if err := runWith(w.insertChoice, series, s.From, s.To, kind); err != nil {
			return err
		}
	}
	return nil
}

// State stores state of the whole run: see [Run.SetState].
func (w *Writer) State(key, value string) error { return runWith(w.insertState, key, value) }

const (
	updateLabel  = `UPDATE cases SET label = ? WHERE id = ?`
	updateLaunch = `UPDATE cases SET tile_m = ?, tile_n = ?, tile_k = ?, waves = ?, split = ?, orientation = ? WHERE id = ?`
)

// Label names the kernel of a case that had none.
func (w *Writer) Label(id int64, label string) error { return w.once(updateLabel, label, id) }

// Launch describes the launch of a case that had none.
func (w *Writer) Launch(id int64, l Launch) error {
	return w.once(updateLaunch, append(bindLaunch(l), id)...)
}

// once runs a rarely used statement.
func (w *Writer) once(query string, values ...any) error {
	s, err := w.db.Prepare(query)
	if err != nil {
		return err
	}
	defer s.Close()
	return runWith(s, values...)
}
