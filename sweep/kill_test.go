package sweep

import (
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
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
)

const childVariable = "GEMMAUDIT_TEST_SWEEP_INTO"

const chooseVariable = "GEMMAUDIT_TEST_CHOOSE"

const deathVariable = "GEMMAUDIT_TEST_DEATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		if text := os.Getenv(deathVariable); text != "" {
			d := parseDeath(text)
			if d.Samples == 0 {
				d.comes()
			}
		}
		if err := sweepAsChild(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// death is when a child process is killed. It depends on the child's progress, so slow machines test the same
// as fast ones.
type death struct {
	// Samples is the number stored by this start, in the rounds from Round on; 0 is the start of the process.
	Samples, Round int
	// After delays the kill while the sweep continues, to hit any point of a block and its storage.
	After time.Duration
}

// overrun limits the samples after death, while the process waits for a processor to kill itself.
const overrun = 20

func (d death) String() string { return fmt.Sprintf("%d %d %d", d.Samples, d.Round, d.After) }

func parseDeath(text string) (d death) {
	if _, err := fmt.Sscan(text, &d.Samples, &d.Round, &d.After); err != nil {
		panic(err)
	}
	return d
}

func (d death) comes() {
	kill := func() {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
	if d.After == 0 {
		kill()
	}
	time.AfterFunc(d.After, kill)
}

type mortal struct {
	NoObserver
	d      death
	stored int
}

func (m *mortal) Sample(_ results.Case, s results.Sample) {
	if m.d.Samples == 0 || s.Phase != results.PhaseSweep || s.Round < m.d.Round {
		return
	}
	switch m.stored++; m.stored {
	case m.d.Samples:
		m.d.comes()
	case m.d.Samples + overrun:
		select {}
	}
}

func sweepAsChild(path string) error {
	d := declared(nil)
	plan := killPlan
	var chooser Chooser
	var designer Designer
	if os.Getenv(chooseVariable) != "" {
		d, plan, chooser = doubtful(), choosingPlan, choose.OpenRows{Config: rules.Default()}
	}
	if os.Getenv(designVariable) != "" {
		d, plan, chooser, designer = stepped(), inferring, choose.OpenRows{Config: rules.Default()}, halver{every: 32}
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
	fmt.Println("begun")
	o := &mortal{}
	if text := os.Getenv(deathVariable); text != "" {
		o.d = parseDeath(text)
	}
	_, err = (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: o, Now: d.Now, Chooser: chooser,
		Designer: designer}).Run(context.Background())
	return err
}

func killPlan(d kernels.Device) (*Plan, error) {
	return hurriedPlan(d, "1:100", Options{Targets: []Target{{N: 256, K: 128}}, BlockTarget: time.Millisecond})
}

func hurriedPlan(d kernels.Device, batches string, o Options) (*Plan, error) {
	grid, err := ParseBatches(batches)
	if err != nil {
		return nil, err
	}
	s := DefaultSentinel()
	s.Every, s.SettleWindow, s.SettleWindows, s.SettleCap = 20*time.Millisecond, time.Millisecond, 2, 5*time.Millisecond
	o.Batches, o.DTypes, o.Rounds, o.Seed, o.Sentinel = grid, []kernels.DType{kernels.FP32}, 15, 9, s
	return NewPlan(context.Background(), []kernels.Device{d}, o, nil)
}

// A sweep killed and resumed 25 times has exactly the planned samples.
func TestKilledSweepLosesNothing(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 5
	}
	path := filepath.Join(t.TempDir(), "run.db")
	rng := rand.New(rand.NewPCG(3, 14))
	unborn, before := 0, 0
	latest := time.Duration(1) // of the deaths at the start: the first dies at once
	for kill := range kills {
		// One in five dies during startup, the others some samples into the sweep.
		d := death{After: time.Duration(rng.Int64N(int64(latest)))}
		if kill%5 > 0 {
			d = death{Samples: 1 + rng.IntN(50), After: time.Duration(rng.Int64N(int64(300 * time.Microsecond)))}
		}
		begun, finished := start(t, path, deathVariable+"="+d.String())
		if finished {
			t.Fatalf("the sweep was complete before kill %d: it is too short for this test", kill+1)
		}
		samples := stored(t, path)
		if added := len(samples) - before; added < d.Samples {
			t.Fatalf("kill %d left %d samples of %d before it, and %d were added", kill+1, len(samples), before, d.Samples)
		}
		before = len(samples)
		switch {
		case d.Samples > 0:
		case begun:
			latest = latest/3*2 + 1
		default:
			unborn++
			latest = max(latest*3/2, 5*time.Millisecond)
		}
	}
	if unborn == 0 {
		t.Error("no process was killed before its run file was open")
	}
	p, run := finished(t, path)
	samples := complete(t, p, run)
	t.Logf("%d samples, %d before the last start; %d of %d were killed before the run file was open", len(samples), before, unborn, kills)
	if state(t, run, StateStatus) != StatusComplete {
		t.Errorf("status %q", state(t, run, StateStatus))
	}
}

// There are no samples if the sweep died before it created the run file.
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

func finished(t *testing.T, path string, env ...string) (*Plan, *results.Run) {
	t.Helper()
	if _, finished := start(t, path, env...); !finished {
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

// begun reports whether the child opened the run file, finished whether it ended without a kill.
func start(t *testing.T, path string, env ...string) (begun, finished bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, childVariable+"="+path)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == -1) {
		t.Fatalf("the sweep said %q and failed: %v", out, err)
	}
	return string(out) == "begun\n", err == nil
}
