// Package draft holds files and folders in the making. A draft lies beside the
// place that it will be renamed to, so that what stands there is always whole, and
// disappears when it is closed without that.
//
// A process that is killed can't close its drafts. Each is therefore held under an
// flock, which ends with the process however that ends; whoever makes the next
// draft of the same target, or goes on with what stands there, removes those that nobody holds. On a file system
// without such locks nothing is removed.
package draft

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ending closes the names of drafts: ".run.db.1849305.part".
const ending = ".part"

// Draft is a file or a folder in the making.
type Draft struct {
	path string
	held *os.File // keeps the lock
}

// open are the drafts of this process that have not been closed.
var open = struct {
	sync.Mutex
	paths map[string]bool
}{paths: map[string]bool{}}

// RemoveAll removes all drafts of this process, which is about to end in the middle of writing them. A draft that is
// made afterwards waits for ever.
func RemoveAll() {
	open.Lock()
	for path := range open.paths {
		// Who is still writing may add a file to a folder while it is removed.
		const attempts = 3
		for range attempts {
			if os.RemoveAll(path) == nil {
				break
			}
		}
	}
}

// File makes an empty file beside target, which all may read.
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

// Folder makes an empty folder beside target, which all may read.
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

// begin makes a draft that is held by this process.
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
		// Before the lock is taken, somebody else may take the draft for abandoned.
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && isAt(f, f.Name()) {
			open.paths[f.Name()] = true
			return &Draft{path: f.Name(), held: f}, nil
		}
		f.Close()
	}
}

// Path is where the draft lies.
func (d *Draft) Path() string { return d.path }

// Close removes what was not renamed.
func (d *Draft) Close() error {
	open.Lock()
	defer open.Unlock()
	delete(open.paths, d.path)
	return errors.Join(os.RemoveAll(d.path), d.held.Close())
}

// beside is where drafts of target lie, and what their names begin with.
func beside(target string) (dir, prefix string) {
	return filepath.Dir(target), "." + filepath.Base(target) + "."
}

// RemoveAbandoned removes the drafts of target that no process holds. What can't be removed
// stays: it is in nobody's way.
func RemoveAbandoned(target string) {
	dir, prefix := beside(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // making the draft will say why
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

// isAt says whether path still names f.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
