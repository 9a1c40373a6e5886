package sweep

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// StateFaults is the run's key of the cases that made a device fail: JSON, []Fault.
const StateFaults = "faults"

// FaultError reports that a device is unusable in this process. It wraps [kernels.ErrDeviceLost]. Samples
// from before the fault are stored, later ones are not.
type FaultError struct {
	Device string
	// Cases were on the device, the earliest first. It is empty if the device failed during setup.
	Cases []results.Case
	// Hung is how long the host waited, or 0 if the device reported the error. The abandoned goroutine still
	// holds the device, which must not be closed.
	Hung time.Duration
	// Samples counts the samples stored in this start before the fault.
	Samples int
	Err     error
}

func (e *FaultError) Error() string {
	switch len(e.Cases) {
	case 0:
		return e.Err.Error()
	case 1:
		return fmt.Sprintf("%v; %v was on the device", e.Err, e.Cases[0])
	}
	return fmt.Sprintf("%v; %v was on the device, and %v behind it", e.Err, e.Cases[0], e.Cases[1])
}

func (e *FaultError) Unwrap() error { return e.Err }

// Passes reports whether a case caused the fault, so that another process can measure the rest.
func (e *FaultError) Passes() bool {
	return len(e.Cases) > 0 && errors.Is(e.Err, kernels.ErrContextLost)
}

// Fault is a stored case that made a device fail, or ended the process of its kernel.
type Fault struct {
	Case int64 `json:"case"`
	// Failed cases were alone on the device and are measured again only on request. Otherwise two cases
	// shared it, and each is measured alone.
	Failed bool   `json:"failed"`
	Reason string `json:"reason"`
}

type faults map[int64]Fault

func readFaults(run *results.Run) (faults, error) {
	out := faults{}
	if run == nil {
		return out, nil
	}
	text, ok, err := run.State(StateFaults)
	if err != nil || !ok {
		return out, err
	}
	var all []Fault
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("%s: state %q: %w", run.Path(), StateFaults, err)
	}
	for _, f := range all {
		out[f.Case] = f
	}
	return out, nil
}

func (f faults) write(run *results.Run) error {
	all := slices.SortedFunc(maps.Values(f), func(a, b Fault) int { return cmp.Compare(a.Case, b.Case) })
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return run.SetState(StateFaults, string(data))
}

// ForgetFaults clears the stored faults, so that the cases are measured again.
func ForgetFaults(run *results.Run) error {
	all, err := readFaults(run)
	if err != nil || len(all) == 0 {
		return err
	}
	for id := range all {
		if err := run.Forgive(id, results.PhaseSweep); err != nil {
			return err
		}
	}
	return faults{}.write(run)
}

// add records a fault. It returns the case if that was alone on the device.
func (f faults) add(e *FaultError) (failed []results.Case) {
	if !e.Passes() {
		return nil
	}
	for _, c := range e.Cases {
		f[c.ID] = Fault{Case: c.ID, Failed: len(e.Cases) == 1 || f[c.ID].Failed, Reason: e.Err.Error()}
	}
	if len(e.Cases) == 1 {
		return e.Cases
	}
	return nil
}

// addLost records a case that ended the process of its kernel. It would end it again at each resume, which takes
// up to the time limit of a call.
func (f faults) addLost(c results.Case, why error) (added bool) {
	if !errors.Is(why, kernels.ErrProcessLost) {
		return false
	}
	f[c.ID] = Fault{Case: c.ID, Failed: true, Reason: why.Error()}
	return true
}

func (f faults) alone() map[int64]bool {
	out := map[int64]bool{}
	for id := range f {
		out[id] = true
	}
	return out
}

// lost records the cases on the device and the next one in the first fatal error. Later calls return the same
// error.
func (b *rig) lost(err error, behind *station) error {
	if errors.Is(err, kernels.ErrProcessLost) {
		b.losses++
	}
	if !deviceLost(err) {
		return err
	}
	if b.fault == nil {
		b.fault = &FaultError{Device: b.spec.ID, Cases: b.onDevice(behind), Err: err}
	}
	return b.fault
}

func (b *rig) onDevice(behind *station) []results.Case {
	var out []results.Case
	add := func(c results.Case) {
		if !slices.ContainsFunc(out, func(o results.Case) bool { return o.Key() == c.Key() }) {
			out = append(out, c)
		}
	}
	for _, f := range b.flights {
		add(f.station.c)
	}
	if behind != nil {
		add(behind.c)
	}
	return out
}

func hung(err error) bool {
	var fault *FaultError
	return errors.As(err, &fault) && fault.Hung > 0
}

// record stores a device fault with its cases, and returns it joined with any error of storing it.
func (r *Runner) record(err error, past *past) error {
	var fault *FaultError
	if !errors.As(err, &fault) {
		return err
	}
	fault.Samples = r.journal.taken()
	for _, c := range past.faults.add(fault) {
		if failing := r.fail(c, fault.Err); failing != nil {
			return errors.Join(err, failing)
		}
	}
	if !fault.Passes() {
		return err
	}
	return errors.Join(err, past.faults.write(r.Out))
}

func (r *Runner) recordLost(c results.Case, why error, past *past) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !past.faults.addLost(c, why) {
		return nil
	}
	return past.faults.write(r.Out)
}

func (r *Runner) fail(c results.Case, why error) error {
	if err := r.Out.Forgive(c.ID, results.PhaseSweep); err != nil {
		return err
	}
	done, err := r.Out.Done(results.PhaseSweep)
	if err != nil {
		return err
	}
	round := 0
	for slices.Contains(done[c.ID], round) {
		round++
	}
	r.note("%v failed: %v", c, why)
	return r.journal.fail(results.Failure{CaseID: c.ID, Phase: results.PhaseSweep, Round: round, Reason: why.Error()})
}

func (m *Measurer) learnFaults() error {
	var err error
	if m.faults, err = readFaults(m.cfg.Out); err != nil || len(m.faults) == 0 {
		return err
	}
	cases, err := m.cfg.Out.Cases()
	if err != nil {
		return err
	}
	m.failed = map[results.CaseKey]error{}
	for _, c := range cases {
		if f := m.faults[c.ID]; f.Failed {
			m.failed[c.Key()] = &caseError{errors.New(f.Reason)}
		}
	}
	return nil
}

func (m *Measurer) record(err error, requests []results.Request) error {
	var fault *FaultError
	if !errors.As(err, &fault) || m.fault != nil {
		return err
	}
	m.fault, fault.Samples = fault, m.journal.taken()
	if !fault.Passes() || m.cfg.Out == nil {
		return err
	}
	fault.Cases = slices.Clone(fault.Cases)
	for i := range fault.Cases {
		fault.Cases[i].ID = 0 // results are computed for cases without an id
	}
	named, naming := m.cfg.Out.AddCases(fault.Cases)
	if naming != nil {
		return errors.Join(err, naming)
	}
	fault.Cases = named
	for _, c := range m.faults.add(fault) {
		phase := results.PhaseSweep // the phase of a case that only keeps the device warm
		for _, r := range requests {
			if r.Case.Key() == c.Key() {
				phase = r.Phase
			}
		}
		if failing := m.giveUp(c, phase, fault.Err); failing != nil {
			return errors.Join(err, failing)
		}
	}
	return errors.Join(err, m.faults.write(m.cfg.Out))
}

func (m *Measurer) skip(c results.Case) error {
	why := m.failed[c.Key()]
	if why != nil && !slices.ContainsFunc(m.skipped, func(o results.Case) bool { return o.Key() == c.Key() }) {
		m.skipped = append(m.skipped, c)
	}
	return why
}

// Skipped returns the requested cases that were not measured because a device failed with them before.
func (m *Measurer) Skipped() []results.Case { return m.skipped }
