package results

import (
	"context"
	"errors"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// bulkWriter fills a run that nobody else sees yet, on a connection of its own. Rows
// are numbered by who writes them.
type bulkWriter struct {
	db  *direct.DB
	run string // the id of the new run

	insertOrigin, insertSeries, insertCase, insertSample *direct.Stmt
	insertFailure, insertState, putMeta                  *direct.Stmt
	insertKind, insertChoice                             *direct.Stmt
}

// buildBulk writes a whole run with fill, as build does, for a run that nobody may be
// writing. What fill stores as Meta is what is known of the run.
func buildBulk(ctx context.Context, path string, fill func(w *bulkWriter) error) error {
	l, err := acquire(path)
	if err != nil {
		return err
	}
	defer l.release()
	return publishDraft(path, func(part string) error {
		run := newRunID()
		if err := fillFile(ctx, part, path, Meta{}, run, nil); err != nil {
			return err
		}
		w, err := newBulkWriter(part, run)
		if err != nil {
			return describe(path, "create", err)
		}
		err = fill(w)
		if err == nil {
			err = w.db.Exec("COMMIT")
		}
		// The file is thrown away on any error.
		return describe(path, "create", errors.Join(err, w.close()))
	})
}

func newBulkWriter(part, run string) (*bulkWriter, error) {
	uri, err := databaseURI(part, "mode=rw")
	if err != nil {
		return nil, err
	}
	db, err := direct.Open(uri, "locking_mode=EXCLUSIVE", "journal_mode=OFF", "synchronous=OFF", "trusted_schema=0", "cache_size=-16384")
	if err != nil {
		return nil, err
	}
	w := &bulkWriter{db: db, run: run}
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

func (w *bulkWriter) statements() []preparation {
	return []preparation{
		{&w.insertOrigin, insertOrigin}, {&w.insertSeries, insertSeries}, {&w.insertCase, insertCase},
		{&w.insertSample, insertSample}, {&w.insertFailure, insertFailure}, {&w.insertState, insertState},
		{&w.putMeta, putMeta}, {&w.insertKind, insertKind}, {&w.insertChoice, insertChoice},
	}
}

func (w *bulkWriter) close() error {
	for _, p := range w.statements() {
		if *p.stmt != nil {
			(*p.stmt).Close()
		}
	}
	return w.db.Close()
}

func runWith(s *direct.Stmt, values ...any) error {
	s.Bind(values...)
	return s.Run()
}

func (w *bulkWriter) meta(meta Meta) error {
	return writeMeta(meta, func(key, value string) error { return runWith(w.putMeta, key, value) })
}

func (w *bulkWriter) origin(o Origin) error { return runWith(w.insertOrigin, o.bind()...) }

func (w *bulkWriter) series(id int64, k SeriesKey) error {
	values, err := bindSeries(id, k)
	if err != nil {
		return err
	}
	return runWith(w.insertSeries, values...)
}

func (w *bulkWriter) addCase(series int64, c Case) error {
	return runWith(w.insertCase, bindCase(series, c)...)
}

// sample binds the values of [Sample.bind] one by one: this is done millions of times.
func (w *bulkWriter) sample(s *Sample, origin int64) error {
	b := w.insertSample
	b.BindInt(1, s.Seq)
	b.BindInt(2, s.CaseID)
	b.BindText(3, string(s.Phase))
	b.BindInt(4, int64(s.Round))
	b.BindInt(5, s.StartedUnixMicro)
	b.BindInt(6, int64(s.Launches))
	b.BindFloat(7, s.US)
	b.BindFloat(8, s.ClockMHz)
	b.BindFloat(9, s.PowerW)
	b.BindFloat(10, s.TempC)
	b.BindText(11, string(s.Throttle))
	b.BindText(12, s.Disturbance)
	b.BindInt(13, int64(s.Allocation))
	if s.EnergyMJ > 0 {
		b.BindFloat(14, s.EnergyMJ)
	} else {
		b.BindNull(14)
	}
	b.BindFloat(15, s.Utils)
	b.BindInt(16, origin)
	return constraint(s.CaseID, b.Run())
}

func (w *bulkWriter) failure(f Failure) error {
	return constraint(f.CaseID, runWith(w.insertFailure, f.CaseID, string(f.Phase), f.Round, f.Reason))
}

func (w *bulkWriter) state(key, value string) error { return runWith(w.insertState, key, value) }

const (
	updateLabel  = `UPDATE cases SET label = ? WHERE id = ?`
	updateLaunch = `UPDATE cases SET tile_m = ?, tile_n = ?, tile_k = ?, waves = ?, split = ?, orientation = ? WHERE id = ?`
)

// label stores the label of a case that had none.
func (w *bulkWriter) label(id int64, label string) error { return w.once(updateLabel, label, id) }

// launch stores the launch of a case that had none.
func (w *bulkWriter) launch(id int64, l Launch) error {
	return w.once(updateLaunch, append(bindLaunch(l), id)...)
}

// once runs a statement that is not run often.
func (w *bulkWriter) once(query string, values ...any) error {
	s, err := w.db.Prepare(query)
	if err != nil {
		return err
	}
	defer s.Close()
	return runWith(s, values...)
}
