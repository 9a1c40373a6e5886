package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The states of a run, stored under StateStatus.
const (
	StatusRunning     = "running" // a killed sweep also leaves this state
	StatusComplete    = "complete"
	StatusInterrupted = "interrupted"
	StatusDeadline    = "deadline" // time ran out; can be resumed
)

// The keys under which a sweep stores its states with [results.Run.SetState].
const (
	StateStatus     = "status"
	StateEfficiency = "efficiency" // time inside blocks ÷ wall time of the last start, "0.953"
	StateDrift      = "drift"      // JSON, []Drift
	StateInvalid    = "invalid"    // why the run can't be judged; empty if it can
	StateWarmUp     = "warmup"     // JSON, []WarmUp
	StateRotation   = "rotation"   // JSON, []Rotation
	StateNotes      = "notes"      // JSON, []string
	StateTimes      = "times"      // JSON, Times: the time outside of kernels
	StateKnown      = "known"      // JSON, Known: see [Summary]
)

// Runner measures a plan into a run file.
type Runner struct {
	Plan    *Plan
	Devices []kernels.Device
	// Out is open for appending. Samples that it contains are not measured again.
	Out      *results.Run
	Observer Observer // nil observes nothing
	Chooser  Chooser  // nil leaves every case open
	Designer Designer // of the plan's inferred series, using the choices in Out; required if there are any
	// DriftTest returns why the sentinels' drift makes the run invalid, or "". device gives the device of
	// each case, bound is [SentinelConfig.DriftBound]. nil, or a bound of 0, disables it.
	DriftTest func(sentinels []results.Sample, device map[int64]string, bound float64) (invalid string)
	// Now is the clock for deadlines and rates; nil is time.Now.
	Now func() time.Time
	// Began is the start of the deadline's time; zero means the call of Run.
	Began time.Time
	// MemoryBudget limits the weights on each device, in bytes; 0 uses a share of free memory.
	MemoryBudget int64
	// CaseTimeout limits a block or one step of setup, extended to four times the expected time; 0 means no
	// limit. A slower call is a hang: see [FaultError].
	CaseTimeout time.Duration

	mu       sync.Mutex
	journal  *journal
	est      *Predictor
	ceilings map[string]kernels.Ceilings
	device   map[int64]string // of every case, including missing devices
	missing  []string
	start    time.Time
	planned  int
	done     int
	left     map[string]time.Duration
	known    map[string]Known // by device
	notes    []string
}

// Summary is the outcome of one start of a sweep.
type Summary struct {
	Status string
	// Samples and Failures (cases given up) count this start only.
	Samples, Failures int
	// Done of Planned samples are in the run, including earlier starts.
	Done, Planned int
	Wall          time.Duration
	// Known counts the known rows of a plan that infers rows or measures them step by step; else it is zero.
	Known Known
	// Efficiency is the time inside blocks ÷ wall time, setup included.
	Efficiency float64
	// SetUp is the wall time for weights and warm-up, before the first sample, on the slowest device.
	SetUp time.Duration
	// Times is the time spent outside of kernels.
	Times    Times
	Drift    []Drift
	WarmUp   []WarmUp
	Rotation []Rotation
	// Missing lists planned devices that were absent. Their cases stay open for a later start.
	Missing []string
	// Invalid is why the run can't be judged, or "".
	Invalid string
	Notes   []string
}

// InterruptedError reports that a sweep was asked to stop. All samples are stored.
type InterruptedError struct {
	Path          string
	Done, Planned int
	Cause         error // context.Canceled, or the caller's cause
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%s: interrupted after %d of %d samples", e.Path, e.Done, e.Planned)
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

// DeadlineError reports that the deadline is too short for one round.
type DeadlineError struct{ Deadline, Round time.Duration }

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("deadline %v is shorter than one round, which takes about %v", e.Deadline, e.Round.Round(time.Millisecond))
}

// Run measures the plan's missing samples on its devices that are present, and retries once the cases that
// failed in an earlier start. At least one device must be present; the summary names the others. If ctx ends,
// blocks that have begun are finished and stored, and the error is an [*InterruptedError]. Reaching a
// deadline is not an error.
//
// A lost device ends only its own part, and the error wraps [kernels.ErrDeviceLost]. The error is a
// [*FaultError] if the cases on the device are known or the device hangs, which also ends the other parts. A
// case that caused a fault is recorded as failed and is not retried before [ForgetFaults]. The summary is
// valid in every case.
func (r *Runner) Run(ctx context.Context) (*Summary, error) {
	if r.Observer == nil {
		r.Observer = NoObserver{}
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	r.start, r.left, r.notes, r.missing, r.done = r.Now(), map[string]time.Duration{}, nil, nil, 0
	r.known = map[string]Known{}
	if !r.Began.IsZero() {
		r.start = r.Began
	}
	parts, past, err := r.open(ctx)
	if err != nil {
		return &Summary{}, err
	}
	if err := r.Out.SetState(StateStatus, StatusRunning); err != nil {
		return &Summary{}, err
	}
	if !allStart(parts) {
		defer holdCollector()()
	}

	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, p := range parts {
		wait.Go(func() {
			err := p.rig.dog.guard(func() error {
				err := p.run(inner)
				return errors.Join(err, p.rig.close())
			})
			if hung(err) {
				p.hung = true
				err = fmt.Errorf("%s: %w", p.rig.spec.ID, err)
			}
			if err != nil && (p.hung || !deviceLost(err)) {
				stop(err) // the run file can't be written, or the process must end
			}
			errs[i] = err
		})
	}
	wait.Wait()
	for i := range errs {
		errs[i] = r.record(errs[i], past)
	}
	return r.finish(ctx, parts, errors.Join(errs...))
}

// On asynchronous devices host work is not part of a block's time.
func allStart(parts []*part) bool {
	return !slices.ContainsFunc(parts, func(p *part) bool { return p.rig.ahead == 0 })
}

func (r *Runner) open(ctx context.Context) ([]*part, *past, error) {
	if err := r.Plan.Validate(); err != nil {
		return nil, nil, err
	}
	devices := map[string]kernels.Device{}
	var have []string
	for _, d := range r.Devices {
		devices[d.Spec().ID] = d
		have = append(have, d.Spec().ID)
	}
	r.ceilings = map[string]kernels.Ceilings{}
	for _, id := range r.Plan.Devices() {
		if devices[id] == nil {
			r.missing = append(r.missing, id)
			continue
		}
		c, known := r.Out.Meta().Ceilings[id]
		if !known {
			var err error
			if c, err = devices[id].Ceilings(ctx); err != nil {
				return nil, nil, fmt.Errorf("ceilings of %s: %w", id, err)
			}
		}
		r.ceilings[id] = c
	}
	if len(r.ceilings) == 0 {
		return nil, nil, fmt.Errorf("the plan measures on %q: this machine has %s", strings.Join(r.missing, ", "), strings.Join(have, ", "))
	}
	if status, _, err := r.Out.State(StateStatus); err != nil {
		return nil, nil, err
	} else if status == StatusComplete {
		r.missing = nil
	}
	for _, id := range r.missing {
		r.notes = append(r.notes, id+" was not there: its cases are left for a later start")
	}
	r.est = NewPredictor(r.ceilings)
	var cases []results.Case // measured from the first round on
	if !r.Plan.staged() {
		var err error
		if cases, err = r.Out.AddCases(r.Plan.Cases()); err != nil {
			return nil, nil, err
		}
	}
	var err error
	if r.journal, err = openJournal(r.Out); err != nil {
		return nil, nil, err
	}
	past, err := readPast(r.Out)
	if err != nil {
		return nil, nil, err
	}
	r.device = map[int64]string{}
	for _, c := range cases {
		r.device[c.ID] = c.Device
	}
	var choices map[results.SeriesKey]results.Choices
	if r.Plan.Infers() || r.Plan.staged() {
		if choices, err = r.Out.Choices(); err != nil {
			return nil, nil, err
		}
		all, err := r.Out.Cases() // including those that earlier starts added
		if err != nil {
			return nil, nil, err
		}
		for _, c := range all {
			r.device[c.ID] = c.Device
		}
	}
	var parts []*part
	r.planned = 0
	for _, id := range r.Plan.Devices() {
		if devices[id] == nil {
			continue
		}
		p, err := newPart(r, devices[id], past)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range cases {
			if c.Device == id {
				p.add(c, 0)
			}
		}
		if err := p.seed(choices); err != nil {
			return nil, nil, err
		}
		if len(p.stations) > 0 {
			p.recall()
			parts = append(parts, p)
		}
	}
	past.samples = nil
	for _, p := range parts {
		if err := p.prepare(); err != nil {
			return nil, nil, err
		}
	}
	return parts, past, nil
}

// past is what a run file holds from earlier starts.
type past struct {
	rounds   map[int64][]int  // of the sweep phase, measured
	samples  []results.Sample // of the sweep phase, in order
	failed   map[int64]bool   // given up; retried once more
	last     map[int64]results.Sample
	sentinel map[int64][]results.Sample
	visits   map[int64][]int // finished rounds of the sentinel phase
	faults   faults
}

func readPast(run *results.Run) (*past, error) {
	p := &past{rounds: map[int64][]int{}, failed: map[int64]bool{}, last: map[int64]results.Sample{},
		sentinel: map[int64][]results.Sample{}}
	var err error
	if p.visits, err = run.Done(results.PhaseSentinel); err != nil {
		return nil, err
	}
	if p.faults, err = readFaults(run); err != nil {
		return nil, err
	}
	failures, err := run.Failures()
	if err != nil {
		return nil, err
	}
	for _, f := range failures {
		if f.Phase == results.PhaseSweep {
			p.failed[f.CaseID] = true
		}
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		return nil, err
	}
	p.samples = samples
	for _, s := range samples {
		p.rounds[s.CaseID] = append(p.rounds[s.CaseID], s.Round)
		p.last[s.CaseID] = s
	}
	if samples, err = run.Samples(results.PhaseSentinel); err != nil {
		return nil, err
	}
	for _, s := range samples {
		p.sentinel[s.CaseID] = append(p.sentinel[s.CaseID], s)
	}
	return p, nil
}

func (r *Runner) finish(ctx context.Context, parts []*part, failure error) (*Summary, error) {
	sum := &Summary{Status: StatusComplete, Done: r.done, Planned: r.planned, Wall: r.Now().Sub(r.start)}
	var busy, wall float64
	interrupted, designed := false, false
	var known Known
	for _, p := range parts {
		if p.hung {
			continue // it is still running
		}
		sum.Samples += p.samples
		sum.Failures += p.failures
		sum.SetUp = max(sum.SetUp, p.setUp)
		busy += p.rig.busy
		wall += p.wall.Seconds()
		times := p.rig.watch.Times
		times.Other = max(0, p.wall.Seconds()-p.rig.busy-times.known())
		sum.Times.add(times)
		if p.stopped == StatusDeadline && sum.Status == StatusComplete {
			sum.Status = StatusDeadline
		}
		interrupted = interrupted || p.stopped == StatusInterrupted
		designed = designed || p.design != nil
		known.add(p.known())
		if p.warm.Blocks > 0 {
			sum.WarmUp = append(sum.WarmUp, p.warm)
		}
		sum.Rotation = append(sum.Rotation, p.rotation()...)
		for _, s := range p.sentinels {
			sum.Drift = append(sum.Drift, s.last)
		}
	}
	if wall > 0 {
		sum.Efficiency = busy / wall
	}
	if designed {
		sum.Known = known
	}
	sum.Notes = r.notes
	err := failure
	if bound := r.Plan.Sentinel.DriftBound; bound > 0 && r.DriftTest != nil {
		sentinels, readErr := r.Out.Samples(results.PhaseSentinel)
		err = errors.Join(err, readErr)
		sum.Invalid = r.DriftTest(sentinels, r.device, bound)
	}
	if interrupted && ctx.Err() != nil {
		err = errors.Join(&InterruptedError{Path: r.Out.Path(), Done: r.done, Planned: r.planned, Cause: context.Cause(ctx)}, failure)
	}
	if sum.Missing = r.missing; err != nil || len(r.missing) > 0 {
		sum.Status = StatusInterrupted
	}
	states := map[string]string{
		StateStatus: sum.Status, StateInvalid: sum.Invalid,
		StateEfficiency: strconv.FormatFloat(sum.Efficiency, 'f', 4, 64),
	}
	facts := map[string]any{StateDrift: sum.Drift, StateWarmUp: sum.WarmUp, StateRotation: sum.Rotation, StateNotes: sum.Notes,
		StateTimes: sum.Times}
	if designed {
		facts[StateKnown] = sum.Known
	}
	for key, v := range facts {
		data, jsonErr := json.Marshal(v)
		if jsonErr != nil {
			return sum, errors.Join(err, jsonErr)
		}
		states[key] = string(data)
	}
	if sum.Samples == 0 {
		// Without anything to measure, a start has no data on the sweep.
		for _, key := range []string{StateEfficiency, StateTimes, StateDrift, StateWarmUp, StateRotation} {
			delete(states, key)
		}
	}
	for key, value := range states {
		if stateErr := r.Out.SetState(key, value); stateErr != nil {
			return sum, errors.Join(err, stateErr)
		}
	}
	if sum.Invalid != "" {
		r.Observer.Message(sum.Invalid + "; only large differences can be judged")
	}
	return sum, err
}

// note records a note in the run and reports it once to the observer.
func (r *Runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
	r.Observer.Message(text)
}
