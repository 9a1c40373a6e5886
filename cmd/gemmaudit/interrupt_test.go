package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/cmd/gemmaudit/process"
	"github.com/gemmaudit/gemmaudit/kernels"
)

// A signal that arrives twice at once, as timeout(1) sends it, counts as one interrupt. A later one must end
// the process in any state, so the test uses another process.
func TestInterruptTwice(t *testing.T) {
	const variable = "GEMMAUDIT_TEST_INTERRUPTED"
	if how := os.Getenv(variable); how != "" {
		interruptTwice(t, how)
		return
	}
	for _, tt := range []struct {
		how    string
		before string // shell commands before it
		signal syscall.Signal
		code   int
	}{
		{how: "plain", signal: syscall.SIGTERM},
		{how: "nobody reads stderr", signal: syscall.SIGTERM},
		// A shell without job control starts background jobs like this.
		{how: "ignored", before: "trap '' INT; ", code: exitInterrupted},
	} {
		t.Run(tt.how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := exec.CommandContext(ctx, "sh", "-c", tt.before+`exec "$0" -test.run '^TestInterruptTwice$'`, os.Args[0])
			c.Env = append(os.Environ(), variable+"="+tt.how)
			out, err := c.Output()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || string(out) != "an echo is ignored\n" {
				t.Fatalf("%v\n%s", err, out)
			}
			status := exit.Sys().(syscall.WaitStatus)
			if tt.signal != 0 && status.Signal() != tt.signal || tt.signal == 0 && status.ExitStatus() != tt.code {
				t.Errorf("%v, expected signal %d or exit code %d", err, tt.signal, tt.code)
			}
		})
	}
}

// blocked is a stream whose writer blocks.
type blocked struct{}

func (blocked) Write([]byte) (int, error) { select {} }

func interruptTwice(t *testing.T, how string) {
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}, os.LookupEnv, nil)
	later := make(chan time.Time)
	a.after = func(d time.Duration) <-chan time.Time {
		switch d {
		case process.Echo:
			return later
		case process.Grace:
			return nil
		}
		t.Errorf("waits for %v", d)
		return nil
	}
	if how == "nobody reads stderr" {
		a.stderr = blocked{}
	}
	ctx, release := a.interrupts().Context(t.Context())
	defer release()
	sent := syscall.SIGTERM
	if how == "ignored" {
		sent = syscall.SIGINT
	}
	interrupt := func() {
		if err := syscall.Kill(os.Getpid(), sent); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	if how != "nobody reads stderr" {
		<-ctx.Done()
	}
	// A thread of the process takes a signal before the sending call returns.
	interrupt()
	os.Stdout.WriteString("an echo is ignored\n")
	later <- time.Time{}
	<-ctx.Done()
	// Wait until signals are not blocked. A process flooded with signals while dying of one runs out of
	// signal stack.
	for range 1000 {
		interrupt()
		time.Sleep(5 * time.Millisecond)
	}
}

// An interrupted search must not write a table: it would be incomplete but look complete.
func TestInterruptedSplitsWriteNoTable(t *testing.T) {
	sim := newSimulation()
	path, tab := filepath.Join(t.TempDir(), "run.db"), filepath.Join(t.TempDir(), "table.json")
	var out, stderr bytes.Buffer
	a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider { return []kernels.Provider{sim} })
	a.now = sim.device.Now
	if code := a.main([]string{"sweep", "-q", "--shape", "n256k256", "--batch", "32:160:32", "--dtype", "fp32", "--kernel", "flat",
		"--rounds", "5", "--out", path}); code != exitClean {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, interrupted := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		if interrupted {
			cancel()
		}
		cmd := newSplitsCommand(a)
		cmd.SetArgs([]string{path, "--execute=false", "--allow-empty", "--table", tab})
		err := cmd.ExecuteContext(ctx)
		cancel()
		_, missing := os.Stat(tab)
		if interrupted != (exitCode(err) == exitInterrupted) || interrupted != os.IsNotExist(missing) {
			t.Errorf("interrupted %v: error %v, table: %v", interrupted, err, missing)
		}
	}
}

// An interrupted confirmation must be reported and keep the earlier verdict.
func TestInterruptedAuditKeepsTheVerdict(t *testing.T) {
	sim := newSimulation()
	path := filepath.Join(t.TempDir(), "run.db")
	var out, stderr bytes.Buffer
	a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider { return []kernels.Provider{sim} })
	a.now = sim.device.Now
	if code := a.main([]string{"sweep", "-q", "--shape", "n256k256", "--batch", "32:160:32", "--dtype", "fp32", "--kernel", "dented",
		"--rounds", "8", "--out", path}); code != exitClean {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, step := range []struct {
		interrupted bool
		args        []string
		want        int
	}{
		{false, []string{path, "--confirm"}, exitGate},
		{true, []string{path, "--confirm"}, exitInterrupted},
		{false, []string{path}, exitGate}, // confirmed by the first one
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if step.interrupted {
			cancel()
		}
		cmd := newAuditCommand(a)
		cmd.SetArgs(step.args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(ctx)
		cancel()
		if got := exitCode(err); got != step.want {
			t.Errorf("%v, interrupted %v: exit code %d, expected %d: %v", step.args[1:], step.interrupted, got, step.want, err)
		}
	}
}
