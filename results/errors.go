package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"
)

// FormatError says why a file can't be read as a run: it is empty, truncated,
// damaged, something else altogether, or from a newer version of the program.
type FormatError struct {
	Path   string
	Reason string
	// Hint is what the user can do about it, empty when there is nothing.
	Hint string
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Reason) }

// LockedError is the refusal to write a run that another process is writing.
type LockedError struct {
	Path string
	// PID is the process that holds the lock, 0 when it left no number.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process is writing this run", e.Path)
	}
	return fmt.Sprintf("%s: process %d is writing this run", e.Path, e.PID)
}

// FullError says that there was no room left to write to. What had been
// acknowledged before stays in the run, which remains readable.
type FullError struct {
	Path string
	Err  error
}

func (e *FullError) Error() string { return fmt.Sprintf("%s: disk full: %v", e.Path, e.Err) }

// Unwrap returns the error of the database.
func (e *FullError) Unwrap() error { return e.Err }

// ErrDuplicate is wrapped by the errors of [Run.Append] and [Run.Fail] when the
// case already has a sample or a failure in that phase and round.
var ErrDuplicate = errors.New("already recorded")

// ErrReadOnly is wrapped by the errors of writes to a run from [Open].
var ErrReadOnly = errors.New("run is open for reading only")

// sqliteCode returns the primary and the extended result code of an error of
// the database, zeros for any other error.
func sqliteCode(err error) (primary, extended int) {
	var e interface {
		error
		Code() int
	}
	if errors.As(err, &e) {
		return e.Code() & 0xff, e.Code()
	}
	return 0, 0
}

// describe turns an error of the database into one of this package's: a
// damaged file becomes a [FormatError], a full disk a [FullError], and the rest
// is wrapped with the file and what was tried.
func describe(path, tried string, err error) error {
	if err == nil {
		return nil
	}
	var format *FormatError
	if errors.As(err, &format) {
		return err
	}
	primary, extended := sqliteCode(err)
	switch {
	case primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_NOTADB:
		return &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: %s: %v", tried, err), Hint: damagedHint}
	case primary == sqlite3.SQLITE_FULL, errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &FullError{Path: path, Err: fmt.Errorf("%s: %w", tried, err)}
	case (extended == sqlite3.SQLITE_IOERR_WRITE || extended == sqlite3.SQLITE_IOERR_SHMSIZE ||
		extended == sqlite3.SQLITE_IOERR_FSYNC || extended == sqlite3.SQLITE_IOERR_TRUNCATE) && noRoom(path):
		return &FullError{Path: path, Err: fmt.Errorf("%s: %w", tried, err)}
	}
	return fmt.Errorf("%s: %s: %w", path, tried, err)
}

// noRoom says whether a write beside path fails for lack of room: the disk is
// full, a quota is used up, or the process may not write files of that size. The
// database reports some of these as plain input/output errors, without the
// reason.
func noRoom(path string) bool {
	const step = 64 << 10 // what the journal grows by at least
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil {
		if uint64(max(size(path), size(path+"-wal")))+step > uint64(limit.Cur) {
			return true
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".room.*")
	if err == nil {
		defer f.Close()
		os.Remove(f.Name()) // at once: it takes room as well without a name
		if _, err = f.Write(make([]byte, step)); err == nil {
			err = f.Sync()
		}
	}
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// folderError words the failure to make a file beside a run. It names the folder:
// the name of the file that was tried says nothing to the user.
func folderError(run string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: can't write to folder %q: %w", run, filepath.Dir(run), err)
}

// badValue is the [FormatError] of a stored value that no version of this
// program writes.
func badValue(path, what string, value any) error {
	return &FormatError{
		Path:   path,
		Reason: fmt.Sprintf("the run is damaged: %s is %s", what, strconv.Quote(fmt.Sprint(value))),
		Hint:   damagedHint,
	}
}

// exists says whether there is anything at path.
func exists(err error) bool { return !errors.Is(err, fs.ErrNotExist) }
