package results

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// At any moment: an ended context must be the error, and no file may remain.
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

// A process killed while publishing can leave two names for one file. The next writer removes the draft's
// name, however the run is opened; readers leave it.
func TestSecondNameOfARunIsRemoved(t *testing.T) {
	for _, opened := range []string{"run.db", "link.db"} {
		r, _ := NewRun(t, 64)
		path := r.Path()
		must(t, r.Close())
		folder := filepath.Dir(path)
		second := filepath.Join(folder, ".run.db.1767265396.part")
		must(t, os.Link(path, second))
		must(t, os.Symlink(filepath.Base(path), filepath.Join(folder, "link.db")))
		reader, err := Open(filepath.Join(folder, opened))
		must(t, err)
		must(t, reader.Close())
		if _, err := os.Lstat(second); err != nil {
			t.Errorf("%s, opened for reading: %v", opened, err)
		}
		writer, err := OpenAppend(filepath.Join(folder, opened))
		must(t, err)
		must(t, writer.Close())
		if _, err := os.Lstat(second); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s, opened to go on with: %v, expected the second name to be gone", opened, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
