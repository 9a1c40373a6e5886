package results

import (
	"context"
	"database/sql"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/direct"
)

// SetState stores state of the whole run that changes during a sweep: for example, "status" is "complete" or
// "interrupted".
func (r *Run) SetState(key, value string) error {
	return r.write("set state "+key, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insertState, key, value)
		return err
	})
}

// State returns a value stored by SetState; ok is false if there is none.
func (r *Run) State(key string) (value string, ok bool, err error) {
	quoted := "'" + strings.ReplaceAll(key, "'", "''") + "'"
	state, err := r.pairs("read state "+key, `SELECT key, value FROM state WHERE key = `+quoted)
	value, ok = state[key]
	return value, ok, err
}

// AllState returns all values stored by SetState.
func (r *Run) AllState() (map[string]string, error) {
	return r.pairs("read state", `SELECT key, value FROM state`)
}

func (r *Run) pairs(tried, q string) (map[string]string, error) {
	out := map[string]string{}
	err := r.bulk(tried, func(d *reader) error {
		return d.query(q, func(s *direct.Stmt) error {
			out[d.word(s, 0)] = d.long(s, 1)
			return s.Err()
		})
	})
	return out, err
}
