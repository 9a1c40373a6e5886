package results

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// However far a run has come: when the context ends while it is built, that is
// the error, and nothing is left.
func TestBuildInterrupted(t *testing.T) {
	for name, fill := range map[string]func(cancel func(), tx *sql.Tx) error{
		"before the commit": func(cancel func(), _ *sql.Tx) error { cancel(); return nil },
		"in the loop":       func(cancel func(), _ *sql.Tx) error { cancel(); return context.Canceled },
		"in a statement": func(cancel func(), tx *sql.Tx) error {
			cancel()
			for { // until the transaction is gone
				if _, err := tx.Exec(`INSERT INTO state(key, value) VALUES('k', 'v') ON CONFLICT DO NOTHING`); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.db")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := build(ctx, path, Meta{}, func(_ context.Context, tx *sql.Tx) error { return fill(cancel, tx) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v, expected the context's error", err)
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
