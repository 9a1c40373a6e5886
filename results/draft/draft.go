// Package draft creates files and folders under a temporary name. A draft is next to its target and is
// renamed when complete, so the target is always whole; Close removes a draft that was not renamed.
//
// A killed process can't close its drafts. Each is held under an flock, which ends with the process. The next
// process that makes a draft of the target, or continues it, removes drafts without a holder. Without flock
// support on the file system nothing is removed.
package draft

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ending is the suffix of drafts: ".run.db.1849305.part".
const ending = ".part"

// Draft is an unfinished file or folder.
type Draft struct {
	path string
	held *os.File // keeps the lock
}

var open = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// RemoveAll removes all drafts of this process before an abrupt end. Making a draft afterwards blocks
// forever.
func RemoveAll() {
	open.Lock()
	for path := range open.paths {
		// A writer may add a file to a folder while it is removed.
		const attempts = 3
		for range attempts {
			if os.RemoveAll(path) == nil {
				break
			}
		}
	}
}

// File makes an empty world-readable file next to target.
func File(target string) (*Draft, error) {
	return begin(target, func(dir, pattern string) (*os.File, error) {
		f, err := os.CreateTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		if err := f.Chmod(0o644); err != nil {
			return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
		}
		return f, nil
	})
}

// Folder makes an empty world-readable folder next to target.
func Folder(target string) (*Draft, error) {
	return begin(target, func(dir, pattern string) (*os.File, error) {
		path, err := os.MkdirTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return nil, errors.Join(err, os.Remove(path))
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, errors.Join(err, os.Remove(path))
		}
		return f, nil
	})
}

func begin(target string, make func(dir, pattern string) (*os.File, error)) (*Draft, error) {
	RemoveAbandoned(target)
	dir, prefix := beside(target)
	open.Lock()
	defer open.Unlock()
	for {
		f, err := make(dir, prefix+"*"+ending)
		if err != nil {
			return nil, err
		}
		// Before the lock is taken, another process may consider the draft abandoned.
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && isAt(f, f.Name()) {
			open.paths[f.Name()] = true
			return &Draft{path: f.Name(), held: f}, nil
		}
		f.Close()
	}
}

// Path returns the draft's path.
func (d *Draft) Path() string { return d.path }

// Close removes the draft unless it was renamed.
func (d *Draft) Close() error {
	open.Lock()
	defer open.Unlock()
	delete(open.paths, d.path)
	return errors.Join(os.RemoveAll(d.path), d.held.Close())
}

func beside(target string) (dir, prefix string) {
	return filepath.Dir(target), "." + filepath.Base(target) + "."
}

// RemoveAbandoned removes target's drafts without a holder. Failures are ignored: leftovers do no harm.
func RemoveAbandoned(target string) {
	dir, prefix := beside(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // making the draft will give the reason
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), prefix)
		if ok {
			number, ok = strings.CutSuffix(number, ending)
		}
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && isAt(f, path) {
			_ = os.RemoveAll(path)
		}
		f.Close()
	}
}

// isAt reports whether path still names f.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
