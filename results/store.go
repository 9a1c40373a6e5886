package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

// caseKey is the identity of a case: every field but ID and Label.
type caseKey struct {
	SeriesKey
	m, padTo int
	parts    string
}

func keyOf(c Case) caseKey {
	return caseKey{SeriesKey: c.SeriesKey, m: c.M, padTo: c.PadTo, parts: JoinInts(c.Parts, "+")}
}

// splitParts reads parts as they are stored: "192+1988", empty for none.
func splitParts(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	words := strings.Split(s, "+")
	parts := make([]int, len(words))
	for i, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("part %q is not a positive number", w)
		}
		if n > maxDimension {
			return nil, fmt.Errorf("part %d is above %d", n, int64(maxDimension))
		}
		parts[i] = n
	}
	return parts, nil
}

// check returns an error that names what is impossible about the case.
func (c Case) check() error {
	if err := c.Shape().Validate(); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{{"device", c.Device}, {"kernel", c.Kernel}, {"dtype", string(c.DType)}} {
		if f.value == "" {
			return fmt.Errorf("case %v has no %s", c, f.name)
		}
	}
	sum := 0
	for _, p := range c.Parts {
		if p < 1 {
			return fmt.Errorf("case %v has a part of %d, expected at least 1", c, p)
		}
		sum += p
	}
	switch {
	case len(c.Parts) > 0 && sum != c.M:
		return fmt.Errorf("parts of case %v add up to %d, expected %d", c, sum, c.M)
	case c.PadTo != 0 && c.PadTo <= c.M:
		return fmt.Errorf("case %v is padded to %d, expected more than %d", c, c.PadTo, c.M)
	case len(c.Parts) > 0 && c.PadTo != 0:
		return fmt.Errorf("case %v is both split and padded", c)
	case c.Threads < 0:
		return fmt.Errorf("case %v has %d threads", c, c.Threads)
	}
	return nil
}

// AddCases stores cases and returns them with their IDs, in the order given. A
// case that is stored already, or comes twice, gets the one ID; its label is
// filled in when it had none. Either all are stored or none.
func (r *Run) AddCases(cases []Case) ([]Case, error) {
	out := slices.Clone(cases)
	err := r.write("add cases", func(ctx context.Context, tx *sql.Tx) error {
		ids, err := newCaseStore(ctx, tx)
		if err != nil {
			return err
		}
		defer ids.close()
		for i := range out {
			if out[i].ID, err = ids.add(ctx, out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// caseStore gives IDs to cases inside one transaction.
type caseStore struct {
	insertSeries, insertCase, label *sql.Stmt

	series map[SeriesKey]int64
	cases  map[caseKey]*Case // by identity; ID and Label as stored
	last   int64
}

func newCaseStore(ctx context.Context, tx *sql.Tx) (_ *caseStore, err error) {
	s := &caseStore{series: map[SeriesKey]int64{}, cases: map[caseKey]*Case{}}
	for _, p := range []struct {
		stmt **sql.Stmt
		sql  string
	}{
		{&s.insertSeries, `INSERT INTO series (device, kernel, dtype, n, k, regime, threads, pack_inside) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.insertCase, `INSERT INTO cases (id, series, m, parts, pad_to, label) VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.label, `UPDATE cases SET label = ? WHERE id = ?`},
	} {
		if *p.stmt, err = tx.PrepareContext(ctx, p.sql); err != nil {
			return nil, err
		}
	}
	byID := map[int64]SeriesKey{}
	if err := scanSeries(ctx, tx, func(id int64, k SeriesKey) { byID[id], s.series[k] = k, id }); err != nil {
		return nil, err
	}
	err = scanCases(ctx, tx, byID, selectCases, func(c Case) error {
		s.cases[keyOf(c)] = &c
		s.last = max(s.last, c.ID)
		return nil
	})
	return s, err
}

func (s *caseStore) close() {
	for _, stmt := range []*sql.Stmt{s.insertSeries, s.insertCase, s.label} {
		stmt.Close()
	}
}

func (s *caseStore) add(ctx context.Context, c Case) (int64, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	key := keyOf(c)
	if old, ok := s.cases[key]; ok {
		if old.Label == "" && c.Label != "" {
			if _, err := s.label.ExecContext(ctx, c.Label, old.ID); err != nil {
				return 0, err
			}
			old.Label = c.Label
		}
		return old.ID, nil
	}
	series, ok := s.series[c.SeriesKey]
	if !ok {
		res, err := s.insertSeries.ExecContext(ctx, c.Device, c.Kernel, string(c.DType), c.N, c.K, string(c.Regime), c.Threads, c.PackInside)
		if err != nil {
			return 0, err
		}
		if series, err = res.LastInsertId(); err != nil {
			return 0, err
		}
		s.series[c.SeriesKey] = series
	}
	c.ID = s.last + 1
	if _, err := s.insertCase.ExecContext(ctx, c.ID, series, c.M, key.parts, c.PadTo, c.Label); err != nil {
		return 0, err
	}
	s.last = c.ID
	s.cases[key] = &c
	return c.ID, nil
}

// SetLabel stores the name of what ran inside a case, in place of any before.
func (r *Run) SetLabel(caseID int64, label string) error {
	return r.write("set label", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE cases SET label = ? WHERE id = ?`, label, caseID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return fmt.Errorf("there is no case %d", caseID)
		}
		return nil
	})
}

const insertSample = `INSERT INTO samples
	(seq, case_id, phase, round, started_us, launches, us, clock_mhz, power_w, temp_c, throttle, disturbance, utils)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const (
	insertFailure = `INSERT INTO failures (case_id, phase, round, reason) VALUES (?, ?, ?, ?)`
	insertState   = `INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)`
)

// check returns an error that names the first field that no measurement yields.
func (s Sample) check() error {
	switch {
	case s.Seq < 0:
		return fmt.Errorf("seq is %d", s.Seq)
	case s.Round < 0:
		return fmt.Errorf("round is %d", s.Round)
	case s.Phase == "":
		return errors.New("phase is empty")
	case s.Launches < 1:
		return fmt.Errorf("launches is %d, expected at least 1", s.Launches)
	case !(s.US > 0) || math.IsInf(s.US, 0):
		return fmt.Errorf("us is %v, expected a time above 0", s.US)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"clock_mhz", s.ClockMHz}, {"power_w", s.PowerW}, {"temp_c", s.TempC}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("%s is %v, expected a number", f.name, f.value)
		}
	}
	if !(s.Utils >= 0) || math.IsInf(s.Utils, 0) {
		return fmt.Errorf("utils is %v, expected a share of the peak, or 0 for none", s.Utils)
	}
	return nil
}

// bind lists the values of insertSample.
func (s Sample) bind() []any {
	return []any{s.Seq, s.CaseID, string(s.Phase), s.Round, s.StartedUnixMicro, s.Launches, s.US,
		s.ClockMHz, s.PowerW, s.TempC, s.Throttle, s.Disturbance, s.Utils}
}

func (s Sample) String() string {
	return fmt.Sprintf("sample of case %d, phase %s, round %d, seq %d", s.CaseID, s.Phase, s.Round, s.Seq)
}

// Append records one sample; when it returns nil, the sample survives the death
// of the process. A second sample of the same case, phase and round is refused
// with [ErrDuplicate], as is one where a failure is recorded, or one with a seq
// that is taken. No room to write is a [FullError], after which the run still
// holds everything that was acknowledged.
func (r *Run) Append(s Sample) error {
	if r.lock == nil {
		return fmt.Errorf("%s: append %v: %w", r.path, s, ErrReadOnly)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: append %v: %w", r.path, s, err)
	}
	r.mu.Lock()
	_, failed := r.failed[failureKey{s.CaseID, s.Phase, s.Round}]
	r.mu.Unlock()
	if failed {
		return fmt.Errorf("%s: append %v: %w: a failure", r.path, s, ErrDuplicate)
	}
	_, err := r.append.Exec(s.bind()...)
	if err == nil {
		return nil // without wording what was tried: this path is taken per block
	}
	return describe(r.path, "append "+s.String(), constraint(s.CaseID, err))
}

// constraint words what the tables refuse.
func constraint(caseID int64, err error) error {
	switch _, extended := sqliteCode(err); extended {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return ErrDuplicate
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("there is no case %d", caseID)
	}
	return err
}

// Fail records that a case could not be measured in a round, in the place of a
// sample.
func (r *Run) Fail(f Failure) error {
	tried := fmt.Sprintf("record failure of case %d, phase %s, round %d", f.CaseID, f.Phase, f.Round)
	if f.Phase == "" || f.Round < 0 {
		return fmt.Errorf("%s: %s: expected a phase and a round from 0", r.path, tried)
	}
	err := r.write(tried, func(ctx context.Context, tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM samples WHERE case_id = ? AND phase = ? AND round = ?`,
			f.CaseID, string(f.Phase), f.Round).Scan(&n)
		if err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: a sample", ErrDuplicate)
		}
		_, err = tx.ExecContext(ctx, insertFailure, f.CaseID, string(f.Phase), f.Round, f.Reason)
		return constraint(f.CaseID, err)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.failed[failureKey{f.CaseID, f.Phase, f.Round}] = struct{}{}
	r.mu.Unlock()
	return nil
}

// Forgive takes back that a case could not be measured in rounds of a phase, for it to be
// tried again.
func (r *Run) Forgive(caseID int64, phase Phase) error {
	tried := fmt.Sprintf("forgive failures of case %d, phase %s", caseID, phase)
	err := r.write(tried, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM failures WHERE case_id = ? AND phase = ?`, caseID, string(phase))
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failed, func(k failureKey, _ struct{}) bool { return k.caseID == caseID && k.phase == phase })
	return nil
}

// SetState stores a word about the run as a whole that changes while it is
// taken: "status" is "complete" or "interrupted", for one.
func (r *Run) SetState(key, value string) error {
	return r.write("set state "+key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insertState, key, value)
		return err
	})
}

// State returns what SetState stored; ok is false when nothing was.
func (r *Run) State(key string) (value string, ok bool, err error) {
	err = r.db.QueryRow(`SELECT value FROM state WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, describe(r.path, "read state "+key, err)
}

// allState returns every state by its key.
func (r *Run) allState() (map[string]string, error) {
	out := map[string]string{}
	err := query(context.Background(), r.db, func(rows *sql.Rows) error {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			return err
		}
		out[k] = v
		return nil
	}, `SELECT key, value FROM state`)
	return out, r.damaged("read state", err)
}
