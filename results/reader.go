package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results/draft"
)

// Open opens a run for reading and never changes the file.
//
// If the writer is active or was killed, there is a journal, which is read too. In a read-only folder the
// database can't do this in place; both files are then copied to a temporary folder, which Close removes.
// [Run.Warnings] reports both cases.
func Open(path string) (*Run, error) {
	h, err := readHeaderOnce(path)
	if err != nil {
		return nil, err
	}
	file := resolved(path)
	if err := checkBeside(path, file); err != nil {
		return nil, err
	}
	if err := checkSize(path, file, h); err != nil {
		return nil, err
	}
	r := &Run{path: path, file: file}
	if pid, held := locked(file); held {
		r.warnings = append(r.warnings, fmt.Sprintf("process %d is still writing this run: reading its samples so far", pid))
		err = r.readOrCopy("mode=ro", h)
	} else {
		err = r.readAlone(h)
	}
	if err != nil {
		r.abandon()
		return nil, err
	}
	inUse.add(path)
	return r, nil
}

func (r *Run) readAlone(h header) error {
	mode := "mode=ro"
	switch {
	case size(r.file+"-wal") > 0 || size(r.file+"-journal") > 0:
		r.warnings = append(r.warnings,
			"the run was not closed: its writer was killed; everything that it had recorded is read from the journal")
	case h.wal:
		// Only the file itself is read, so nothing needs to be created next to it.
		mode = "mode=ro&immutable=1"
		r.warnings = append(r.warnings,
			"the run was not closed and there is no journal next to it: if it was copied without its -wal file, the last samples are "+
				"missing")
	}
	return r.readOrCopy(mode, h)
}

// readOrCopy opens the database, or a copy if reading would have to write next to it.
func (r *Run) readOrCopy(mode string, h header) error {
	err := r.read(r.file, mode, h)
	if err == nil || !needsCopy(err) {
		return err
	}
	if err := r.copyAside(); err != nil {
		return err
	}
	r.warnings = append(r.warnings, "the folder of the run can't be written to: a copy of the run and its journal is read")
	return r.read(filepath.Join(r.scratch.Path(), filepath.Base(r.path)), "mode=rw", h)
}

// checkSound refuses a damaged run before anything is written to it. The caller holds the run's lock.
func checkSound(path, file string, h header) (err error) {
	r := &Run{path: path, file: file}
	defer func() { err = errors.Join(err, r.abandon()) }()
	if err := r.readAlone(h); err != nil {
		return err
	}
	if r.schema < SchemaVersion {
		_, _, err = r.movable()
	}
	return err
}

func (r *Run) read(file, mode string, h header) error {
	db, err := openDB(file, mode, "busy_timeout(2000)", "trusted_schema(0)", "query_only(1)", "cache_size(-65536)")
	if err != nil {
		return err
	}
	ctx := context.Background()
	r.file, r.mode = file, mode
	r.schema, err = readSchema(ctx, db, r.path)
	if err == nil && h.odd() {
		err = quickCheck(ctx, db, r.path)
	}
	if err == nil {
		r.meta, r.runID, err = r.readMeta()
	}
	if err != nil {
		db.Close()
		return err
	}
	r.db = db
	return nil
}

// readSchema returns the version, which a journal may have raised above the file header's, and refuses a file
// with other tables than that version's. It runs before any other access.
func readSchema(ctx context.Context, db *sql.DB, path string) (int, error) {
	var schema int64
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&schema); err != nil {
		return 0, describe(path, "read the schema version", err)
	}
	if err := checkSchema(path, schema); err != nil {
		return 0, err
	}
	return int(schema), checkTables(ctx, db, path, int(schema))
}

// needsCopy reports whether the database would have to write next to the run in order to read it.
func needsCopy(err error) bool {
	primary, _ := sqliteCode(err)
	return primary == sqlite3.SQLITE_CANTOPEN || primary == sqlite3.SQLITE_READONLY
}

// resolved follows links to the run, because the database's other files are there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// checkBeside refuses a run if a journal's path is not a regular file. The database would follow a link and
// write there, or wait for a pipe.
func checkBeside(path, file string) error {
	for _, suffix := range journals {
		info, err := os.Lstat(file + suffix)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("open run %q: %w", path, &regular.Error{Path: file + suffix, Mode: info.Mode().Type()})
		}
	}
	return nil
}

// journals are the suffixes of the database's files next to a run.
var journals = []string{"-wal", "-shm", "-journal"}

// checkSize refuses a file shorter than its header says. A journal may hold the rest; the database then
// checks.
func checkSize(path, file string, h header) error {
	if h.missing() == 0 || size(file+"-wal") > 0 || size(file+"-journal") > 0 {
		return nil
	}
	return &FormatError{
		Path:   path,
		Reason: fmt.Sprintf("the run is truncated: %d bytes of %d", h.size, h.pages*h.pageSize),
		Hint:   DamagedHint,
	}
}

func quickCheck(ctx context.Context, db *sql.DB, path string) error {
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return describe(path, "check", err)
	}
	if verdict != "ok" {
		return &FormatError{Path: path, Reason: "the run is damaged: " + verdict, Hint: DamagedHint}
	}
	return nil
}

// copyAside copies the run and its journals to a temporary folder. If a writer folds the journal between the
// two copies, the file's time or the journal's header changes and the copies are repeated. Added frames do no
// harm: an unfinished one fails its checksum and is ignored.
func (r *Run) copyAside() error {
	d, err := draft.Folder(filepath.Join(os.TempDir(), "gemmaudit-run"))
	if err != nil {
		return fmt.Errorf("copy run %q to the folder that TMPDIR names: %w", r.path, err)
	}
	r.scratch = d
	dir := d.Path()
	source := r.file
	const attempts = 5
	for range attempts {
		before := generation(source)
		for _, suffix := range []string{"", "-wal", "-journal"} {
			if err := copyFile(filepath.Join(dir, filepath.Base(r.path)+suffix),
				source+suffix); err != nil && (suffix == "" || exists(err)) {
				return describe(r.path, "copy", err)
			}
		}
		if generation(source) == before {
			return nil
		}
	}
	return fmt.Errorf("copy run %q: it kept changing during %d attempts", r.path, attempts)
}

func generation(file string) string {
	var s string
	if info, err := os.Stat(file); err == nil {
		s = fmt.Sprint(info.Size(), info.ModTime())
	}
	if f, err := regular.OpenBeside(file+"-wal", os.O_RDONLY, 0); err == nil {
		defer f.Close()
		b := make([]byte, 32) // the journal's header with its salt
		n, _ := io.ReadFull(f, b)
		s += string(b[:n])
	}
	return s
}

func copyFile(to, from string) error {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// size returns a file's length, 0 if missing.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// openRuns are the files that this process has open as databases. POSIX drops a process's locks on a file
// when it closes any descriptor of it, so their headers must not be read again.
type openRuns struct {
	mu    sync.Mutex
	count map[string]int
}

var inUse = &openRuns{count: map[string]int{}}

func (o *openRuns) key(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return resolved(path)
}

func (o *openRuns) add(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count[o.key(path)]++
}

func (o *openRuns) remove(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.key(path)
	if o.count[k]--; o.count[k] <= 0 {
		delete(o.count, k)
	}
}

func (o *openRuns) has(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[o.key(path)] > 0
}

// readHeaderOnce is readHeader, but skips files that this process has open as runs.
func readHeaderOnce(path string) (header, error) {
	if inUse.has(path) {
		return header{schema: SchemaVersion, pageSize: 4096}, nil
	}
	return readHeader(path)
}
