package results

import (
	"context"
	"database/sql"
	"errors"
)

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
