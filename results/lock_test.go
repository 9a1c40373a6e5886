package results

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// leavesAlone checks that opening neither waits nor writes through a link in the folder: to the existing file
// victim or the missing absent.
func leavesAlone(t *testing.T, dir string, open func()) {
	t.Helper()
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("untouched"), 0o644))
	done := make(chan struct{})
	go func() {
		defer close(done)
		open()
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
}

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
			run := filepath.Join(t.TempDir(), "run.db")
			r, err := Create(run, Meta{})
			must(t, err)
			must(t, r.Close())
			must(t, test.put(lockPath(run)))
			leavesAlone(t, dir, func() {
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
			})
		})
	}
}

// The database would write to them, or wait for a pipe.
func TestJournalsAreRegular(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	for _, suffix := range journals {
		for name, put := range map[string]func(path string) error{
			"link":          func(path string) error { return os.Symlink(victim, path) },
			"dangling link": func(path string) error { return os.Symlink(filepath.Join(dir, "absent"), path) },
			"pipe":          func(path string) error { return unix.Mkfifo(path, 0o644) },
		} {
			t.Run(suffix+" "+name, func(t *testing.T) {
				r, _ := NewRun(t, 4)
				must(t, r.Close())
				must(t, put(r.Path()+suffix))
				leavesAlone(t, dir, func() {
					for name, open := range map[string]func(string) (*Run, error){"Open": Open, "OpenAppend": OpenAppend} {
						opened, err := open(r.Path())
						if err == nil {
							opened.Close()
						}
						var refused *regular.Error
						if !errors.As(err, &refused) || refused.Path != r.Path()+suffix {
							t.Errorf("%s: %v, expected the refusal of %s", name, err, suffix)
						}
					}
				})
			})
		}
	}
}

// Journal and lock must be next to the linked file.
func TestLinkToARun(t *testing.T) {
	w, cases := NewRun(t, 4)
	for i := range 20 {
		must(t, w.Append(SomeSample(cases[0], PhaseSweep, i, int64(i))))
	}
	link := filepath.Join(t.TempDir(), "link.db")
	must(t, os.Symlink(w.Path(), link))
	var locked *LockedError
	if r, err := OpenAppend(link); !errors.As(err, &locked) {
		if err == nil {
			r.Close()
		}
		t.Errorf("%v, expected that the run is locked", err)
	}
	r, err := Open(link)
	must(t, err)
	defer r.Close()
	samples, err := r.Samples(PhaseSweep)
	must(t, err)
	if len(samples) != 20 || r.Path() != link {
		t.Errorf("%d samples of %s, expected 20", len(samples), r.Path())
	}
	if got := strings.Join(r.Warnings(), "\n"); !strings.Contains(got, "is still writing") {
		t.Errorf("warnings %q, expected the process that writes", got)
	}
}
