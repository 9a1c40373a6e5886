package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	path   string
	file   string // what is read: path, or a copy of it
	mode   string // how: parameters of the database's URI
	schema int    // the version of the file
	db     *sql.DB

	// mu guards what is known of the run as a whole. It is never held while something
	// waits for the connection, but for changes of meta, which are made on it.
	mu       sync.Mutex
	meta     Meta
	runID    string
	warnings []string
	imported []Imported // of a run that was just imported
	closed   bool

	// records guards what is known of the rows; who holds it may wait for the
	// connection, and who holds the connection never waits for it.
	records sync.Mutex
	loaded  *Loaded            // what Load has read, nil before
	counted counted            // with loaded
	told    map[int64]caseNews // what became known of cases since
	swept   *Swept             // what the sweep holds, nil when it has to be counted

	// Of a run that can be written to; nil when it is read-only.
	lock     *lock
	append   *sql.Stmt
	recorded *recorded        // nil until it is needed
	origins  map[int64]source // of the cases that were appended to
	here     *Fingerprint     // of the machine that appends, nil for the run's own

	// scratch is the folder of the copy that is read in the run's place, or nil.
	scratch *draft.Draft
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

// OpenAppend opens a run to go on with it. A file that it refuses stays as it is. While it is open, every other
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
	r, err := openWriter(path, l)
	if err == nil {
		// Whoever was killed once the run had its name has left it that of the draft as well.
		draft.RemoveAbandoned(r.file)
	}
	return r, err
}

// openWriter opens a run whose lock is held; the lock is released on an error.
func openWriter(path string, l *lock) (_ *Run, err error) {
	file := resolved(path)
	r := &Run{path: path, file: file, mode: "mode=ro", lock: l, origins: map[int64]source{}}
	defer func() {
		if err != nil {
			r.abandon()
		}
	}()
	h, err := readHeaderOnce(path)
	if err != nil {
		return nil, err
	}
	if err := checkBeside(path, file); err != nil {
		return nil, err
	}
	if err := checkSize(path, file, h); err != nil {
		return nil, err
	}
	if err := checkSound(path, file, h); err != nil {
		return nil, err
	}
	if err := migrate(path); err != nil {
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
	if r.schema, err = readSchema(ctx, r.db, r.path); err != nil {
		return err
	}
	if r.meta, r.runID, err = r.readMeta(); err != nil {
		return err
	}
	r.append, err = r.db.PrepareContext(ctx, insertSample)
	return describe(r.path, "open for appending", err)
}

// databaseURI names a database and how it is opened.
func databaseURI(path, mode string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open run %q: %w", path, err)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: mode}
	return u.String(), nil
}

// openDB opens the database with one connection. The pragmas are repeated if
// that connection has to be made anew.
func openDB(path, mode string, pragmas ...string) (*sql.DB, error) {
	uri, err := databaseURI(path, mode+"&"+url.Values{"_pragma": pragmas}.Encode())
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", uri)
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

// ID is the random id of the run, in hex. It is made with the run and stays over appending, resuming and copying;
// a merged or imported run has one of its own, and its [Run.Origins] have those of the runs that measured.
func (r *Run) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runID
}

// MeasuredOn says on which machine samples are appended from here on, where that may be another than the run was begun on: a job
// that is started anew may get another node, and another card of it. Their origins tell of it; what the run says of its machine stays.
func (r *Run) MeasuredOn(f Fingerprint) {
	r.records.Lock()
	defer r.records.Unlock()
	r.here = &f
	clear(r.origins)
}

// Warnings are things about the file or the data in it that a reader must know:
// that the run was not closed, that an import ignored columns. There are none
// for a sound and finished run.
func (r *Run) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
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
	r.records.Lock()
	r.loaded, r.recorded = nil, nil
	r.records.Unlock()
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
