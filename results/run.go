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

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gemmaudit/gemmaudit/results/draft"
)

// Run is a run file: an SQLite database with the cases, every block's samples and the machine's description.
//
// While open for appending it is in write-ahead mode: when [Run.Append] returns, the sample is in the journal
// and survives the death of the process. A power cut may lose the last moments but leaves the file valid.
// [Run.Close] folds the journal, so a finished run is one file that can be copied.
//
// Methods may be called concurrently; they take turns.
type Run struct {
	path   string
	file   string // the file read: path or a copy
	mode   string // parameters of the database's URI
	schema int    // the file's version
	db     *sql.DB

	// mu guards data on the whole run. It is never held while waiting for the connection, except in changes
	// of meta.
	mu       sync.Mutex
	meta     Meta
	runID    string
	warnings []string
	closed   bool

	// records guards data on rows. Its holder may wait for the connection; the connection's holder never
	// waits for it.
	records sync.Mutex
	loaded  *Loaded            // read by Load, nil before
	counted counted            // with loaded
	told    map[int64]caseNews // news on cases since loading
	swept   *Swept             // nil if not counted

	// Only for writable runs; otherwise nil.
	lock     *lock
	append   *sql.Stmt
	recorded *recorded        // nil until it is needed
	origins  map[int64]source // of the cases appended to
	here     *Fingerprint     // the appending machine, nil for the run's own

	// scratch is the folder of the copy being read, or nil.
	scratch *draft.Draft
}

// Create makes a new run and opens it for appending. It refuses an existing path. The file appears whole or
// not at all.
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

// OpenAppend opens a run to continue it. It does not change a file that it refuses. Until Close, other
// OpenAppend calls fail with a [LockedError]. The lock ends with the process.
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
		// A process killed while publishing leaves the draft's name too.
		draft.RemoveAbandoned(r.file)
	}
	return r, err
}

// openWriter opens a run with its lock held and releases the lock on an error.
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
		// Some network file systems can't map the journal's index. The rollback journal is as safe but
		// flushes once per sample.
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

// checkpointPages is the journal size, 16 MiB, at which an append folds it. Folding flushes to disk and takes
// milliseconds, so it should be rare.
const checkpointPages = 4096

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

func databaseURI(path, mode string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open run %q: %w", path, err)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: abs, RawQuery: mode}
	return u.String(), nil
}

// openDB opens the database with one connection. The pragmas repeat on a reconnect.
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

// Path returns the run's path as given.
func (r *Run) Path() string { return r.path }

// Meta returns the description of the whole run.
func (r *Run) Meta() Meta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meta
}

// ID returns the run's random id in hex. It stays the same over appending, resuming and copying. A merged or
// imported run has its own id; its [Run.Origins] have those of the measuring runs.
func (r *Run) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runID
}

// MeasuredOn sets the machine of samples appended from now on, if it may differ from the run's: a restarted
// job may get another node or card. It affects origins, not the run's own machine.
func (r *Run) MeasuredOn(f Fingerprint) {
	r.records.Lock()
	defer r.records.Unlock()
	r.here = &f
	clear(r.origins)
}

// Warnings returns problems of the file or data that readers must know: the run was not closed, an import
// ignored columns. A complete, valid run has none.
func (r *Run) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
}

// Warn adds to the run's warnings.
func (r *Run) Warn(texts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, texts...)
}

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

// Close closes the run. A run open for appending becomes a single file again. If another process is reading
// it, its journal stays and nothing is lost. A second Close is allowed.
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

// fold folds the journal into the file and leaves write-ahead mode, so no other file is needed.
func (r *Run) fold() error {
	r.append.Close()
	var mode string
	err := r.db.QueryRow(`PRAGMA journal_mode=DELETE`).Scan(&mode)
	if primary, _ := sqliteCode(err); primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED {
		return nil
	}
	return describe(r.path, "close", err)
}

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
