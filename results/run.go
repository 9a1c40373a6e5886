package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/gemmaudit/gemmaudit/results/draft"
	sqlite3 "modernc.org/sqlite/lib"
)

// Run is one run file: an SQLite database with the cases, the samples of every
// block and what is known about the machine.
//
// A run that is open for appending is in write-ahead mode: a sample is in the
// journal beside the file when [Run.Append] returns, so it survives the death of
// the process at any moment; a power cut may take the last moments with it but
// leaves the file sound. [Run.Close] folds the journal back, so that a finished
// run is one file that can be copied.
//
// The methods may be called from several goroutines; they take turns.
type Run struct {
	path string
	db   *sql.DB

	mu       sync.Mutex
	meta     Meta
	warnings []string
	closed   bool

	// Of a run that can be written to; nil when it is read-only.
	lock   *lock
	append *sql.Stmt
	failed map[failureKey]struct{}

	// scratch is the folder of the copy that is read in the run's place, or nil.
	scratch *draft.Draft
}

// failureKey is what a sample and a failure exclude each other by.
type failureKey struct {
	caseID int64
	phase  Phase
	round  int
}

// Create makes a new run and opens it for appending. It refuses a path at which
// there is a file already. The file appears whole or not at all.
func Create(path string, meta Meta) (*Run, error) {
	if err := refuseExisting(path); err != nil {
		return nil, err
	}
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	err = build(context.Background(), path, meta, nil)
	if err != nil {
		l.release()
		return nil, err
	}
	return openWriter(path, l)
}

// OpenAppend opens a run to go on with it. While it is open, every other
// OpenAppend of the run fails with a [LockedError]. The lock ends with the
// process, so a killed one blocks nobody.
func OpenAppend(path string) (*Run, error) {
	if _, err := readHeaderOnce(path); err != nil {
		return nil, err
	}
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	return openWriter(path, l)
}

// openWriter opens a run whose lock is held; the lock is released on an error.
func openWriter(path string, l *lock) (_ *Run, err error) {
	r := &Run{path: path, lock: l}
	defer func() {
		if err != nil {
			r.abandon()
		}
	}()
	h, err := readHeaderOnce(path)
	if err != nil {
		return nil, err
	}
	if err := checkSize(path, h); err != nil {
		return nil, err
	}
	r.db, err = openDB(path, "mode=rw", "busy_timeout(2000)", "foreign_keys(1)", "trusted_schema(0)",
		"journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint("+strconv.Itoa(checkpointPages)+")")
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	var mode string
	if err := r.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return nil, describe(path, "open for appending", err)
	}
	if mode != "wal" {
		// Some network file systems can't map the journal's index. The rollback
		// journal keeps the same promise at the price of a flush per sample.
		r.warnings = append(r.warnings, "the file system does not allow a write-ahead journal: appending is slower here")
		if _, err := r.db.ExecContext(ctx, `PRAGMA synchronous=FULL`); err != nil {
			return nil, describe(path, "open for appending", err)
		}
	}
	if h.odd() {
		if err := quickCheck(ctx, r.db, path); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	inUse.add(path)
	return r, nil
}

// checkpointPages is how many pages the journal may hold before an append folds
// it back: 16 MiB. Folding back flushes to disk and takes milliseconds, so it is
// kept rare, while the journal stays small beside a machine's disk.
const checkpointPages = 4096

// prepare reads what a writer needs at hand.
func (r *Run) prepare(ctx context.Context) (err error) {
	if r.meta, err = readMeta(ctx, r.db, r.path); err != nil {
		return err
	}
	if r.append, err = r.db.PrepareContext(ctx, insertSample); err != nil {
		return describe(r.path, "open for appending", err)
	}
	failures, err := r.Failures()
	if err != nil {
		return err
	}
	r.failed = make(map[failureKey]struct{}, len(failures))
	for _, f := range failures {
		r.failed[failureKey{f.CaseID, f.Phase, f.Round}] = struct{}{}
	}
	return nil
}

// openDB opens the database with one connection. The pragmas are repeated if
// that connection has to be made anew.
func openDB(path, mode string, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open run %q: %w", path, err)
	}
	q := url.Values{"_pragma": pragmas}
	u := url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: mode + "&" + q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, describe(path, "open", err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	if err := db.Ping(); err != nil {
		db.Close()
		return nil, describe(path, "open", err)
	}
	return db, nil
}

// Path is the file of the run, as it was given.
func (r *Run) Path() string { return r.path }

// Meta is what is known about the run as a whole.
func (r *Run) Meta() Meta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meta
}

// Warnings are things about the file or the data in it that a reader must know:
// that the run was not closed, that an import ignored columns. There are none
// for a sound and finished run.
func (r *Run) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
}

// SetMeta replaces what is known about the run as a whole.
func (r *Run) SetMeta(meta Meta) error {
	return r.write("set meta", func(ctx context.Context, tx *sql.Tx) error {
		if err := writeMeta(ctx, tx, meta); err != nil {
			return err
		}
		meta.Schema = SchemaVersion
		meta.Created = meta.Created.UTC().Round(0)
		r.mu.Lock()
		r.meta = meta
		r.mu.Unlock()
		return nil
	})
}

// SetReferenceClock stores the clock at which times of a device are judged, in MHz.
func (r *Run) SetReferenceClock(device string, mhz float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clocks := maps.Clone(r.meta.ReferenceClock)
	if clocks == nil {
		clocks = map[string]float64{}
	}
	clocks[device] = mhz
	r.meta.ReferenceClock = clocks
	return nil
}

// write runs one transaction.
func (r *Run) write(tried string, f func(ctx context.Context, tx *sql.Tx) error) error {
	if r.lock == nil {
		return fmt.Errorf("%s: %s: %w", r.path, tried, ErrReadOnly)
	}
	ctx := context.Background()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return describe(r.path, tried, err)
	}
	if err := f(ctx, tx); err != nil {
		tx.Rollback()
		return describe(r.path, tried, err)
	}
	return describe(r.path, tried, tx.Commit())
}

// Close ends the use of the run. A run that was open for appending becomes a
// single file again, unless another process is reading it at the moment: then
// its journal stays beside it, and nothing is lost. Closing twice is allowed.
func (r *Run) Close() error {
	r.mu.Lock()
	done := r.closed
	r.closed = true
	r.mu.Unlock()
	if done {
		return nil
	}
	var errs []error
	if r.lock != nil {
		errs = append(errs, r.fold())
	}
	inUse.remove(r.path)
	errs = append(errs, r.abandon())
	return errors.Join(errs...)
}

// fold brings the journal back into the file and leaves write-ahead mode, so
// that no file is needed beside this one.
func (r *Run) fold() error {
	r.append.Close()
	var mode string
	err := r.db.QueryRow(`PRAGMA journal_mode=DELETE`).Scan(&mode)
	if primary, _ := sqliteCode(err); primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED {
		return nil
	}
	return describe(r.path, "close", err)
}

// abandon releases what the run holds, without folding the journal.
func (r *Run) abandon() error {
	var err error
	if r.db != nil {
		err = describe(r.path, "close", r.db.Close())
	}
	if r.lock != nil {
		r.lock.release()
	}
	if r.scratch != nil {
		r.scratch.Close()
	}
	return err
}
