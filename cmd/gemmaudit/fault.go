package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// faultFlags control the response to a case that hangs or makes a device fail.
type faultFlags struct {
	timeout time.Duration
	retry   bool
}

const (
	// caseTimeout is a hundred times the slowest kernel's time for a preset's largest product, and short
	// enough to save most of a night.
	caseTimeout = 5 * time.Minute
	// patience limits how long devices may take to open, answer and close.
	patience = 5 * time.Minute
	// mostFaults is the maximum number of successive processes that end without a sample.
	mostFaults = 3
)

func (f *faultFlags) register(cmd *cobra.Command) {
	f.registerTimeout(cmd, "skip a case if one block, or a step of its setup, takes this long; 0 for never")
	cmd.Flags().BoolVar(&f.retry, "retry-faults", false, "retry cases that hung, or broke the device or a worker, in this run")
}

// registerTimeout adds only the time limit, for a command that queries devices without timing.
func (f *faultFlags) registerTimeout(cmd *cobra.Command, usage string) {
	cmd.Flags().DurationVar(&f.timeout, "case-timeout", caseTimeout, usage)
}

func (f *faultFlags) check() error {
	if f.timeout < 0 {
		return badFlag("case-timeout", fmt.Errorf("%v, expected a time above 0, as in 10m, or 0 for never", f.timeout))
	}
	return nil
}

// args are the flags to repeat in a command that continues a run.
func (f *faultFlags) args() []string {
	if f.timeout == caseTimeout {
		return nil
	}
	return []string{"--case-timeout", f.timeout.String()}
}

// continuation is the state passed to a process that replaces another.
type continuation struct {
	Out    string    `json:"out"`    // the run file, or the folder of the run
	Began  time.Time `json:"began"`  // start of the deadline's time
	Files  []string  `json:"files"`  // kernel libraries, including those from --kernel
	Faults int       `json:"faults"` // in succession, without a sample between them
}

const continuationEnv = "GEMMAUDIT_CONTINUES"

// readContinuation returns nil in a process that replaces no other.
func readContinuation(env func(string) (string, bool)) (*continuation, error) {
	text, ok := env(continuationEnv)
	if !ok {
		return nil, nil
	}
	c := &continuation{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, usagef("%s: invalid state %q from the previous process: %w", continuationEnv, text, err)
	}
	return c, nil
}

// takeOver returns the output of the replaced process and loads its kernels; in any other process it returns
// out.
func (a *app) takeOver(out string) string {
	if a.goesOn != nil {
		out, a.brought.files = a.goesOn.Out, a.goesOn.Files
	}
	a.out = out
	return out
}

// forgetFaults retries a run's faulty cases if requested, except in a process that replaces a process which already
// did.
func (a *app) forgetFaults(run *results.Run) error {
	if !a.faults.retry || a.goesOn != nil {
		return nil
	}
	return sweep.ForgetFaults(run)
}

// goOnAfter replaces the process by another that continues the command if a case has broken the device or hangs.
// If it returns, the process could not be replaced and the error must be reported.
func (a *app) goOnAfter(err error) error {
	var fault *sweep.FaultError
	if !errors.As(err, &fault) || !fault.Passes() {
		return err
	}
	next := continuation{Out: a.out, Began: a.began, Files: a.brought.files}
	if fault.Samples == 0 {
		next.Faults = 1
		if a.goesOn != nil {
			next.Faults += a.goesOn.Faults
		}
	}
	if next.Faults >= mostFaults {
		return fmt.Errorf("%w; %d processes in a row ended like this without a sample", err, next.Faults)
	}
	text, encoding := json.Marshal(next)
	if encoding != nil {
		return errors.Join(err, encoding)
	}
	a.warnf("%v: another process continues with the rest", fault)
	return errors.Join(err, a.replace(continuationEnv+"="+string(text)))
}

// leave closes a measurer and records the cases that it skipped.
func (a *app) leave(m *sweep.Measurer) error {
	a.skipped = append(a.skipped, m.Skipped()...)
	return m.Close()
}

// notMeasured is the error for skipped cases that made a device fail before: they have no results, however
// good the rest.
func (a *app) notMeasured(run *results.Run) error {
	if len(a.skipped) == 0 {
		return nil
	}
	return hint(devicef("%s: %s not measured again, because the device or its worker failed with %s before: %v", run.Path(),
		plural(len(a.skipped), "case was", "cases were"), map[bool]string{true: "it", false: "them"}[len(a.skipped) == 1], a.skipped[0]),
		"--retry-faults measures them again")
}

// answered calls f, which queries devices, and reports if the time runs out.
func (a *app) answered(what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(a.patience):
		return devicef("%s: no answer from the devices within %v", what, a.patience)
	}
}

// closeDevices closes the open devices, unless a hanging goroutine still uses them.
func (a *app) closeDevices(err error) error {
	var fault *sweep.FaultError
	if a.reg == nil || a.silent != nil || errors.As(err, &fault) && fault.Hung > 0 {
		return err
	}
	var closing error
	silent := a.answered("close the devices", func() { closing = a.reg.Close() })
	if silent != nil {
		return joinErrors(err, silent)
	}
	if closing != nil {
		return errors.Join(err, closing)
	}
	return err
}
