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

// FormatError says why a file is not a readable run: empty, truncated, damaged, of another format, or from a
// newer version of the program.
type FormatError struct {
	Path   string
	Reason string
	// Hint is what the user can do; may be empty.
	Hint string
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Reason) }

// LockedError is returned for a run that another process is writing.
type LockedError struct {
	Path string
	// PID is the process that holds the lock, 0 if unknown.
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process is writing this run", e.Path)
	}
	return fmt.Sprintf("%s: process %d is writing this run", e.Path, e.PID)
}

// FullError means that there was no space left to write. Acknowledged samples stay in the run, which remains
// readable.
type FullError struct {
	Path string
	Err  error
}

func (e *FullError) Error() string { return fmt.Sprintf("%s: disk full: %v", e.Path, e.Err) }

// Unwrap returns the database's error.
func (e *FullError) Unwrap() error { return e.Err }

// ErrDuplicate is wrapped by errors of [Run.Append] and [Run.Fail] if the case already has a sample or
// failure in that phase and round.
var ErrDuplicate = errors.New("already recorded")

// ErrReadOnly is wrapped by errors of writes to a run from [Open].
var ErrReadOnly = errors.New("run is open for reading only")

// sqliteCode returns a database error's primary and extended result codes, zeros for other errors.
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

// describe converts a database error: damage becomes a [FormatError], a full disk a [FullError]; others are
// wrapped with the file and the attempted action.
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
		return &FormatError{Path: path, Reason: fmt.Sprintf("the run is damaged: %s: %v", tried, err), Hint: DamagedHint}
	case primary == sqlite3.SQLITE_FULL, errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &FullError{Path: path, Err: fmt.Errorf("%s: %w", tried, err)}
	case (extended == sqlite3.SQLITE_IOERR_WRITE || extended == sqlite3.SQLITE_IOERR_SHMSIZE ||
		extended == sqlite3.SQLITE_IOERR_FSYNC || extended == sqlite3.SQLITE_IOERR_TRUNCATE) && noRoom(path):
		return &FullError{Path: path, Err: fmt.Errorf("%s: %w", tried, err)}
	}
	return fmt.Errorf("%s: %s: %w", path, tried, err)
}

// noRoom reports whether writing next to path fails for lack of space: a full disk, a quota, or a file size
// limit. The database reports some of these as plain I/O errors.
func noRoom(path string) bool {
	const step = 64 << 10 // the journal's minimum growth
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err == nil {
		if uint64(max(size(path), size(path+"-wal")))+step > uint64(limit.Cur) {
			return true
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".room.*")
	if err == nil {
		defer f.Close()
		os.Remove(f.Name()) // a file without a name takes space as well
		if _, err = f.Write(make([]byte, step)); err == nil {
			err = f.Sync()
		}
	}
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// folderError describes the failure to create a file next to a run. It names the folder, since the temporary
// file's name means nothing to the user.
func folderError(run string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: can't write to folder %q: %w", run, filepath.Dir(run), err)
}

// BadValue is the [FormatError] of a stored value that no version writes.
func BadValue(path, what string, value any) error {
	return &FormatError{
		Path:   path,
		Reason: fmt.Sprintf("the run is damaged: %s is %s", what, strconv.Quote(fmt.Sprint(value))),
		Hint:   DamagedHint,
	}
}

func exists(err error) bool { return !errors.Is(err, fs.ErrNotExist) }
