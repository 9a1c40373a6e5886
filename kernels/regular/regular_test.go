package regular_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// within fails the test if f blocks.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits")
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link, socket := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link"),
		filepath.Join(dir, "socket")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(pipe, 0o644), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, test := range []struct {
		path         string
		read, beside bool // whether it opens
	}{{file, true, true}, {link, true, false}, {pipe, false, false}, {dir, false, false}, {"/dev/zero", false, false},
		{socket, false, false}} {
		for name, open := range map[string]func(string) (*os.File, error){
			"open":   regular.Open,
			"beside": func(path string) (*os.File, error) { return regular.OpenBeside(path, os.O_RDWR|os.O_CREATE, 0o644) },
		} {
			within(t, func() {
				f, err := open(test.path)
				opens := test.read
				if name == "beside" {
					opens = test.beside
				}
				if opens {
					if err != nil {
						t.Errorf("%s %s: %v", name, test.path, err)
						return
					}
					defer f.Close()
					if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
						t.Errorf("%s %s: %q, %v", name, test.path, text, err)
					}
					return
				}
				var at *fs.PathError
				var refused *regular.Error
				if err == nil || !errors.As(err, &refused) && !(test.path == socket && errors.As(err, &at)) {
					t.Errorf("%s %s: %v, expected a refusal", name, test.path, err)
				}
			})
		}
	}
	if _, err := regular.Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// The path is a shell's <(command).
func TestOpenStream(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		io.WriteString(w, "first ")
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, "second")
		w.Close()
	}()
	within(t, func() {
		f, err := regular.Open(fmt.Sprintf("/dev/fd/%d", r.Fd()))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if text, err := io.ReadAll(f); err != nil || string(text) != "first second" {
			t.Errorf("%q, %v", text, err)
		}
	})
}
