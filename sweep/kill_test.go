package sweep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// childVariable makes the test binary sweep into the run file it names.
const childVariable = "GEMMAUDIT_TEST_SWEEP_INTO"

// chooseVariable makes it choose the rows of its later rounds by the rules.
const chooseVariable = "GEMMAUDIT_TEST_CHOOSE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		if err := sweepAsChild(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sweepAsChild starts or resumes a sweep that really takes time.
func sweepAsChild(path string) error {
	d := simulated(func(c *kerneltest.Config) { c.RealTime = 1 })
	plan := killPlan
	var chooser Chooser
	if os.Getenv(chooseVariable) != "" {
		d, plan, chooser = doubtful(1), choosingPlan, rules.OpenRows{Config: rules.Default()}
	}
	var run *results.Run
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		p, err := plan(d)
		if err != nil {
			return err
		}
		data, err := p.Encode()
		if err != nil {
			return err
		}
		if run, err = results.Create(path, results.Meta{Schema: results.SchemaVersion, Plan: data}); err != nil {
			return err
		}
	} else if run, err = results.OpenAppend(path); err != nil {
		return err
	}
	defer run.Close()
	p, err := DecodePlan(run.Meta().Plan)
	if err != nil {
		return err
	}
	fmt.Println("begun") // from here on, kills are counted
	_, err = (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Chooser: chooser}).Run(context.Background())
	return err
}

func killPlan(d kernels.Device) (*Plan, error) {
	return hurriedPlan(d, "1:100", Options{Targets: []Target{{N: 256, K: 128}}, BlockTarget: time.Millisecond})
}

// hurriedPlan has fifteen rounds, and sentinels that settle and recur in milliseconds.
func hurriedPlan(d kernels.Device, batches string, o Options) (*Plan, error) {
	grid, err := ParseBatches(batches)
	if err != nil {
		return nil, err
	}
	s := DefaultSentinel()
	s.Every, s.SettleWindow, s.SettleWindows, s.SettleCap = 20*time.Millisecond, time.Millisecond, 2, 5*time.Millisecond
	o.Batches, o.DTypes, o.Rounds, o.Seed, o.Sentinel = grid, []kernels.DType{kernels.FP32}, 15, 9, s
	return NewPlan([]kernels.Device{d}, o, nil)
}

// TestKilledSweepLosesNothing kills a sweep at 50 random moments of its life, each
// time resumes it, and wants exactly the planned samples in the end.
func TestKilledSweepLosesNothing(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 5
	}
	path := filepath.Join(t.TempDir(), "run.db")
	rng := rand.New(rand.NewPCG(3, 14))
	grew, before := 0, 0
	latest := 80 * time.Millisecond
	for kill := range kills {
		// Most die some blocks into the sweep, one in five while it starts or
		// while the run file comes into being.
		after, start := time.Duration(rng.Int64N(int64(latest))), kill%5 == 0
		if start {
			after /= 3
		}
		if startAndKill(t, path, after, start) {
			t.Fatalf("the sweep was complete before kill %d: it is too short for this test", kill+1)
		}
		samples := stored(t, path)
		if len(samples) < before {
			t.Fatalf("kill %d lost %d samples", kill+1, before-len(samples))
		}
		// A slow machine measures nothing in the time in which a fast one is done.
		switch added := len(samples) - before; {
		case added > 0:
			grew++
			if added > 60 {
				latest = latest * 4 / 5
			}
		case !start:
			latest = latest * 5 / 4
		}
		before = len(samples)
	}
	if grew < kills/3 {
		t.Errorf("only %d of %d starts measured anything before they were killed", grew, kills)
	}
	p, run := finished(t, path)
	samples := complete(t, p, run)
	t.Logf("%d samples; %d of %d killed starts added some, %d before the last", len(samples), grew, kills, before)
	if state(t, run, StateStatus) != StatusComplete {
		t.Errorf("status %q", state(t, run, StateStatus))
	}
}

// stored reads the samples that a killed sweep has left, none when it did not live
// to create the run file.
func stored(t *testing.T, path string) []results.Sample {
	t.Helper()
	run, err := results.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// finished starts the sweep once more, lets it end, and opens what all starts have
// measured together with its plan.
func finished(t *testing.T, path string, env ...string) (*Plan, *results.Run) {
	t.Helper()
	if !startAndKill(t, path, time.Minute, false, env...) {
		t.Fatal("the last start did not finish")
	}
	run, err := results.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	p, err := DecodePlan(run.Meta().Plan)
	if err != nil {
		t.Fatal(err)
	}
	return p, run
}

// startAndKill starts the sweep and kills it a while after the run file is open,
// or, with early, after the process was started. It is true when the sweep was
// finished by then.
func startAndKill(t *testing.T, path string, after time.Duration, early bool, env ...string) (finished bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, childVariable+"="+path)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if early {
		time.Sleep(after)
		after = 0
	} else if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("the sweep said %q and ended: %v", line, errors.Join(err, cmd.Wait()))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(after):
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		err = <-ended
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true
	case errors.As(err, &exit) && exit.ExitCode() == -1:
		return false
	}
	t.Fatalf("the sweep failed: %v", err)
	return false
}
