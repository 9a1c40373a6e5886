package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// outcome is what became of a mutant.
type outcome string

const (
	dead  outcome = "killed"
	alive outcome = "SURVIVES"
)

// workshop builds and tests mutants.
type workshop struct {
	dir, root string
	rooms     map[string]*suite
}

// suite is a package's tests.
type suite struct {
	room string
	// program is the tests with all mutants that could be grafted.
	program string
	tests   []test
	args    []string
	stale   bool // whether mutants were drawn since the program was built
}

// test is one test of a package as it is without a mutant in force.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool
}

// trial is a mutant and the program that has it.
type trial struct {
	numbered
	program string
	// own says that the program has this mutant alone, always in force.
	own bool
}

func newWorkshop() (*workshop, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &workshop{dir: dir, root: root, rooms: map[string]*suite{}}, err
}

func (w *workshop) close() { os.RemoveAll(w.dir) }

// prepare builds the first n mutants that are programs. skipped is called with each of the others and the compiler's reason.
func (w *workshop) prepare(ctx context.Context, from []mutant, n int, skipped func(m mutant, why string)) ([]trial, error) {
	var out []trial
	next := 0
	for {
		for len(out) < n && next < len(from) {
			m := from[next]
			next++
			out = append(out, trial{numbered: numbered{m, next}})
			if w.rooms[m.room] == nil {
				w.rooms[m.room] = &suite{room: m.room, program: w.path(m.room)}
			}
			w.rooms[m.room].stale = true
		}
		before := len(out)
		for _, room := range slices.Sorted(maps.Keys(w.rooms)) {
			if w.rooms[room].stale {
				why, err := w.graftAll(ctx, w.rooms[room], out)
				if err != nil {
					return nil, err
				}
				out = slices.DeleteFunc(out, func(t trial) bool {
					if why[t.number] != "" {
						skipped(t.mutant, why[t.number])
					}
					return why[t.number] != ""
				})
			}
		}
		if len(out) == before || len(out) == 0 {
			return out, nil
		}
	}
}

// path is where the tests of a package, or of a part of its name, are compiled to.
func (w *workshop) path(name string) string {
	return filepath.Join(w.dir, strings.ReplaceAll(name, "/", "_")+".test")
}

var inMutant = regexp.MustCompile(`(?m)mutant(\d+)\.go:\d+(?::\d+)?: (.*)$`)

// graftAll builds the tests of a package with all of its mutants, and those that can't be grafted one by one. unbuilt has the
// compiler's reason for the mutants that are no programs.
func (w *workshop) graftAll(ctx context.Context, s *suite, trials []trial) (unbuilt map[int]string, err error) {
	s.stale = false
	byFile := map[string][]numbered{}
	place := map[int]int{}
	for i, t := range trials {
		if t.room == s.room {
			byFile[t.file] = append(byFile[t.file], t.numbered)
			place[t.number] = i
		}
	}
	unbuilt = map[int]string{}
	for {
		files := map[string][]byte{}
		name := ""
		for file, own := range byFile {
			own = slices.DeleteFunc(slices.Clone(own), func(m numbered) bool { return unbuilt[m.number] != "" })
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name = string(packageClause.FindSubmatch(src)[1])
			grafted, ungrafted, err := graft(file, src, own)
			if err != nil {
				return nil, err
			}
			files[file] = grafted
			for _, m := range ungrafted {
				t := &trials[place[m.number]]
				if t.own {
					continue
				}
				t.own, t.program = true, w.path(fmt.Sprint(m.number))
				changed := slices.Concat(src[:m.start], []byte(m.with), src[m.end:])
				problem, err := w.build(ctx, t.program, s.room, map[string][]byte{file: changed})
				if err != nil {
					return nil, err
				}
				if problem != "" {
					lines := strings.Split(strings.TrimSpace(problem), "\n")
					unbuilt[m.number] = lines[min(1, len(lines)-1)]
				}
			}
		}
		files[path.Join(s.room, "mutant_in_force.go")] = chooser(name)
		problem, err := w.build(ctx, s.program, s.room, files)
		if err != nil {
			return nil, err
		}
		if problem == "" {
			break
		}
		found := inMutant.FindAllStringSubmatch(problem, -1)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: its tests can't be built with mutants: %s", s.room, problem)
		}
		for _, f := range found {
			if n, err := strconv.Atoi(f[1]); err == nil {
				unbuilt[n] = f[2]
			}
		}
	}
	for _, i := range place {
		if !trials[i].own {
			trials[i].program = s.program
		}
	}
	return unbuilt, nil
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

// measure runs each test of a package alone, as it is, and notes how long it takes and which mutants it reaches. Of all tests
// those that match count, where that is not empty; short is the flag that all of them get.
func (w *workshop) measure(ctx context.Context, s *suite, match string, short bool, jobs int) error {
	if rapid, err := usesRapid(s.room); err != nil {
		return err
	} else if rapid {
		s.args = []string{"-rapid.nofailfile"} // which it would write into the tree
	}
	if short {
		s.args = append(s.args, "-test.short")
	}
	list, err := exec.CommandContext(ctx, s.program, "-test.list", "^(Test|Example|Fuzz)").Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", s.room, err)
	}
	counts, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if name != "TestMain" && counts.MatchString(name) {
			s.tests = append(s.tests, test{name: name, reaches: map[int]bool{}})
		}
	}
	err = inParallel(jobs, len(s.tests), func(i int) error {
		t := &s.tests[i]
		file := w.path(path.Join("reached", s.room, t.name))
		const most = 10 * time.Minute
		for again := range 2 { // a test that needs time to itself may have had none
			began := time.Now()
			out, err := w.test(ctx, s.room, s.program, most, s.arguments(*t), reachedVariable+"="+file)
			t.took = time.Since(began)
			if err == nil {
				break
			}
			if again > 0 || ctx.Err() != nil {
				return fmt.Errorf("the tests of %s fail without any mutant: %s", s.room, firstFailure(out, err))
			}
		}
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, line := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(line)
			if err != nil {
				return fmt.Errorf("%s of %s: the mutants that it reached: %w", t.name, s.room, err)
			}
			t.reaches[n] = true
		}
		return nil
	})
	slices.SortFunc(s.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return err
}

// arguments are those by which a test program runs some tests until the first that fails.
func (s *suite) arguments(tests ...test) []string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	return append([]string{"-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}, s.args...)
}

// outcome runs the tests of a mutant's package that reach it, the fastest first, until one fails.
func (w *workshop) outcome(ctx context.Context, t trial) (outcome, string, error) {
	s := w.rooms[t.room]
	var reach []test
	for _, one := range s.tests {
		if t.own || one.reaches[t.number] {
			reach = append(reach, one)
		}
	}
	if len(reach) == 0 {
		return alive, "no test reaches it", nil
	}
	var env []string
	if !t.own {
		env = append(env, fmt.Sprintf("%s=%d", inForceVariable, t.number))
	}
	for done, most := 0, time.Second; done < len(reach); most *= 4 {
		var took time.Duration
		from := done
		for done < len(reach) && (done == from || took+reach[done].took <= most) {
			took += reach[done].took
			done++
		}
		// A mutant that goes round in circles is noticed by whoever waits for it.
		const slower, start = 4, 20 * time.Second
		out, err := w.test(ctx, t.room, t.program, slower*took+start, s.arguments(reach[from:done]...), env...)
		if err != nil {
			return dead, firstFailure(out, err), ctx.Err()
		}
	}
	return alive, fmt.Sprintf("%d tests pass", len(reach)), nil
}

// inParallel calls f with each number below n, jobs of them at a time, and returns the first error.
func inParallel(jobs, n int, f func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range jobs {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
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

// build compiles a package's tests with other contents of some files. problem is what the compiler says where they are no program.
func (w *workshop) build(ctx context.Context, program, room string, files map[string][]byte) (problem string, err error) {
	replace := map[string]string{}
	for file, changed := range files {
		source := filepath.Join(w.dir, "source_"+strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(source, changed, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(w.root, file)] = source
	}
	overlay := filepath.Join(w.dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o644)
	}
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=all=-dwarf=false", "-ldflags=-s -w",
		"-overlay", overlay, "-o", program, "./"+room).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return string(out), nil
	}
	return "", err
}

// mostMemory is what a mutant may hold, in bytes: more is noticed too.
const mostMemory = 6 << 30

// test runs a test program in its package's folder, for a time and in a memory that are bounded, with all processes
// that it starts.
func (w *workshop) test(ctx context.Context, room, program string, most time.Duration, args []string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not done after %v", most.Round(time.Second)))
	defer cancel()
	temp, err := os.MkdirTemp(w.dir, "temp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = filepath.Join(w.root, room), append(append(os.Environ(), "TMPDIR="+temp), env...)
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
