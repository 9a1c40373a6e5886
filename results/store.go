package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"
)

const insertSample = `INSERT INTO samples
	(seq, case_id, phase, round, started_us, launches, us, clock_mhz, power_w, temp_c, throttle, disturbance,
	allocation, energy_mj, utils, origin)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const (
	insertFailure = `INSERT INTO failures (case_id, phase, round, reason) VALUES (?, ?, ?, ?)`
	insertState   = `INSERT OR REPLACE INTO state (key, value) VALUES (?, ?)`
)

// check returns an error that names the first field that no measurement yields.
func (s *Sample) check() error {
	// Nearly all samples are well.
	if s.Seq >= 0 && s.Round >= 0 && s.Phase != "" && s.Launches >= 1 && s.Allocation >= 0 &&
		len(s.Phase) <= maxText && len(s.Throttle) <= maxText && len(s.Disturbance) <= maxText &&
		s.Launches <= maxDimension && s.Round <= maxDimension && s.Allocation <= maxDimension &&
		s.US >= leastUS && s.US <= mostUS && s.ClockMHz >= 0 && s.ClockMHz <= mostFigure && s.PowerW >= 0 && s.PowerW <= mostFigure &&
		s.TempC >= -mostFigure && s.TempC <= mostFigure && s.EnergyMJ >= 0 && s.EnergyMJ <= mostFigure && s.Utils >= 0 && s.Utils <= mostFigure {
		return nil
	}
	switch {
	case s.Seq < 0:
		return fmt.Errorf("seq is %d", s.Seq)
	case s.Round < 0 || s.Round > maxDimension:
		return fmt.Errorf("round is %d", s.Round)
	case s.Phase == "":
		return errors.New("phase is empty")
	case s.Launches < 1 || s.Launches > maxDimension:
		return fmt.Errorf("launches is %d, expected 1 to %d", s.Launches, int64(maxDimension))
	case !(s.US >= leastUS && s.US <= mostUS):
		return fmt.Errorf("us is %v, expected %g to %g", s.US, leastUS, mostUS)
	}
	for name, text := range map[string]string{"phase": string(s.Phase), "throttle": string(s.Throttle), "disturbance": s.Disturbance} {
		if len(text) > maxText {
			return fmt.Errorf("%s has %d bytes, expected at most %d", name, len(text), maxText)
		}
	}
	for _, f := range []struct {
		name         string
		value, least float64
	}{{"clock_mhz", s.ClockMHz, 0}, {"power_w", s.PowerW, 0}, {"temp_c", s.TempC, -mostFigure}, {"energy_mj", s.EnergyMJ, 0}, {"utils", s.Utils, 0}} {
		if !(f.value >= f.least && f.value <= mostFigure) {
			return fmt.Errorf("%s is %v, expected %g to %g", f.name, f.value, f.least, mostFigure)
		}
	}
	if s.Allocation < 0 || s.Allocation > maxDimension {
		return fmt.Errorf("allocation is %d", s.Allocation)
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
		s.ClockMHz, s.PowerW, s.TempC, string(s.Throttle), s.Disturbance, s.Allocation, energy, s.Utils, origin}
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
	if r.loaded != nil {
		r.counted.taken[r.origins[s.CaseID]]++
	}
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
