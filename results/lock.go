package results

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// lock is the exclusive right to write a run: an flock on a file next to it. The operating system releases it
// when the process ends, so a leftover file does not block. The PID in the file is only for messages. The run
// file itself is not flocked: closing a second descriptor of it would drop the database's locks.
type lock struct {
	file *os.File
}

var taken = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// RemoveLocks removes this process's lock files before an abrupt end. Taking or releasing a lock afterwards
// blocks forever.
func RemoveLocks() {
	taken.Lock()
	for path := range taken.paths {
		os.Remove(path)
	}
}

func lockPath(run string) string { return run + ".lock" }

// acquire takes a run's lock or returns a [LockedError] at once.
func acquire(run string) (*lock, error) {
	path := lockPath(resolved(run))
	for {
		f, err := regular.OpenBeside(path, os.O_RDWR|os.O_CREATE, 0o644)
		var refused *regular.Error
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
		// The previous holder removes the file when done; a lock on a removed file is useless.
		if !sameFile(f, path) {
			f.Close()
			continue
		}
		if err := writePID(f); err != nil {
			os.Remove(path)
			f.Close()
			return nil, describe(run, "write lock file", err)
		}
		taken.Lock()
		taken.paths[path] = true
		taken.Unlock()
		return &lock{file: f}, nil
	}
}

func locked(run string) (pid int, held bool) {
	f, err := regular.OpenBeside(lockPath(resolved(run)), os.O_RDONLY, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return readPID(f), true
	}
	return 0, false
}

func (l *lock) release() {
	taken.Lock()
	defer taken.Unlock()
	delete(taken.paths, l.file.Name())
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
