package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query runs a statement to its end and passes each row to scan. It closes the rows, because a run has only
// one connection.
func query(ctx context.Context, db queryer, scan func(*sql.Rows) error, q string, args ...any) error {
	rows, err := db.QueryContext(ctx, q, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// damaged wraps errors of reading rows: other than the database's own errors, they are values that this
// program would not write.
func (r *Run) damaged(tried string, err error) error {
	if err == nil {
		return nil
	}
	if primary, _ := sqliteCode(err); primary != 0 {
		return describe(r.path, tried, err)
	}
	var format *FormatError
	if errors.As(err, &format) {
		return err
	}
	var news *unknownError
	if errors.As(err, &news) {
		return &FormatError{Path: r.path, Reason: err.Error(), Hint: upgradeHint}
	}
	return &FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: %s: %v", tried, err), Hint: DamagedHint}
}

// Cases returns all cases in the order of their addition.
func (r *Run) Cases() ([]Case, error) {
	var out []Case
	err := r.bulk("read cases", func(d *reader) error {
		return d.cases(func(c Case) error {
			out = append(out, c)
			return nil
		})
	})
	return out, err
}

// eachSample passes a phase's samples (all if empty) to each by seq, with their origin IDs, 0 in schema 1.
func (r *Run) eachSample(phase Phase, each func(s Sample, origin int64) error) error {
	return r.bulk("read samples", func(d *reader) error {
		return d.query(`SELECT `+d.sampleColumns()+` FROM samples ORDER BY seq`, func(s *direct.Stmt) error {
			if phase != "" && string(s.Text(2)) != string(phase) {
				return s.Err()
			}
			var x Sample
			origin, err := d.sample(s, &x)
			if err != nil {
				return err
			}
			return each(x, origin)
		})
	})
}

// EachWithOrigin passes all samples to each in execution order, with the IDs of their origins in
// [Run.Origins].
func (r *Run) EachWithOrigin(each func(s Sample, origin int64) error) error {
	origins, err := r.indexOrigins()
	if err != nil {
		return err
	}
	return r.eachSample("", func(s Sample, id int64) error {
		origin, ok := origins.of(s.CaseID, id)
		if !ok {
			return BadValue(r.path, fmt.Sprintf("the origin of %v", s), id)
		}
		return each(s, origin)
	})
}

// EachSample passes all samples to each in execution order. Only one is in memory, and each must not keep it.
func (r *Run) EachSample(each func(s *Sample)) error {
	return r.eachSample("", func(s Sample, _ int64) error {
		each(&s)
		return nil
	})
}

// Samples returns a phase's samples (all if empty) in execution order.
func (r *Run) Samples(phase Phase) ([]Sample, error) {
	var out []Sample
	err := r.eachSample(phase, func(s Sample, _ int64) error {
		out = append(out, s)
		return nil
	})
	return out, err
}

// Failures returns all failures by case, phase and round.
func (r *Run) Failures() ([]Failure, error) {
	var out []Failure
	err := r.bulk("read failures", func(d *reader) error {
		return d.query(`SELECT case_id, phase, round, reason FROM failures ORDER BY case_id, phase, round`, func(s *direct.Stmt) error {
			f := Failure{CaseID: s.Int(0), Phase: Phase(d.word(s, 1)), Round: int(s.Int(2)), Reason: d.long(s, 3)}
			if err := s.Err(); err != nil {
				return err
			}
			if f.Phase == "" || f.Round < 0 {
				return fmt.Errorf("failure of case %d, phase %q, round %d: expected a phase and a round from 0", f.CaseID, f.Phase, f.Round)
			}
			out = append(out, f)
			return nil
		})
	})
	return out, err
}

// Done returns the rounds of a phase, ascending, that each case need not run again: measured or failed.
func (r *Run) Done(phase Phase) (map[int64][]int, error) {
	done := map[int64][]int{}
	err := r.eachKey(func(_, caseID int64, p []byte, round int) error {
		if string(p) == string(phase) {
			done[caseID] = append(done[caseID], round)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	failures, err := r.Failures()
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		if f.Phase == phase {
			done[f.CaseID] = append(done[f.CaseID], f.Round)
		}
	}
	for id, rounds := range done {
		slices.Sort(rounds)
		done[id] = slices.Compact(rounds)
	}
	return done, nil
}

func (r *Run) eachKey(each func(seq, caseID int64, phase []byte, round int) error) error {
	return r.bulk("read rounds", func(d *reader) error {
		return d.query(`SELECT `+keyColumns+` FROM samples ORDER BY seq`, func(s *direct.Stmt) error {
			seq, caseID, phase, round := s.Int(0), s.Int(1), s.Text(2), s.Int(3)
			if err := s.Err(); err != nil {
				return err
			}
			if round < 0 {
				return fmt.Errorf("sample %d has round %d", seq, round)
			}
			return each(seq, caseID, phase, int(round))
		})
	})
}

// NextSeq returns the next sample's seq: one more than the largest, 0 at first.
func (r *Run) NextSeq() (int64, error) {
	var next int64
	err := r.db.QueryRow(`SELECT coalesce(max(seq) + 1, 0) FROM samples`).Scan(&next)
	return next, r.damaged("read seq", err)
}
