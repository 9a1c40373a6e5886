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
	StatusRunning     = "running" // also what a killed sweep leaves behind
	StatusComplete    = "complete"
	StatusInterrupted = "interrupted"
	StatusDeadline    = "deadline" // the time was up; can be resumed
)

// The keys under which a sweep stores its states with [results.Run.SetState].
const (
	StateStatus     = "status"
	StateEfficiency = "efficiency" // time inside blocks ÷ wall time of the last start, "0.953"
	StateDrift      = "drift"      // JSON, []Drift
	StateInvalid    = "invalid"    // why the run can't be judged; empty when it can
	StateWarmUp     = "warmup"     // JSON, []WarmUp
	StateRotation   = "rotation"   // JSON, []Rotation
	StateNotes      = "notes"      // JSON, []string
	StateTimes      = "times"      // JSON, Times: where the rest of the time went
	StateKnown      = "known"      // JSON, Known: see [Summary]
)

// Runner measures a plan into a run file.
type Runner struct {
	Plan    *Plan
	Devices []kernels.Device
	// Out is open for appending. What it holds already is not measured again.
	Out      *results.Run
	Observer Observer // nil observes nothing
	Chooser  Chooser  // nil finds every case open
	Designer Designer // of the plan's inferred series, by the choices that Out holds; needed where there are any
	// DriftTest says why the drift of the sentinels makes the run invalid, empty when it
	// doesn't; device names the device of each case, and bound is the plan's
	// [SentinelConfig.DriftBound]. nil, or a bound of 0, tests nothing.
	DriftTest func(sentinels []results.Sample, device map[int64]string, bound float64) (invalid string)
	// Now is the clock by which deadlines and rates are kept; nil is time.Now.
	Now func() time.Time
	// Began is when the time of the deadline began to run; zero is when Run is called.
	Began time.Time
	// MemoryBudget bounds the weights on each device, in bytes; 0 is a share of
	// what is free.
	MemoryBudget int64
	// CaseTimeout is how long a device may take for a block, or for one step of setting up, or four times
	// what was expected of it where that is more; 0 is for ever. What takes longer hangs: see [FaultError].
	CaseTimeout time.Duration

	mu       sync.Mutex // of what follows, and of the observer
	journal  *journal
	est      *Predictor
	ceilings map[string]kernels.Ceilings
	device   map[int64]string // of every case, those of missing devices too
	missing  []string
	start    time.Time
	planned  int
	done     int
	left     map[string]time.Duration
	known    map[string]Known // by device
	notes    []string
}

// Summary is what a start of a sweep has come to.
type Summary struct {
	Status string
	// Samples were taken by this start; Failures are cases given up in it.
	Samples, Failures int
	// Done of Planned samples are in the run, earlier starts' among them.
	Done, Planned int
	Wall          time.Duration
	// Known says what is known of the rows of a plan of which not all are measured from the first
	// round on, since they are inferred or wait for others; else it is zero.
	Known Known
	// Efficiency is the time inside blocks ÷ wall time, set-up included.
	Efficiency float64
	// SetUp is the wall time for weights and warm-up, before the first sample, of
	// the device that took longest.
	SetUp time.Duration
	// Times is where the rest of the wall time went.
	Times    Times
	Drift    []Drift
	WarmUp   []WarmUp
	Rotation []Rotation
	// Missing are devices of the plan that were not there, and without which the run
	// stays as it was left; their cases wait for a later start.
	Missing []string
	// Invalid says why the run can't be judged, empty when it can.
	Invalid string
	Notes   []string
}

// InterruptedError says that a sweep was asked to stop. All samples are stored.
type InterruptedError struct {
	Path          string
	Done, Planned int
	Cause         error // context.Canceled, or what the caller gave
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("%s: interrupted after %d of %d samples", e.Path, e.Done, e.Planned)
}

func (e *InterruptedError) Unwrap() error { return e.Cause }

// DeadlineError says that not even one round fits the deadline.
type DeadlineError struct{ Deadline, Round time.Duration }

func (e *DeadlineError) Error() string {
	return fmt.Sprintf("deadline %v is shorter than one round, which takes about %v", e.Deadline, e.Round.Round(time.Millisecond))
}

// Run measures what is missing of the plan, cases that failed in an earlier start tried
// once more, on those of its devices that are there: one at
// least, the others are named in the summary. When ctx ends, the blocks that have begun are
// finished and stored, and the error is an [*InterruptedError]. A deadline that
// is reached is no error. A lost device ends its own part only, and the error wraps
// [kernels.ErrDeviceLost]. It is a [*FaultError] where it is known what was on the device, and where
// the device hangs, which ends the other parts too. A case that has brought it about is
// recorded as failed, and is not tried again before [ForgetFaults]. The summary speaks the truth in every case.
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
		defer holdCollector()() // parts collect between blocks
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
				stop(err) // the run file can't be written, or the process must end: nobody need go on
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

// allStart says whether every device runs blocks by itself, so that nothing that the host does
// is part of their time.
func allStart(parts []*part) bool {
	return !slices.ContainsFunc(parts, func(p *part) bool { return p.rig.ahead == 0 })
}

// open finds out what is to be done, and by whom.
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
		r.missing = nil // they would have nothing to do
	}
	for _, id := range r.missing {
		r.notes = append(r.notes, id+" was not there: its cases are left for a later start")
	}
	r.est = NewPredictor(r.ceilings)
	var cases []results.Case // that are measured from the first round on
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
		all, err := r.Out.Cases() // those that earlier starts added
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
	past.samples = nil // a million of them would stay for as long as the sweep
	for _, p := range parts {
		if err := p.prepare(); err != nil {
			return nil, nil, err
		}
	}
	return parts, past, nil
}

// past is what a run file knows from earlier starts.
type past struct {
	rounds   map[int64][]int  // of the sweep phase, measured
	samples  []results.Sample // of the sweep phase, in order
	failed   map[int64]bool   // given up: they are tried once more
	last     map[int64]results.Sample
	sentinel map[int64][]results.Sample
	visits   map[int64][]int // rounds of the sentinel phase, done
	faults   faults
}

func readPast(run *results.Run) (*past, error) {
	p := &past{rounds: map[int64][]int{}, failed: map[int64]bool{}, last: map[int64]results.Sample{}, sentinel: map[int64][]results.Sample{}}
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

// finish stores the states of the run and sums up.
func (r *Runner) finish(ctx context.Context, parts []*part, failure error) (*Summary, error) {
	sum := &Summary{Status: StatusComplete, Done: r.done, Planned: r.planned, Wall: r.Now().Sub(r.start)}
	var busy, wall float64
	interrupted, designed := false, false
	var known Known
	for _, p := range parts {
		if p.hung {
			continue // whatever it was doing, it is not over
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
	facts := map[string]any{StateDrift: sum.Drift, StateWarmUp: sum.WarmUp, StateRotation: sum.Rotation, StateNotes: sum.Notes, StateTimes: sum.Times}
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
		// A start that had nothing left to measure knows nothing of how the sweep went.
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
		r.Observer.Message("the run is invalid: " + sum.Invalid)
	}
	return sum, err
}

// note records something about the run and tells the observer once.
func (r *Runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
	r.Observer.Message(text)
}
