package results

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lock is the exclusive right to write one run. It is an flock on a file beside
// the run: the operating system drops it when the process ends, however it
// ends, so a lock file that is left behind blocks nobody. The process number in
// the file is only for the message. The run file itself is not locked this way,
// because closing a second descriptor of it would drop the database's own locks.
type lock struct {
	file *os.File
}

// lockPath is where the lock of a run lies.
func lockPath(run string) string { return run + ".lock" }

// acquire takes the lock of a run, or returns a [LockedError] at once.
func acquire(run string) (*lock, error) {
	path := lockPath(run)
	for {
		f, err := openLock(path, os.O_RDWR|os.O_CREATE)
		var refused *notRegular
		if errors.As(err, &refused) {
			return nil, fmt.Errorf("lock run %q: %w", run, err)
		}
		if err != nil {
			return nil, folderError(run, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid := readPID(f)
			f.Close()
			return nil, &LockedError{Path: run, PID: pid}
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock run %q: %w", run, err)
		}
		// The holder before us removes the file when it is done; a lock on a
		// removed file excludes nobody.
		if !sameFile(f, path) {
			f.Close()
			continue
		}
		if err := writePID(f); err != nil {
			os.Remove(path)
			f.Close()
			return nil, describe(run, "write lock file", err)
		}
		return &lock{file: f}, nil
	}
}

// locked says whether another descriptor holds the lock of a run, and whose it is.
func locked(run string) (pid int, held bool) {
	f, err := openLock(lockPath(run), os.O_RDONLY)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return readPID(f), true
	}
	return 0, false
}

// notRegular says that something else lies where a regular file is expected.
type notRegular struct{ path string }

func (e *notRegular) Error() string { return fmt.Sprintf("%q is not a regular file", e.path) }

// openLock opens a lock file, which has to be a regular one: what somebody else has put in its
// place is neither followed nor waited for.
func openLock(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, &notRegular{path}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &notRegular{path}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// release removes the lock file, then drops the lock.
func (l *lock) release() {
	os.Remove(l.file.Name())
	l.file.Close()
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readPID(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
