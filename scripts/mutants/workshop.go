package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// outcome is what became of a mutant.
type outcome string

const (
	dead    outcome = "killed"
	alive   outcome = "SURVIVES"
	unbuilt outcome = "unbuilt" // it is no program, and another one is drawn
)

// workshop builds and tests mutants.
type workshop struct {
	dir, root string
	usual     map[suite]baseline
}

// suite is the tests of a package, all or the short ones.
type suite struct {
	room  string
	short bool
}

// baseline is how a suite does as it is.
type baseline struct {
	took time.Duration
	args []string
}

func newWorkshop() (*workshop, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &workshop{dir: dir, root: root, usual: map[suite]baseline{}}, err
}

func (w *workshop) close() { os.RemoveAll(w.dir) }

// outcome builds a mutant and runs the tests of its package until the first that fails.
func (w *workshop) outcome(ctx context.Context, m mutant) (outcome, string, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", "", err
	}
	changed := slices.Concat(src[:m.start], []byte(m.with), src[m.end:])
	program := filepath.Join(w.dir, "mutant.test")
	problem, err := w.build(ctx, program, m.room, m.file, changed)
	if err != nil || problem != "" {
		return unbuilt, problem, err
	}
	for _, short := range []bool{true, false} {
		usual, err := w.baseline(ctx, m.room, short)
		if err != nil {
			return "", "", err
		}
		// A mutant that goes round in circles is noticed by whoever waits for it.
		const slower, start = 4, 20 * time.Second
		out, err := w.test(ctx, m.room, program, slower*usual.took+start, usual.args)
		if err != nil {
			return dead, firstFailure(out, err), ctx.Err()
		}
	}
	return alive, "all tests pass", nil
}

// baseline runs a suite unchanged, once.
func (w *workshop) baseline(ctx context.Context, room string, short bool) (baseline, error) {
	if b, done := w.usual[suite{room, short}]; done {
		return b, nil
	}
	b := baseline{args: []string{"-test.failfast"}}
	if short {
		b.args = append(b.args, "-test.short")
	}
	if rapid, err := usesRapid(room); err != nil {
		return b, err
	} else if rapid {
		b.args = append(b.args, "-rapid.nofailfile") // which it would write into the tree
	}
	program := filepath.Join(w.dir, "unchanged.test")
	if problem, err := w.build(ctx, program, room, "", nil); err != nil || problem != "" {
		return b, fmt.Errorf("%s: its tests can't be built: %s: %w", room, problem, err)
	}
	const most = 20 * time.Minute
	began := time.Now()
	if out, err := w.test(ctx, room, program, most, b.args); err != nil {
		return b, fmt.Errorf("the tests of %s fail without any mutant: %s", room, firstFailure(out, err))
	}
	b.took = time.Since(began)
	w.usual[suite{room, short}] = b
	return b, nil
}

func usesRapid(room string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(room, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, t := range tests {
		src, err := os.ReadFile(t)
		if err != nil {
			return false, err
		}
		if bytes.Contains(src, []byte(`"pgregory.net/rapid"`)) {
			return true, nil
		}
	}
	return false, nil
}

// build compiles a package's tests with one file changed. problem says why the change is no program.
func (w *workshop) build(ctx context.Context, program, room, file string, changed []byte) (problem string, err error) {
	args := []string{"test", "-c", "-vet=off", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", program}
	if file != "" {
		source, overlay := filepath.Join(w.dir, "source.go"), filepath.Join(w.dir, "overlay.json")
		text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(w.root, file): source}})
		if err == nil {
			err = errors.Join(os.WriteFile(source, changed, 0o644), os.WriteFile(overlay, text, 0o644))
		}
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, "./"+room)...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[min(1, len(lines)-1)], nil
	}
	return "", err
}

// mostMemory is what a mutant may hold, in bytes: more is noticed too.
const mostMemory = 6 << 30

// test runs a test program in its package's folder, for a time and in a memory that are bounded, with all processes
// that it starts.
func (w *workshop) test(ctx context.Context, room, program string, most time.Duration, args []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not done after %v", most.Round(time.Second)))
	defer cancel()
	temp, err := os.MkdirTemp(w.dir, "temp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = filepath.Join(w.root, room), append(os.Environ(), "TMPDIR="+temp)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return "", err
	}
	over, large := make(chan struct{}), make(chan error, 1)
	go func() { large <- w.tooLarge(c.Process.Pid, over, c.Cancel) }()
	err = c.Wait()
	close(over)
	if size := <-large; size != nil {
		return out.String(), size
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}

// tooLarge ends a process that takes too much memory.
func (w *workshop) tooLarge(pid int, over <-chan struct{}, end func() error) error {
	for {
		select {
		case <-over:
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil && pages*int64(os.Getpagesize()) > mostMemory {
				return errors.Join(fmt.Errorf("%d GiB of memory", mostMemory>>30), end())
			}
		}
	}
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(fatal error: .*)`)

// firstFailure names the test that failed.
func firstFailure(out string, err error) string {
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1] + m[2] + m[3]
	}
	return err.Error()
}
