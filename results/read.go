package results

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// queryer is a connection or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query runs a statement to its end, with each row given to scan. Rows never
// stay open behind it: a run has one connection.
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

func scanSeries(ctx context.Context, db queryer, each func(id int64, k SeriesKey)) error {
	return query(ctx, db, func(rows *sql.Rows) error {
		var id int64
		var k SeriesKey
		if err := rows.Scan(&id, &k.Device, &k.Kernel, &k.DType, &k.N, &k.K, &k.Regime, &k.Threads, &k.PackInside); err != nil {
			return err
		}
		each(id, k)
		return nil
	}, `SELECT id, device, kernel, dtype, n, k, regime, threads, pack_inside FROM series`)
}

const (
	selectCases  = `SELECT id, series, m, parts, pad_to, label FROM cases ORDER BY id`
	selectSingle = `SELECT id, series, m, parts, pad_to, label FROM cases WHERE parts = '' AND pad_to = 0`
)

// scanCases gives each case of the statement q to each.
func scanCases(ctx context.Context, db queryer, series map[int64]SeriesKey, q string, each func(Case) error) error {
	return query(ctx, db, func(rows *sql.Rows) error {
		var c Case
		var id int64
		var parts string
		if err := rows.Scan(&c.ID, &id, &c.M, &parts, &c.PadTo, &c.Label); err != nil {
			return err
		}
		k, ok := series[id]
		if !ok {
			return fmt.Errorf("case %d belongs to series %d, which is not there", c.ID, id)
		}
		c.SeriesKey = k
		var err error
		if c.Parts, err = splitParts(parts); err != nil {
			return fmt.Errorf("case %d: %w", c.ID, err)
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("case %d: %w", c.ID, err)
		}
		return each(c)
	}, q)
}

// readCases runs scanCases on the run; whatever can't be a case is a [FormatError].
func (r *Run) readCases(q string, each func(Case) error) error {
	ctx := context.Background()
	series := map[int64]SeriesKey{}
	err := scanSeries(ctx, r.db, func(id int64, k SeriesKey) { series[id] = k })
	if err == nil {
		err = scanCases(ctx, r.db, series, q, each)
	}
	return r.damaged("read cases", err)
}

// damaged is for errors of reading rows: what the database itself does not
// report is a value that this program would not have written.
func (r *Run) damaged(tried string, err error) error {
	if err == nil {
		return nil
	}
	if primary, _ := sqliteCode(err); primary != 0 {
		return describe(r.path, tried, err)
	}
	return &FormatError{Path: r.path, Reason: fmt.Sprintf("the run is damaged: %s: %v", tried, err), Hint: damagedHint}
}

// Cases returns all cases in the order in which they were added.
func (r *Run) Cases() ([]Case, error) {
	var out []Case
	err := r.readCases(selectCases, func(c Case) error {
		out = append(out, c)
		return nil
	})
	return out, err
}

const sampleColumns = `seq, case_id, phase, round, started_us, launches, us, clock_mhz, power_w, temp_c, throttle, disturbance, utils`

func (r *Run) eachSample(each func(Sample) error, where string, args ...any) error {
	err := query(context.Background(), r.db, func(rows *sql.Rows) error {
		var s Sample
		err := rows.Scan(&s.Seq, &s.CaseID, &s.Phase, &s.Round, &s.StartedUnixMicro, &s.Launches, &s.US,
			&s.ClockMHz, &s.PowerW, &s.TempC, &s.Throttle, &s.Disturbance, &s.Utils)
		if err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
		return each(s)
	}, `SELECT `+sampleColumns+` FROM samples `+where+` ORDER BY seq`, args...)
	return r.damaged("read samples", err)
}

// Samples returns the samples of a phase in the order in which the blocks ran,
// those of all phases when phase is empty.
func (r *Run) Samples(phase Phase) ([]Sample, error) {
	var out []Sample
	keep := func(s Sample) error {
		out = append(out, s)
		return nil
	}
	if phase == "" {
		err := r.eachSample(keep, "")
		return out, err
	}
	err := r.eachSample(keep, `WHERE phase = ?`, string(phase))
	return out, err
}

// Failures returns all failures, by case, phase and round.
func (r *Run) Failures() ([]Failure, error) {
	var out []Failure
	err := query(context.Background(), r.db, func(rows *sql.Rows) error {
		var f Failure
		if err := rows.Scan(&f.CaseID, &f.Phase, &f.Round, &f.Reason); err != nil {
			return err
		}
		out = append(out, f)
		return nil
	}, `SELECT case_id, phase, round, reason FROM failures ORDER BY case_id, phase, round`)
	return out, r.damaged("read failures", err)
}

// Done returns, for each case that has any, the rounds of a phase that need not
// be run again: measured or failed, ascending.
func (r *Run) Done(phase Phase) (map[int64][]int, error) {
	done := map[int64][]int{}
	for _, table := range []string{"samples", "failures"} {
		err := query(context.Background(), r.db, func(rows *sql.Rows) error {
			var id int64
			var round int
			if err := rows.Scan(&id, &round); err != nil {
				return err
			}
			done[id] = append(done[id], round)
			return nil
		}, `SELECT case_id, round FROM `+table+` WHERE phase = ?`, string(phase))
		if err != nil {
			return nil, r.damaged("read rounds", err)
		}
	}
	for id, rounds := range done {
		slices.Sort(rounds)
		done[id] = slices.Compact(rounds)
	}
	return done, nil
}

// NextSeq is the seq for the next sample: one more than the largest, 0 at first.
func (r *Run) NextSeq() (int64, error) {
	var next int64
	err := r.db.QueryRow(`SELECT coalesce(max(seq) + 1, 0) FROM samples`).Scan(&next)
	return next, r.damaged("read seq", err)
}

// peakOf is the peak that MFU of a series is relative to.
func peakOf(meta Meta, k SeriesKey) kernels.Peak {
	if p, ok := meta.Ceilings[k.Device].Peak(k.DType); ok {
		return p
	}
	return kernels.Peak{DType: k.DType, Origin: kernels.Relative}
}
