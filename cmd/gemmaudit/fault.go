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

// faultFlags say what is done about a case that hangs, or with which a device fails.
type faultFlags struct {
	timeout time.Duration
	retry   bool
}

const (
	// caseTimeout is a hundred times what the slowest of our kernels takes for the largest product of a
	// preset, and still leaves most of a night when a case hangs.
	caseTimeout = 5 * time.Minute
	// patience is how long devices may take to be opened, asked and closed.
	patience = 5 * time.Minute
	// mostFaults is how many processes may end one after the other without a sample between them.
	mostFaults = 3
)

// register adds the flags to a command that measures into a run.
func (f *faultFlags) register(cmd *cobra.Command) {
	f.registerTimeout(cmd, "give a case up when one of its blocks takes this long, or a step of its set-up; 0 for never")
	cmd.Flags().BoolVar(&f.retry, "retry-faults", false, "measure cases again that hung or broke the device in this run before")
}

// registerTimeout adds the time limit alone, to a command that asks devices and times nothing.
func (f *faultFlags) registerTimeout(cmd *cobra.Command, usage string) {
	cmd.Flags().DurationVar(&f.timeout, "case-timeout", caseTimeout, usage)
}

// check refuses what can't be meant.
func (f *faultFlags) check() error {
	if f.timeout < 0 {
		return badFlag("case-timeout", fmt.Errorf("%v, expected a time above 0, as in 10m, or 0 for never", f.timeout))
	}
	return nil
}

// args are those that a command which continues a run takes along.
func (f *faultFlags) args() []string {
	if f.timeout == caseTimeout {
		return nil
	}
	return []string{"--case-timeout", f.timeout.String()}
}

// continuation is what a process that takes the place of another one has to know of it.
type continuation struct {
	Out    string    `json:"out"`    // the run file, or the folder of the run
	Began  time.Time `json:"began"`  // when the time of the deadline began to run
	Files  []string  `json:"files"`  // libraries with kernels, those that --kernel has named among them
	Faults int       `json:"faults"` // in a row, without a sample between them
}

// continuationEnv hands a continuation over.
const continuationEnv = "GEMMAUDIT_CONTINUES"

// readContinuation returns nil in a process that takes nobody's place.
func readContinuation(env func(string) (string, bool)) (*continuation, error) {
	text, ok := env(continuationEnv)
	if !ok {
		return nil, nil
	}
	c := &continuation{}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return nil, usagef("%s: %q is not what a process leaves to the one after it: %w", continuationEnv, text, err)
	}
	return c, nil
}

// takeOver names what the process measures into whose place this one takes, and loads the kernels that it
// had; in any other it is out.
func (a *app) takeOver(out string) string {
	if a.goesOn != nil {
		out, a.brought.files = a.goesOn.Out, a.goesOn.Files
	}
	a.out = out
	return out
}

// forgetFaults has a run's faults tried again where that is asked for, once: not by a process that
// takes the place of one that has done so.
func (a *app) forgetFaults(run *results.Run) error {
	if !a.faults.retry || a.goesOn != nil {
		return nil
	}
	return sweep.ForgetFaults(run)
}

// goOnAfter replaces the process by one that carries the same command out on what is left, where a
// case has broken the device or hangs. It returns where that can't be done, with the error to report.
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
		return fmt.Errorf("%w; %d processes in a row have ended so, with no sample between them", err, next.Faults)
	}
	text, encoding := json.Marshal(next)
	if encoding != nil {
		return errors.Join(err, encoding)
	}
	a.warnf("%v: another process continues with the rest", fault)
	return errors.Join(err, a.replace(continuationEnv+"="+string(text)))
}

// leave closes a measurer and keeps in mind what it did not measure.
func (a *app) leave(m *sweep.Measurer) error {
	a.skipped = append(a.skipped, m.Skipped()...)
	return m.Close()
}

// notMeasured is the error of a command that would have measured cases with which a device failed
// before: nothing is known of them, however good the rest is.
func (a *app) notMeasured(run *results.Run) error {
	if len(a.skipped) == 0 {
		return nil
	}
	return hint(devicef("%s: %s not measured again, since the device failed with %s before: %v", run.Path(),
		plural(len(a.skipped), "case was", "cases were"), map[bool]string{true: "it", false: "them"}[len(a.skipped) == 1], a.skipped[0]),
		"--retry-faults has them measured all the same")
}

// answered calls f, which asks the devices for something, and says what was not answered in time.
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

// closeDevices closes what was opened, unless a goroutine that hangs still holds it.
func (a *app) closeDevices(err error) error {
	var fault *sweep.FaultError
	if a.reg == nil || a.silent != nil || errors.As(err, &fault) && fault.Hung > 0 {
		return err
	}
	var closing error
	silent := a.answered("close the devices", func() { closing = a.reg.Close() })
	if silent != nil {
		return besides(err, silent)
	}
	if closing != nil {
		return errors.Join(err, closing)
	}
	return err
}
