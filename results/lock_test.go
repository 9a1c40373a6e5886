package results

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLockFileIsRegular puts something else where the lock of a run is expected.
func TestLockFileIsRegular(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	for _, test := range []struct {
		name string
		put  func(lock string) error
	}{
		{"link", func(lock string) error { return os.Symlink(victim, lock) }},
		{"dangling link", func(lock string) error { return os.Symlink(filepath.Join(dir, "absent"), lock) }},
		{"pipe", func(lock string) error { return unix.Mkfifo(lock, 0o644) }},
		{"folder", func(lock string) error { return os.Mkdir(lock, 0o755) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			must(t, os.WriteFile(victim, []byte("untouched"), 0o644))
			run := filepath.Join(t.TempDir(), "run.db")
			r, err := Create(run, Meta{})
			must(t, err)
			must(t, r.Close())
			must(t, test.put(lockPath(run)))
			done := make(chan struct{})
			go func() {
				defer close(done)
				if r, err := OpenAppend(run); err == nil {
					t.Error("the run was opened for writing")
					r.Close()
				}
				r, err := Open(run)
				if err != nil {
					t.Errorf("open for reading: %v", err)
					return
				}
				r.Close()
			}()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatal("it waits for the other end")
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
				t.Errorf("the file behind it holds %q, %v", text, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file was made behind the link: %v", err)
			}
		})
	}
}
