package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gemmaudit/gemmaudit/results/draft"
)

// build writes a whole run next to path and moves it there when complete, so path never holds half a run.
// fill, which may be nil, adds to the empty run inside the same transaction. If a file appears at path
// meanwhile, it is kept and build fails.
func build(ctx context.Context, path string, meta Meta, fill func(ctx context.Context, tx *sql.Tx) error) error {
	return publishDraft(path, func(part string) error {
		return fillFile(ctx, part, path, meta, newRunID(), fill)
	})
}

func publishDraft(path string, make func(part string) error) error {
	d, err := draft.File(path)
	if err != nil {
		return folderError(path, err)
	}
	defer d.Close()
	if err := make(d.Path()); err != nil {
		return err
	}
	if err := flush(d.Path()); err != nil {
		return describe(path, "create", err)
	}
	return publish(d.Path(), path)
}

func fillFile(ctx context.Context, part, path string, meta Meta, run string, fill func(ctx context.Context, tx *sql.Tx) error) error {
	// The file is discarded on any error, so no journal is needed and one flush at the end is enough.
	db, err := openDB(part, "mode=rw", "journal_mode(OFF)", "synchronous(OFF)", "trusted_schema(0)", "cache_size(-65536)")
	if err != nil {
		return err
	}
	if err := populate(ctx, db, path, meta, run, fill); err != nil {
		db.Close()
		// The end of ctx rolls the transaction back; later errors would not give the reason.
		if ended := ctx.Err(); ended != nil {
			return fmt.Errorf("create run %q: %w", path, ended)
		}
		return err
	}
	return describe(path, "create", db.Close())
}

// Replace moves the finished run at part to path. A run there is replaced and must have no writer.
func Replace(part, path string) error {
	l, err := acquire(path)
	if err != nil {
		return err
	}
	defer l.release()
	if err := removeJournals(path); err != nil {
		return fmt.Errorf("replace run %q: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("replace run %q: %w", path, err)
	}
	return nil
}

// Replace moves a finished run that is open for reading to path, as the function Replace does, and continues
// reading it there.
func (r *Run) Replace(path string) error {
	if err := Replace(r.path, path); err != nil {
		return err
	}
	inUse.remove(r.path)
	r.path, r.file = path, path
	inUse.add(path)
	return nil
}

// removeJournals removes the journals of a killed writer whose run is gone: the database would apply them to
// the next run of that name.
func removeJournals(path string) error {
	for _, suffix := range journals {
		if err := os.Remove(path + suffix); err != nil && exists(err) {
			return err
		}
	}
	return nil
}

func populate(ctx context.Context, db *sql.DB, path string, meta Meta, run string, fill func(ctx context.Context, tx *sql.Tx) error) error {
	for _, q := range []string{
		fmt.Sprintf(`PRAGMA application_id=%d`, applicationID),
		fmt.Sprintf(`PRAGMA user_version=%d`, SchemaVersion),
	} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return describe(path, "create", err)
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return describe(path, "create", err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, ddl); err != nil {
		return describe(path, "create", err)
	}
	put := putMetaIn(ctx, tx)
	if err := errors.Join(WriteMeta(meta, put), put(keyRun, run)); err != nil {
		return describe(path, "create", err)
	}
	for _, o := range originsOf(meta, run) {
		if _, err := tx.ExecContext(ctx, insertOrigin, o.bind()...); err != nil {
			return describe(path, "create", err)
		}
	}
	if fill != nil {
		if err := fill(ctx, tx); err != nil {
			return describe(path, "create", err)
		}
	}
	return describe(path, "create", tx.Commit())
}

// publish gives a finished file its name. A hard link refuses an existing file atomically; without links,
// check and rename are two steps.
func publish(part, path string) error {
	if err := refuseExisting(path); err != nil {
		return err
	}
	if err := removeJournals(path); err != nil {
		return fmt.Errorf("create run %q: %w", path, err)
	}
	err := os.Link(part, path)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("create run %q: %w", path, fs.ErrExist)
	default:
		if err := refuseExisting(path); err != nil {
			return err
		}
		if err := os.Rename(part, path); err != nil {
			return fmt.Errorf("create run %q: %w", path, err)
		}
	}
	// Not every file system can flush a folder; the run is in place regardless.
	_ = flush(filepath.Dir(path))
	return nil
}

// flush makes a file's content, or a folder's names, durable.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func refuseExisting(path string) error {
	if _, err := os.Lstat(path); exists(err) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("create run %q: %w", path, err)
	}
	return nil
}
