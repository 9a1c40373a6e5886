//go:build cuda

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/results"
)

// faultEnv makes this test binary sweep on the fake driver described in the environment, into the given
// folder.
const faultEnv = "GEMMAUDIT_TEST_FAULT"

// faultAgainEnv makes it continue the existing run.
const faultAgainEnv = "GEMMAUDIT_TEST_FAULT_AGAIN"

// faulted is the result of a sweep with one fault and of the sweeps that continue it.
type faulted struct {
	Code      int    // of the first sweep, including its replacement processes
	Said      string // by these
	Processes int
	Failed    []string // distinct reasons for giving up cases
	Kept      int      // samples of the sweep that were stored
	Again     int      // exit code of the sweep that continued
	SaidAgain string
	Wrong     string // final differences from the plan
}

const (
	faultCases  = 3
	faultRounds = 3
)

// sweepWithFault sweeps, continues, and reports the result. A replacement process is another app here,
// because a fault occurs once per process.
func sweepWithFault(dir string) faulted {
	var out faulted
	path := filepath.Join(dir, "run.db")
	limit := time.Minute
	if strings.HasSuffix(os.Getenv("FAKE_CUDA_FAIL"), fmt.Sprintf(":%d", hangs)) {
		limit = 2 * time.Second
	}
	start := func(args ...string) (code, processes int, said string) {
		var stdout, stderr bytes.Buffer
		replacement := ""
		for {
			env := func(name string) (string, bool) {
				if name == continuationEnv && replacement != "" {
					return strings.TrimPrefix(replacement, continuationEnv+"="), true
				}
				return os.LookupEnv(name)
			}
			a := newApp(strings.NewReader(""), &stdout, &stderr, env,
				func() []kernels.Provider { return []kernels.Provider{cuda.Provider{}} })
			var mu sync.Mutex
			now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
			a.now = func() time.Time { // makes the number of blocks independent of the machine
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(20 * time.Millisecond)
				return now
			}
			a.patience = limit
			next := ""
			a.replace = func(variable string) error {
				next = variable
				return nil
			}
			processes++
			code = a.main(append([]string{"sweep", "--device", "cuda:0", "--case-timeout", limit.String(), "--out", path}, args...))
			if replacement = next; next == "" {
				return code, processes, stderr.String()
			}
		}
	}
	plan := []string{"--shape", "n64k64", "--batch", "1:3", "--dtype", "fp16", "--kernel", "auto", "--regime", "hot", "--rounds", "3",
		"--block", "1ms"}
	if os.Getenv(faultAgainEnv) == "" {
		out.Code, out.Processes, out.Said = start(plan...)
	}
	before := map[string]bool{}
	if _, err := os.Stat(path); err == nil {
		run, err := results.Open(path)
		if err != nil {
			out.Wrong = err.Error()
			return out
		}
		series, err := run.Series()
		if err != nil {
			out.Wrong = err.Error()
		}
		for _, s := range series {
			for _, r := range s.Rows {
				for _, sample := range r.Samples {
					before[fmt.Sprintf("%+v", sample)] = true
				}
			}
		}
		failures, err := run.Failures()
		if err != nil {
			out.Wrong = err.Error()
		}
		for _, f := range failures {
			out.Failed = append(out.Failed, f.Reason)
		}
		run.Close()
		plan = []string{"--resume", "--retry-faults"}
	}
	out.Kept = len(before)
	out.Again, _, out.SaidAgain = start(plan...)
	run, err := results.Open(path)
	if err != nil {
		out.Wrong = err.Error()
		return out
	}
	defer run.Close()
	samples, err := run.Samples(results.PhaseSweep)
	failures, failing := run.Failures()
	if err := errors.Join(err, failing); err != nil {
		out.Wrong = err.Error()
		return out
	}
	rounds := map[int64][]int{}
	for _, s := range samples {
		rounds[s.CaseID] = append(rounds[s.CaseID], s.Round)
		delete(before, fmt.Sprintf("%+v", s))
	}
	for id, of := range rounds {
		slices.Sort(of)
		if !slices.Equal(of, []int{0, 1, 2}) {
			out.Wrong += fmt.Sprintf("case %d has rounds %v; ", id, of)
		}
	}
	if len(rounds) != faultCases || len(failures) > 0 || len(before) > 0 {
		out.Wrong += fmt.Sprintf("%d cases with samples, %d failures, %d samples lost", len(rounds), len(failures), len(before))
	}
	return out
}

// TestDriverFaults fails each driver function in turn, in every way, during a sweep. The sweep must end or
// continue without the case and report the fault; another sweep must complete the run.
func TestDriverFaults(t *testing.T) {
	if dir := os.Getenv(faultEnv); dir != "" {
		data, err := json.Marshal(sweepWithFault(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "faulted.json"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("hundreds of sweeps")
	}
	library := fakeCUDA(t)
	sweep := func(t *testing.T, dir, fail string, env ...string) (faulted, string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run", "^TestDriverFaults$")
		cmd.Env = append(append(os.Environ(), faultEnv+"="+dir, "LD_LIBRARY_PATH="+library,
			"GEMMAUDIT_CUBLAS="+filepath.Join(dir, "none.so"),
			"TERM=dumb", "FAKE_CUDA_FAIL="+fail), env...)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", fail, err, said)
		}
		var out faulted
		data, err := os.ReadFile(filepath.Join(dir, "faulted.json"))
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			t.Error(err)
		}
		return out, string(said)
	}
	sound, trace := sweep(t, t.TempDir(), "", "FAKE_CUDA_TRACE=1")
	if sound.Code != 0 || sound.Again != 0 || sound.Wrong != "" || sound.Kept != faultCases*faultRounds {
		t.Fatalf("without a fault: %+v", sound)
	}
	trace, _, _ = strings.Cut(trace, "calls cuDevicePrimaryCtxRelease") // drop the continuing sweep, which has no cases left
	calls := map[string]int{"cuDevicePrimaryCtxRelease_v2": 1}
	for line := range strings.Lines(trace) {
		var name string
		var n int
		if _, err := fmt.Sscanf(line, "calls %s %d", &name, &n); err == nil {
			calls[name] = n
		}
	}
	if len(calls) < 25 {
		t.Fatalf("only %d functions were called", len(calls))
	}
	var trials []driverFault
	blocks := calls["cuEventSynchronize"]
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for _, way := range []int{outOfMemory, illegalAddress, memoryError, hangs} {
			trials = append(trials, driverFault{name, 1, way, false})
		}
		if n := calls[name]; n > blocks/2 && n > 20 && name != "cuMemcpyDtoDAsync_v2" {
			for _, way := range []int{outOfMemory, launchRefused, illegalAddress, memoryError, unknownError, hangs} {
				trials = append(trials, driverFault{name, n * (blocks - 4) / blocks, way, true})
			}
		}
	}
	midst := 0
	next := make(chan driverFault)
	var wait sync.WaitGroup
	for range 4 { // most wait for what hangs
		wait.Go(func() {
			for f := range next {
				dir, fail := t.TempDir(), fmt.Sprintf("%s:%d:%d", f.name, f.n, f.way)
				out, _ := sweep(t, dir, fail)
				if out.Again != 0 { // the driver's state is per process
					again, _ := sweep(t, dir, "", faultAgainEnv+"=1")
					out.Again, out.SaidAgain, out.Wrong = again.Again, again.SaidAgain, again.Wrong
				}
				if wrong := f.check(out); wrong != "" {
					t.Errorf("%s: %s\nsaid %s\nthen %s\n%+v", fail, wrong, out.Said, out.SaidAgain, out)
				}
			}
		})
	}
	for _, f := range trials {
		if f.midst {
			midst++
		}
		next <- f
	}
	close(next)
	wait.Wait()
	if midst < 5*6 {
		t.Errorf("%d faults in the midst of a sweep, expected five functions at least that fail in six ways", midst)
	}
}

// The CUDA error codes that a driver function returns.
const (
	outOfMemory    = 2
	launchRefused  = 701 // out of resources
	illegalAddress = 700 // makes the context unusable
	memoryError    = 214 // uncorrectable ECC error
	unknownError   = 999 // as from a card that fell off its bus
	hangs          = -1
)

// driverFault is the nth call of a function with its error; midst means while samples are taken.
type driverFault struct {
	name  string
	n     int
	way   int
	midst bool
}

func (f driverFault) check(out faulted) string {
	const all = faultCases * faultRounds
	told := fmt.Sprintf("fake error %d", f.way)
	if f.way == hangs {
		told = "no answer"
	}
	passes := f.way == illegalAddress || f.way == hangs
	switch {
	case out.Again != 0 || out.Wrong != "":
		return fmt.Sprintf("what was left was not measured: exit code %d, %s", out.Again, out.Wrong)
	case out.Code == exitClean && (out.Kept != all || len(out.Failed) > 0):
		return "exit code 0, and not all is measured"
	case out.Code != exitClean && out.Code != exitDevice:
		return fmt.Sprintf("exit code %d", out.Code)
	case out.Code != exitClean && !strings.Contains(out.Said, told) && f.name != "cuMemGetInfo_v2": // it then prints no such message
		return fmt.Sprintf("it does not say %q", told)
	case !f.midst:
		return ""
	case out.Code == exitClean && f.way != illegalAddress && f.way != hangs && !strings.Contains(out.Said, told):
		return "nothing is told of it"
	case passes && out.Processes < 2:
		return "nobody went on with the rest"
	case passes && !(len(out.Failed) == 1 && out.Code == exitDevice && out.Kept >= all-faultRounds && out.Kept < all || out.Kept == all):
		return "another process has not measured the rest"
	case !passes && out.Processes > 1:
		return "another process went on"
	case (f.way == memoryError || f.way == unknownError) && (len(out.Failed) > 0 || out.Code != exitDevice):
		return "the loss of the card is held against a case"
	case (passes || f.way == memoryError || f.way == unknownError) && !strings.Contains(out.Said, "on the device"):
		return "no case is named"
	}
	return ""
}

// fakeCUDA builds the fake driver and returns its folder.
func fakeCUDA(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler here to build a fake driver with")
	}
	dir, sources := t.TempDir(), filepath.Join("..", "..", "kernels", "cuda")
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", filepath.Join(dir, "libcuda.so.1"),
		"-I"+filepath.Join(sources, "driver", "include"),
		filepath.Join(sources, "testdata", "fake_driver.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
