package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/cover"
)

// outcome is the result of a mutant.
type outcome string

const (
	unbuilt outcome = "unbuilt"
	dead    outcome = "killed"
	alive   outcome = "SURVIVES"
)

// workshop builds and tests mutants.
type workshop struct {
	dir, root string
	flags     []string // of go test when building test programs
	rooms     map[string]*suite
}

// suite is a package's tests, the fastest first.
type suite struct {
	tests []test
	args  []string
}

// test is one test of a package, as measured without a mutant.
type test struct {
	name    string
	took    time.Duration
	reaches map[string][]cover.ProfileBlock // by the file's name
}

func newWorkshop(flags []string) (*workshop, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &workshop{dir: dir, root: root, flags: flags, rooms: map[string]*suite{}}, err
}

func (w *workshop) close() { os.RemoveAll(w.dir) }

// measure runs each test of a package without a mutant, and records its time and the code that it reaches. A match that
// is not empty selects tests; short adds -short.
func (w *workshop) measure(ctx context.Context, room, match string, short bool, jobs int) error {
	s := &suite{}
	w.rooms[room] = s
	if rapid, err := usesRapid(room); err != nil {
		return err
	} else if rapid {
		s.args = []string{"-rapid.nofailfile"} // rapid would write that file into the tree
	}
	if short {
		s.args = append(s.args, "-test.short")
	}
	dir, err := os.MkdirTemp(w.dir, "measured-")
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "program.test")
	if problem, err := w.build(ctx, program, room, "-cover"); err != nil || problem != "" {
		return cmp.Or(err, fmt.Errorf("%s: its tests can't be built: %s", room, problem))
	}
	list, err := exec.CommandContext(ctx, program, "-test.list", "^(Test|Example|Fuzz)").Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", room, err)
	}
	counts, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if name != "TestMain" && counts.MatchString(name) {
			s.tests = append(s.tests, test{name: name, reaches: map[string][]cover.ProfileBlock{}})
		}
	}
	err = inParallel(jobs, len(s.tests), func(i int) error {
		t := &s.tests[i]
		profile := filepath.Join(dir, t.name)
		for again := range 2 { // a test that depends on timing may fail once
			began := time.Now()
			out, err := w.test(ctx, room, program, 10*time.Minute, append(s.arguments(*t), "-test.coverprofile="+profile))
			t.took = time.Since(began)
			if err == nil {
				break
			}
			if again > 0 || ctx.Err() != nil {
				return fmt.Errorf("the tests of %s fail without any mutant: %s", room, firstFailure(out, err))
			}
		}
		profiles, err := cover.ParseProfiles(profile)
		if err != nil {
			return fmt.Errorf("%s of %s: the code that it reaches: %w", t.name, room, err)
		}
		for _, p := range profiles {
			name := filepath.Base(p.FileName)
			t.reaches[name] = slices.DeleteFunc(p.Blocks, func(b cover.ProfileBlock) bool { return b.Count == 0 })
		}
		return nil
	})
	slices.SortFunc(s.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return err
}

// reaching returns the tests that reach a mutant: for one outside of functions, all.
func (s *suite) reaching(m mutant) (out []test) {
	for _, t := range s.tests {
		at := slices.ContainsFunc(t.reaches[filepath.Base(m.file)], func(b cover.ProfileBlock) bool {
			return (b.StartLine < m.line || b.StartLine == m.line && b.StartCol <= m.col) &&
				(m.line < b.EndLine || m.line == b.EndLine && m.col < b.EndCol)
		})
		if at || m.global {
			out = append(out, t)
		}
	}
	return out
}

// arguments make a test program run some tests until the first failure.
func (s *suite) arguments(tests ...test) []string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	return append([]string{"-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}, s.args...)
}

// outcome builds a mutant and runs the tests that reach it, the fastest first, until one fails. how is the compiler's error,
// or the test that failed.
func (w *workshop) outcome(ctx context.Context, m mutant) (_ outcome, how string, err error) {
	s := w.rooms[m.room]
	dir, err := os.MkdirTemp(w.dir, "mutant-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	src, err := os.ReadFile(m.file)
	if err != nil {
		return "", "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(w.root, m.file): changed}})
	if err := errors.Join(err, os.WriteFile(changed, slices.Concat(src[:m.start], []byte(m.with), src[m.end:]), 0o644),
		os.WriteFile(overlay, text, 0o644)); err != nil {
		return "", "", err
	}
	program := filepath.Join(dir, "program.test")
	problem, err := w.build(ctx, program, m.room, "-overlay", overlay)
	if err != nil {
		return "", "", err
	}
	if problem != "" {
		lines := strings.Split(strings.TrimSpace(problem), "\n")
		return unbuilt, lines[min(1, len(lines)-1)], nil
	}
	reach := s.reaching(m)
	if len(reach) == 0 {
		return alive, "no test reaches it", nil
	}
	for done, most := 0, time.Second; done < len(reach); most *= 4 {
		var took time.Duration
		from := done
		for done < len(reach) && (done == from || took+reach[done].took <= most) {
			took += reach[done].took
			done++
		}
		// A mutant in an endless loop counts as killed.
		const slower, start = 4, 20 * time.Second
		out, err := w.test(ctx, m.room, program, slower*took+start, s.arguments(reach[from:done]...))
		if err != nil {
			return dead, firstFailure(out, err), ctx.Err()
		}
	}
	return alive, fmt.Sprintf("%d tests pass", len(reach)), nil
}

// inParallel calls f with each number below n, jobs of them at a time, and returns the first error.
func inParallel(jobs, n int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(jobs)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

func usesRapid(room string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(room, "*_test.go"))
	for _, t := range tests {
		src, failed := os.ReadFile(t)
		if err = failed; err != nil || bytes.Contains(src, []byte(`"pgregory.net/rapid"`)) {
			return err == nil, err
		}
	}
	return false, err
}

// build compiles a package's tests. problem is the compiler's error.
func (w *workshop) build(ctx context.Context, program, room string, flags ...string) (problem string, err error) {
	args := slices.Concat([]string{"test", "-c", "-vet=off"}, w.flags, flags, []string{"-o", program, "./" + room})
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return string(out), nil
	}
	return "", err
}

// mostMemory bounds a mutant's address space in KiB; a mutant that exceeds it is killed.
const mostMemory = 16 << 20

// test runs a test program in its package's folder, with bounds on time and memory that include its child processes.
func (w *workshop) test(ctx context.Context, room, program string, most time.Duration, args []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not done after %v", most.Round(time.Second)))
	defer cancel()
	temp, err := os.MkdirTemp(w.dir, "temp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	limited := []string{"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, mostMemory), program}
	c := exec.CommandContext(ctx, "sh", append(limited, args...)...)
	c.Dir, c.Env = filepath.Join(w.root, room), append(os.Environ(), "TMPDIR="+temp)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return string(out), err
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)|^(fatal error: .*)`)

// firstFailure names the test that failed.
func firstFailure(out string, err error) string {
	if m := failed.FindStringSubmatch(out); m != nil {
		return m[1] + m[2] + m[3]
	}
	return err.Error()
}
