package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

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

// Validate returns an error that names what is impossible about the case.
func (c Case) Validate() error {
	if c.M < 1 {
		return fmt.Errorf("case %v has M %d, expected at least 1", c, c.M)
	}
	if err := c.Subject.Validate(); err != nil {
		return fmt.Errorf("case %v: %w", c, err)
	}
	for _, f := range []struct{ name, value string }{{"device", c.Device}, {"kernel", c.Kernel}} {
		if f.value == "" {
			return fmt.Errorf("case %v has no %s", c, f.name)
		}
	}
	sum := 0
	for _, p := range c.Parts {
		if p < 1 || p > c.M {
			return fmt.Errorf("case %v has a part of %d rows, expected 1 to %d", c, p, c.M)
		}
		sum += p
	}
	switch {
	case len(c.Parts) > 0 && sum != c.M:
		return fmt.Errorf("parts of case %v add up to %d, expected %d", c, sum, c.M)
	case (len(c.Parts) > 0 || c.PadTo != 0) && !c.Operation.Divisible():
		return fmt.Errorf("case %v: %v is neither split nor padded", c, c.Operation)
	case c.PadTo != 0 && c.PadTo <= c.M:
		return fmt.Errorf("case %v is padded to %d, expected more than %d", c, c.PadTo, c.M)
	case len(c.Parts) > 0 && c.PadTo != 0:
		return fmt.Errorf("case %v is both split and padded", c)
	case c.Threads < 0:
		return fmt.Errorf("case %v has %d threads", c, c.Threads)
	}
	if err := c.Launch.check(); err != nil {
		return fmt.Errorf("the launch of case %v is impossible: %w", c, err)
	}
	return nil
}

// AddCases stores cases and returns them with their IDs, in the order given. A
// case that is stored already, or comes twice, gets the one ID; its label and its
// launch are filled in when it had none. Either all are stored or none.
func (r *Run) AddCases(cases []Case) ([]Case, error) {
	out := slices.Clone(cases)
	r.records.Lock()
	defer r.records.Unlock()
	told := map[int64]Case{}
	err := r.write("add cases", func(ctx context.Context, tx *sql.Tx) error {
		ids, err := r.newCaseStore(ctx, tx)
		if err != nil {
			return err
		}
		defer ids.close()
		for i := range out {
			c, changed, err := ids.add(ctx, out[i])
			if err != nil {
				return err
			}
			out[i].ID = c.ID
			if changed {
				told[c.ID] = *c
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id, c := range told {
		r.tell(id, c.Label, c.Launch)
	}
	return out, nil
}

const (
	insertSeries = `INSERT INTO series (id, operation, device, kernel, dims, operands, layout, regime, threads, pack_inside)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertCase = `INSERT INTO cases (id, series, m, parts, pad_to, label, tile_m, tile_n, tile_k, waves, split, orientation)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateCase = `UPDATE cases SET label = ?, tile_m = ?, tile_n = ?, tile_k = ?, waves = ?, split = ?, orientation = ? WHERE id = ?`
)

// bindSeries lists the values of insertSeries.
func bindSeries(id int64, k SeriesKey) ([]any, error) {
	i, err := identityOf(k)
	return []any{id, i.operation, k.Device, k.Kernel, i.dims, i.operands, i.layout, string(k.Regime), k.Threads, k.PackInside}, err
}

// bindCase lists the values of insertCase.
func bindCase(series int64, c Case) []any {
	return append([]any{c.ID, series, c.M, JoinInts(c.Parts, "+"), c.PadTo, c.Label}, c.Launch.bind()...)
}

// bindTold lists the values of updateCase.
func bindTold(c Case) []any {
	return append(append([]any{c.Label}, c.Launch.bind()...), c.ID)
}

// learn fills in what is not known of a case and other knows; false when nothing is new.
func (c *Case) learn(label string, launch Launch) bool {
	before, had := c.Label, c.Launch
	if c.Label == "" {
		c.Label = label
	}
	if c.Launch == (Launch{}) {
		c.Launch = launch
	}
	return c.Label != before || c.Launch != had
}

// caseStore gives IDs to cases inside one transaction.
type caseStore struct {
	insertSeries, insertCase, update *sql.Stmt

	series               map[SeriesKey]int64
	cases                map[CaseKey]*Case // by identity
	lastSeries, lastCase int64
}

// newCaseStore reads the cases that the run has, on a connection of its own: within
// the transaction nothing has been added yet.
func (r *Run) newCaseStore(ctx context.Context, tx *sql.Tx) (*caseStore, error) {
	s := &caseStore{series: map[SeriesKey]int64{}, cases: map[CaseKey]*Case{}}
	err := r.bulk("read cases", func(d *reader) error {
		series, err := d.series()
		if err != nil {
			return err
		}
		for id, k := range series {
			s.series[k] = id
			s.lastSeries = max(s.lastSeries, id)
		}
		return d.cases(func(c Case) error {
			s.cases[c.Key()] = &c
			s.lastCase = max(s.lastCase, c.ID)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		sql  string
	}{{&s.insertSeries, insertSeries}, {&s.insertCase, insertCase}, {&s.update, updateCase}} {
		if *p.stmt, err = tx.PrepareContext(ctx, p.sql); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *caseStore) close() {
	for _, stmt := range []*sql.Stmt{s.insertSeries, s.insertCase, s.update} {
		if stmt != nil {
			stmt.Close()
		}
	}
}

// add stores a case and returns it as it is stored; changed says that it was there
// and that its label or launch is new.
func (s *caseStore) add(ctx context.Context, c Case) (stored *Case, changed bool, err error) {
	if err := c.Validate(); err != nil {
		return nil, false, err
	}
	key := c.Key()
	if old, ok := s.cases[key]; ok {
		if changed = old.learn(c.Label, c.Launch); changed {
			_, err = s.update.ExecContext(ctx, bindTold(*old)...)
		}
		return old, changed, err
	}
	series, ok := s.series[c.SeriesKey]
	if !ok {
		series = s.lastSeries + 1
		values, err := bindSeries(series, c.SeriesKey)
		if err == nil {
			_, err = s.insertSeries.ExecContext(ctx, values...)
		}
		if err != nil {
			return nil, false, err
		}
		s.series[c.SeriesKey], s.lastSeries = series, series
	}
	c.ID = s.lastCase + 1
	if _, err := s.insertCase.ExecContext(ctx, bindCase(series, c)...); err != nil {
		return nil, false, err
	}
	s.lastCase = c.ID
	s.cases[key] = &c
	return &c, false, nil
}

// SetLabel stores the name of what ran inside a case, in place of any before.
func (r *Run) SetLabel(caseID int64, label string) error {
	r.records.Lock()
	defer r.records.Unlock()
	err := r.write("set label", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE cases SET label = ? WHERE id = ?`, label, caseID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return fmt.Errorf("there is no case %d", caseID)
		}
		return nil
	})
	if err == nil {
		r.relabel(caseID, label)
	}
	return err
}

const insertSample = `INSERT INTO samples
	(seq, case_id, phase, round, started_us, launches, us, clock_mhz, power_w, temp_c, throttle, disturbance,
	allocation, energy_mj, utils, origin)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

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
	}{{"clock_mhz", s.ClockMHz}, {"power_w", s.PowerW}, {"temp_c", s.TempC}, {"energy_mj", s.EnergyMJ}, {"utils", s.Utils}} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) {
			return fmt.Errorf("%s is %v, expected a number", f.name, f.value)
		}
	}
	switch {
	case s.Allocation < 0:
		return fmt.Errorf("allocation is %d", s.Allocation)
	case s.EnergyMJ < 0:
		return fmt.Errorf("energy_mj is %v", s.EnergyMJ)
	case s.Utils < 0:
		return fmt.Errorf("utils is %v", s.Utils)
	}
	return nil
}

// bind lists the values of insertSample.
func (s Sample) bind(origin int64) []any {
	var energy any
	if s.EnergyMJ > 0 {
		energy = s.EnergyMJ
	}
	return []any{s.Seq, s.CaseID, string(s.Phase), s.Round, s.StartedUnixMicro, s.Launches, s.US,
		s.ClockMHz, s.PowerW, s.TempC, s.Throttle, s.Disturbance, s.Allocation, energy, s.Utils, origin}
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
	r.records.Lock()
	defer r.records.Unlock()
	if err := r.readRecorded(); err != nil {
		return err
	}
	if r.recorded.failed(s.CaseID, s.Phase, s.Round) {
		return fmt.Errorf("%s: append %v: %w: a failure", r.path, s, ErrDuplicate)
	}
	if r.recorded.has(s.CaseID, s.Phase, s.Round) {
		return fmt.Errorf("%s: append %v: %w", r.path, s, ErrDuplicate)
	}
	origin, ok, err := r.originFor(context.Background(), s.CaseID)
	if err == nil && !ok {
		err = fmt.Errorf("there is no case %d", s.CaseID)
	}
	if err == nil {
		_, err = r.append.Exec(s.bind(origin)...)
	}
	if err != nil {
		return describe(r.path, "append "+s.String(), constraint(s.CaseID, err))
	}
	r.recorded.add(s.CaseID, s.Phase, s.Round)
	r.appended(s)
	return nil
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
	r.records.Lock()
	defer r.records.Unlock()
	if r.lock != nil {
		if err := r.readRecorded(); err != nil {
			return err
		}
	}
	err := r.write(tried, func(ctx context.Context, tx *sql.Tx) error {
		if r.recorded.has(f.CaseID, f.Phase, f.Round) {
			return fmt.Errorf("%w: a sample", ErrDuplicate)
		}
		_, err := tx.ExecContext(ctx, insertFailure, f.CaseID, string(f.Phase), f.Round, f.Reason)
		return constraint(f.CaseID, err)
	})
	if err != nil {
		return err
	}
	r.recorded.fail(f.CaseID, f.Phase, f.Round)
	r.forget(f.Phase)
	return nil
}

// Forgive takes back that a case could not be measured in rounds of a phase, for it to be
// tried again.
func (r *Run) Forgive(caseID int64, phase Phase) error {
	tried := fmt.Sprintf("forgive failures of case %d, phase %s", caseID, phase)
	r.records.Lock()
	defer r.records.Unlock()
	err := r.write(tried, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM failures WHERE case_id = ? AND phase = ?`, caseID, string(phase))
		return err
	})
	if err != nil {
		return err
	}
	if r.recorded != nil {
		r.recorded.forgive(caseID, phase)
	}
	r.forget(phase)
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
