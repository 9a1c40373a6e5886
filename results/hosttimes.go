package results

import (
	"context"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

const insertHostTime = `INSERT INTO host_times (seq, host_us) VALUES (?, ?)`

// appendHosted stores a sample with its host time.
func (r *Run) appendHosted(s Sample, origin int64) error {
	ctx := context.Background()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.StmtContext(ctx, r.append).ExecContext(ctx, s.bind(origin)...); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, ddlOfHostTimes); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insertHostTime, s.Seq, s.HostUS); err != nil {
		return err
	}
	return tx.Commit()
}

// hasTable reports whether the run has a table that it may lack.
func (d *reader) hasTable(name string) (there bool, err error) {
	err = d.query(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '`+name+`'`, func(s *direct.Stmt) error {
		there = s.Int(0) > 0
		return s.Err()
	})
	return there, err
}

// hostTime stores the host time of a sample in a new run.
func (w *Writer) hostTime(s *Sample) error {
	if w.insertHostTime == nil {
		if err := w.db.Exec(oneStatement(ddlOfHostTimes)); err != nil {
			return err
		}
		var err error
		if w.insertHostTime, err = w.db.Prepare(insertHostTime); err != nil {
			return err
		}
	}
	return runWith(w.insertHostTime, s.Seq, s.HostUS)
}
