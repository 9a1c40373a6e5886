package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// pythonRun runs the program with kernels in Python, in a folder of its own.
type pythonRun struct {
	program, python, kernels string
	dir, scratch             string // scratch is for temporary files
}

// newPythonRun returns one with a file of testdata/kernels; it skips without NumPy.
func newPythonRun(t *testing.T, file string) *pythonRun {
	t.Helper()
	python := numpyPython()
	if python == "" {
		t.Skip("no NumPy: GEMMAUDIT_TEST_PYTHON names an interpreter that has it")
	}
	program, err := exec.LookPath("gemmaudit")
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(filepath.Join("testdata", "kernels", file))
	if err != nil {
		t.Fatal(err)
	}
	return &pythonRun{program: program, python: python, kernels: path, dir: t.TempDir(), scratch: t.TempDir()}
}

// hot are the flags of a sweep with small products, whose blocks are short.
func (r *pythonRun) hot(batch string, rounds int) []string {
	return []string{"sweep", "--device", "cpu", "--kernel", r.kernels + ",naive", "--python", r.python, "--shape", "n32k32",
		"--dtype", "fp32", "--batch", batch, "--rounds", strconv.Itoa(rounds), "--rounds-for", "all", "--regime", "hot", "--block", "200us",
		"--out", "run.db"}
}

func (r *pythonRun) command(ctx context.Context, args ...string) (*exec.Cmd, *strings.Builder) {
	var out strings.Builder
	cmd := exec.CommandContext(ctx, r.program, args...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), "TERM=dumb", "TMPDIR="+r.scratch)
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// start runs the program to its end, and returns its exit code and output.
func (r *pythonRun) start(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd, text := r.command(ctx, args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v, %v\n%s", args, err, ctx.Err(), text)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// workers returns the live processes below a process that run Python.
func workers(of int, python string) (pids []int) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	for _, path := range children {
		text, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				continue
			}
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if name, _, _ := strings.Cut(string(line), "\x00"); name == python {
				pids = append(pids, pid)
			}
			pids = append(pids, workers(pid, python)...)
		}
	}
	return pids
}

// gone waits until a process has ended.
func gone(pid int) bool {
	for range 200 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // nobody may have waited for an orphan
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// outcomes are the samples and failures of a run by case.
type outcomes struct {
	cases    []results.Case
	samples  map[int64]int
	failures map[int64]string
}

// named returns the case of a kernel at an M, and what is known of it.
func (o outcomes) named(t *testing.T, kernel string, m int) (samples int, failure string) {
	t.Helper()
	for _, c := range o.cases {
		if c.Kernel == kernel && c.M == m {
			return o.samples[c.ID], o.failures[c.ID]
		}
	}
	t.Fatalf("the run has no case of %s at M %d", kernel, m)
	return 0, ""
}

// outcome reads a run and checks that it is sound.
func (r *pythonRun) outcome(t *testing.T) outcomes {
	t.Helper()
	path := filepath.Join(r.dir, "run.db")
	if err := integrity(path); err != nil {
		t.Fatal(err)
	}
	run, err := results.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	out := outcomes{samples: map[int64]int{}, failures: map[int64]string{}}
	samples, bad := run.Samples(results.PhaseSweep)
	failures, worse := run.Failures()
	if out.cases, err = run.Cases(); errors.Join(err, bad, worse) != nil {
		t.Fatal(errors.Join(err, bad, worse))
	}
	for _, s := range samples {
		out.samples[s.CaseID]++
	}
	for _, f := range failures {
		out.failures[f.CaseID] = f.Reason
	}
	return out
}

// leftovers returns an error if anything remains of what ran.
func (r *pythonRun) leftovers(shared []string) error {
	names, err := listed(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "run.db" && !unfinished(name) {
			return fmt.Errorf("%s is left in the run's folder", name)
		}
	}
	if names, err = listed(r.scratch); err != nil || len(names) > 0 {
		return fmt.Errorf("temporary files %v are left: %v", names, err)
	}
	for _, name := range sharedMemory() {
		if !slices.Contains(shared, name) && strings.Contains(name, "gemmaudit") {
			return fmt.Errorf("%s is left in /dev/shm", name)
		}
	}
	return nil
}

func sharedMemory() []string {
	names, _ := filepath.Glob("/dev/shm/*")
	return names
}

// TestEndureWorkers kills workers at random moments of a sweep, which must lose nothing but the case of each kill.
func TestEndureWorkers(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	const most, rounds = 40, 8
	seed := seedOfEndurance()
	rng := rand.New(rand.NewPCG(seed, 0))
	r := newPythonRun(t, "honest.py")
	shared := sharedMemory()
	until := deadline(time.Now())
	fresh := append(r.hot(fmt.Sprintf("1:%d:1", most), rounds), "--block", "3ms")
	again := []string{"sweep", "--device", "cpu", "--kernel-file", r.kernels, "--python", r.python, "--resume",
		"--retry-faults", "--out", "run.db"}
	args, kills, starts, cost, before := fresh, 0, 0, 0, map[int64]int{}
	for kills < *endureWorkers && time.Now().Before(until) && !t.Failed() {
		starts++
		code, hits, out := r.killing(t, rng, *endureWorkers-kills, args)
		kills += hits
		if _, err := os.Stat(filepath.Join(r.dir, "run.db")); err != nil {
			if code != exitUsage || !strings.Contains(out, "the worker ended") {
				t.Errorf("start %d: exit code %d without a run\n%s", starts, code, out)
			}
			continue // killed while the file was loaded
		}
		if args = again; code == exitUsage && strings.Contains(out, "the worker ended") {
			continue // likewise, before a resume
		}
		o := r.outcome(t)
		failed := 0
		for _, c := range o.cases {
			n, reason := o.samples[c.ID], o.failures[c.ID]
			switch {
			case n < before[c.ID]:
				t.Errorf("%v: %d of %d samples are lost", c, before[c.ID]-n, before[c.ID])
			case reason != "" && c.Kernel == "naive":
				t.Errorf("%v failed: %s", c, reason)
			case reason != "" && !strings.Contains(reason, "worker") || reason != "" && !strings.Contains(reason, "ended"):
				t.Errorf("%v: %q does not name the worker's end", c, reason)
			case reason == "" && n != rounds:
				t.Errorf("%v: %d samples, expected %d, and no failure", c, n, rounds)
			}
			before[c.ID] = n
			if reason != "" {
				failed++
			}
		}
		cost += failed
		if failed > hits {
			t.Errorf("start %d: %d kills cost %d cases\n%s", starts, hits, failed, out)
		}
		want := map[bool][]int{true: {exitDevice}, false: {exitClean, exitInconclusive}}[failed > 0]
		if !slices.Contains(want, code) {
			t.Errorf("start %d: exit code %d with %d failed cases, expected %v\n%s", starts, code, failed, want, out)
		}
		if failed == 0 && !t.Failed() { // a resume has nothing to measure
			if err := os.Remove(filepath.Join(r.dir, "run.db")); err != nil {
				t.Fatal(err)
			}
			args = fresh
			clear(before)
		}
	}
	code, out := r.start(t, args...)
	if code != exitClean && code != exitInconclusive {
		t.Errorf("undisturbed: exit code %d\n%s", code, out)
	}
	o := r.outcome(t)
	if len(o.cases) != 3*most || len(o.failures) > 0 {
		t.Errorf("%d cases, expected %d; failures %v", len(o.cases), 3*most, o.failures)
	}
	for _, c := range o.cases {
		if o.samples[c.ID] != rounds {
			t.Errorf("%v: %d samples, expected %d", c, o.samples[c.ID], rounds)
		}
	}
	if code, out := r.start(t, "audit", "run.db"); code != exitClean && code != exitInconclusive {
		t.Errorf("audit: exit code %d\n%s", code, out)
	}
	if err := r.leftovers(shared); err != nil {
		t.Error(err)
	}
	t.Logf("seed %d: %d workers were killed in %d starts, which cost %d cases their samples for the time", seed, kills, starts, cost)
	if kills == 0 {
		t.Error("no worker was killed: nothing was tested")
	}
}

// killing runs the program and kills its workers, at most so many.
func (r *pythonRun) killing(t *testing.T, rng *rand.Rand, most int, args []string) (code, kills int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd, text := r.command(ctx, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	count := make(chan int)
	go func() {
		dead, waited := map[int]bool{}, false
		for !over.Load() && len(dead) < most {
			time.Sleep(time.Duration(20+rng.IntN(400)) * time.Millisecond)
			if _, err := os.Stat(filepath.Join(r.dir, "run.db")); err != nil {
				continue // a worker that ends while its file is loaded first ends the command
			}
			if !waited { // now and then beyond the warm-up
				waited = true
				time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
			}
			for _, pid := range workers(cmd.Process.Pid, r.python) {
				if !dead[pid] && syscall.Kill(pid, syscall.SIGKILL) == nil {
					dead[pid] = true
				}
			}
		}
		count <- len(dead)
	}()
	err := cmd.Wait()
	over.Store(true)
	kills = <-count
	var exit *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v, %v\n%s", args, err, ctx.Err(), text)
	}
	return cmd.ProcessState.ExitCode(), kills, text.String()
}

// TestEndureOrphans kills the program itself: its worker must not outlive it.
func TestEndureOrphans(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "honest.py")
	rng := rand.New(rand.NewPCG(seedOfEndurance(), 1))
	for range max(2, *endureWorkers/20) {
		cmd, out := r.command(t.Context(), append(r.hot("1:40:1", 10), "--out", fmt.Sprintf("%d.db", rng.Uint64()))...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pids []int
		for range 500 {
			if pids = workers(cmd.Process.Pid, r.python); len(pids) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
		err := killTree(cmd.Process.Pid)
		cmd.Wait()
		if len(pids) == 0 || err != nil {
			t.Fatalf("workers %v, %v\n%s", pids, err, out)
		}
		for _, pid := range pids {
			if !gone(pid) {
				t.Errorf("worker %d outlives the program", pid)
			}
		}
	}
	if names, err := listed(r.scratch); err != nil || len(names) > 0 {
		t.Errorf("temporary files %v are left: %v", names, err)
	}
}

// killTree kills a program and the child that may run its command, but no worker.
func killTree(pid int) error {
	text, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range text {
		children, _ := os.ReadFile(path)
		for _, word := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				continue
			}
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if strings.Contains(string(line), "sweep\x00") {
				syscall.Kill(child, syscall.SIGKILL)
			}
		}
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
