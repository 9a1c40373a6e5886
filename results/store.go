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

// Check names an invalid value of a sample, or returns nil.
func (s *Sample) Check() error {
	// The fast path: nearly all samples are valid.
	if s.Seq >= 0 && s.Round >= 0 && s.Phase != "" && s.Launches >= 1 && s.Allocation >= 0 &&
		len(s.Phase) <= MaxText && len(s.Throttle) <= MaxText && len(s.Disturbance) <= MaxText &&
		s.Launches <= MaxDimension && s.Round <= MaxDimension && s.Allocation <= MaxDimension &&
		s.US >= LeastUS && s.US <= MostUS && s.ClockMHz >= 0 && s.ClockMHz <= MostFigure && s.PowerW >= 0 && s.PowerW <= MostFigure &&
		s.TempC >= -MostFigure && s.TempC <= MostFigure && s.EnergyMJ >= 0 && s.EnergyMJ <= MostFigure && s.Utils >= 0 &&
		s.Utils <= MostFigure && s.HostUS >= 0 && s.HostUS <= MostFigure {
		return nil
	}
	switch {
	case s.Seq < 0:
		return fmt.Errorf("seq is %d", s.Seq)
	case s.Round < 0 || s.Round > MaxDimension:
		return fmt.Errorf("round is %d", s.Round)
	case s.Phase == "":
		return errors.New("phase is empty")
	case s.Launches < 1 || s.Launches > MaxDimension:
		return fmt.Errorf("launches is %d, expected 1 to %d", s.Launches, int64(MaxDimension))
	case !(s.US >= LeastUS && s.US <= MostUS):
		return fmt.Errorf("us is %v, expected %g to %g", s.US, LeastUS, MostUS)
	}
	for name, text := range map[string]string{"phase": string(s.Phase), "throttle": string(s.Throttle), "disturbance": s.Disturbance} {
		if len(text) > MaxText {
			return fmt.Errorf("%s has %d bytes, expected at most %d", name, len(text), MaxText)
		}
	}
	for _, f := range []struct {
		name         string
		value, least float64
	}{{"clock_mhz", s.ClockMHz, 0}, {"power_w", s.PowerW, 0}, {"temp_c", s.TempC, -MostFigure}, {"energy_mj", s.EnergyMJ, 0},
		{"utils", s.Utils, 0}, {"host_us", s.HostUS, 0}} {
		if !(f.value >= f.least && f.value <= MostFigure) {
			return fmt.Errorf("%s is %v, expected %g to %g", f.name, f.value, f.least, MostFigure)
		}
	}
	if s.Allocation < 0 || s.Allocation > MaxDimension {
		return fmt.Errorf("allocation is %d", s.Allocation)
	}
	return nil
}

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

// Append records one sample; after it returns nil, the sample survives the process's death. [ErrDuplicate] is
// returned if the case has a sample or failure in that phase and round, or if seq is taken. A lack of space
// is a [FullError]; acknowledged samples stay in the run.
func (r *Run) Append(s Sample) error {
	if r.lock == nil {
		return fmt.Errorf("%s: append %v: %w", r.path, s, ErrReadOnly)
	}
	if err := s.Check(); err != nil {
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
	switch {
	case err != nil:
	case s.HostUS > 0:
		err = r.appendHosted(s, origin)
	default:
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

func constraint(caseID int64, err error) error {
	switch _, extended := sqliteCode(err); extended {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return ErrDuplicate
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return fmt.Errorf("there is no case %d", caseID)
	}
	return err
}

// Fail records in place of a sample that a case could not be measured in a round.
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

// Forgive removes a case's failures in a phase, so that it can be tried again.
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
