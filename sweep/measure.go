package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// MeasureConfig configures a [Measurer]. Zero fields follow the plan of Out, if it has one, so that repeated
// measurements use the same settings.
type MeasureConfig struct {
	Devices []kernels.Device
	// Absent lists missing devices: their cases get no samples. A case of any other unknown device is an
	// error.
	Absent []string
	// Out receives the samples, under the phase of each request; nil stores none.
	Out          *results.Run
	Distribution kernels.Distribution
	Seed         uint64
	BlockTarget  time.Duration
	MinLaunches  int
	Sentinel     SentinelConfig // when the warm-up ends
	MemoryBudget int64          // bytes for weights on each device; 0 uses a share of free memory
	CaseTimeout  time.Duration  // as in a [Runner]
	Observer     Observer       // receives samples and failures; may be nil
	Now          func() time.Time
}

// Measurer takes new samples of single cases, interleaved, with the rotation of a sweep. The sweep in Out may
// have run at a power limit that the new cases do not reach. Other cases then run in between, without being
// stored. Weights stay in memory between calls while there is room. A Measurer is not safe for concurrent
// use.
type Measurer struct {
	cfg     MeasureConfig
	journal *journal
	rigs    map[string]*lab
	rounds  map[results.Phase]map[int64]int
	local   map[results.CaseKey]int64
	calls   uint64
	learnt  bool // the state of the devices is known from the sweep in Out
	faults  faults
	failed  map[results.CaseKey]error // cases skipped because of faults
	skipped []results.Case            // requested cases among them
	fault   *FaultError               // ends all further measurement
	others  []results.OtherLaunch     // that differ from the first launch of their case
}

type lab struct {
	*rig
	gauge    gauge
	stations map[results.CaseKey]*station
	idle     time.Time // since when
	thermal  *thermal  // state of the sweep, if fillers keep the device in it
}

func (l *lab) station(c results.Case) *station {
	key := c.Key()
	if l.stations[key] == nil {
		l.stations[key] = &station{c: c}
	}
	return l.stations[key]
}

// NewMeasurer returns a measurer; Close frees its memory.
func NewMeasurer(cfg MeasureConfig) (*Measurer, error) {
	if len(cfg.Devices) == 0 {
		return nil, errors.New("measuring again: no device")
	}
	plan := &Plan{BlockTarget: 5 * time.Millisecond, MinLaunches: 1, Sentinel: DefaultSentinel(), Distribution: kernels.Normal}
	if cfg.Out != nil && len(cfg.Out.Meta().Plan) > 0 {
		p, err := DecodePlan(cfg.Out.Meta().Plan)
		if err != nil {
			return nil, err
		}
		plan = p
	}
	cfg.Distribution = orElse(cfg.Distribution, plan.Distribution)
	cfg.Seed = orElse(cfg.Seed, plan.Seed)
	cfg.BlockTarget = orElse(cfg.BlockTarget, plan.BlockTarget)
	cfg.MinLaunches = orElse(cfg.MinLaunches, plan.MinLaunches)
	cfg.Sentinel = orElse(cfg.Sentinel, plan.Sentinel)
	if cfg.Observer == nil {
		cfg.Observer = NoObserver{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	j, err := openJournal(cfg.Out)
	if err != nil {
		return nil, err
	}
	m := &Measurer{cfg: cfg, journal: j, rigs: map[string]*lab{},
		rounds: map[results.Phase]map[int64]int{}, local: map[results.CaseKey]int64{}}
	if err := m.learnFaults(); err != nil {
		return nil, err
	}
	for _, d := range cfg.Devices {
		b, err := newRig(d, cfg.Distribution, cfg.Seed, cfg.BlockTarget, cfg.MinLaunches, cfg.CaseTimeout)
		if err != nil {
			return nil, err
		}
		if cfg.MemoryBudget > 0 {
			b.budget = cfg.MemoryBudget
		}
		b.watch.now, b.alone = cfg.Now, m.faults.alone()
		m.rigs[b.spec.ID] = &lab{rig: b, gauge: gauge{device: d, dog: b.dog}, stations: map[results.CaseKey]*station{}}
	}
	return m, nil
}

// Close frees weights and operands on every device that does not hang.
func (m *Measurer) Close() error {
	var errs []error
	for _, l := range m.rigs {
		if m.fault != nil && m.fault.Hung > 0 && m.fault.Device == l.spec.ID {
			continue
		}
		errs = append(errs, l.dog.guard(l.close))
	}
	return errors.Join(errs...)
}

// Measure takes rounds samples of every request. Requests whose weights fit in memory together are
// interleaved, in a new random order each round that keeps groups together. If a group's cases belong to
// several processes, every second round reverses the order of the round before. The result has one slice per
// request; a failed case has fewer samples. If ctx ends, it returns the samples so far with an error that
// wraps ctx's cause. A lost or hung device gives a [*FaultError], also in later calls.
func (m *Measurer) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	cases, err := m.begin(requests)
	if err != nil {
		return nil, err
	}
	defer m.holdCollector()()
	out := make([][]results.Sample, len(requests))
	err = m.deal(cases, requests, func(l *lab, ds []demand, members []int) error {
		return m.group(ctx, l, ds, requests, cases, members, rounds, out)
	})
	if hung(err) {
		return nil, err
	}
	return out, err
}

func (m *Measurer) holdCollector() (release func()) {
	for _, l := range m.rigs {
		if l.ahead == 0 {
			return holdCollector()
		}
	}
	return func() {}
}

// begin assigns ids to the cases of a call and reads the devices' state.
func (m *Measurer) begin(requests []results.Request) ([]results.Case, error) {
	cases, err := m.name(requests)
	if err != nil {
		return nil, err
	}
	m.calls++
	if m.fault != nil {
		return nil, m.fault
	}
	return cases, m.learn()
}

// deal calls do for each device and each set of weights that fits in memory together, with the indices of
// their cases. If a device hangs, do never returns. A fault is recorded under the phase of its case's
// request.
func (m *Measurer) deal(cases []results.Case, requests []results.Request, do func(l *lab, ds []demand, members []int) error) error {
	var ids []string
	for _, c := range cases {
		if !slices.Contains(ids, c.Device) {
			ids = append(ids, c.Device)
		}
	}
	for _, id := range ids {
		l := m.rigs[id]
		if l == nil {
			continue
		}
		var mine []results.Case
		for _, c := range cases {
			if c.Device == id {
				mine = append(mine, c)
			}
		}
		ds := demands(mine, l.spec.LastLevelCacheBytes)
		for _, note := range fit(ds, l.budget) {
			m.cfg.Observer.Message(id + ": " + note)
		}
		of, n := groups(ds, l.budget)
		for g := range n {
			var members []int
			for i, c := range cases {
				if c.Device == id && of[matrixOf(c)] == g {
					members = append(members, i)
				}
			}
			set := slices.DeleteFunc(slices.Clone(ds), func(d demand) bool { return of[d.key] != g })
			if err := l.dog.guard(func() error { return do(l, set, members) }); err != nil {
				return fmt.Errorf("%s: %w", id, m.record(err, requests))
			}
		}
	}
	return nil
}

// learn determines once, from the samples of Out, in which state the sweep ran.
func (m *Measurer) learn() error {
	if m.learnt || m.cfg.Out == nil {
		return nil
	}
	m.learnt = true
	cases, err := m.cfg.Out.Cases()
	if err != nil {
		return err
	}
	device := make(map[int64]string, len(cases))
	of := map[string][]results.Case{}
	for _, c := range cases {
		if m.rigs[c.Device] != nil {
			device[c.ID] = c.Device
			of[c.Device] = append(of[c.Device], c)
		}
	}
	split := func(phase results.Phase) (map[string][]results.Sample, error) {
		samples, err := m.cfg.Out.Samples(phase)
		out := map[string][]results.Sample{}
		for _, s := range samples {
			if id, ok := device[s.CaseID]; ok {
				out[id] = append(out[id], s)
			}
		}
		return out, err
	}
	sweep, err := split(results.PhaseSweep)
	if err != nil {
		return err
	}
	sentinels, err := split(results.PhaseSentinel)
	if err != nil {
		return err
	}
	for id, l := range m.rigs {
		of[id] = slices.DeleteFunc(of[id], func(c results.Case) bool { return m.failed[c.Key()] != nil })
		named := make(map[int64]results.Case, len(of[id]))
		for _, c := range of[id] {
			named[c.ID] = c
		}
		for _, s := range sweep[id] {
			l.allocation = max(l.allocation, s.Allocation)
			l.paces.learn(named[s.CaseID], s.US/1e6)
		}
		l.thermal = newThermal(of[id], sweep[id], sentinels[id], m.cfg.Seed)
	}
	return nil
}

const idleLimit = time.Second

// place loads the operands of cases and fillers. gone holds cases whose weights could not be loaded, with the
// reasons.
func (m *Measurer) place(ctx context.Context, l *lab, ds []demand, cases []results.Case,
	members []int) (stations []*station, gone []error, err error) {
	var mine []results.Case
	for _, i := range members {
		mine = append(mine, cases[i])
	}
	failed, err := l.bring(ctx, ds, mine)
	if err != nil {
		return nil, nil, err
	}
	if err := l.stock(ctx, mine); err != nil {
		return nil, nil, err
	}
	for _, c := range mine {
		stations, gone = append(stations, l.station(c)), append(gone, cmp.Or(m.skip(c), failed[matrixOf(c)]))
	}
	return stations, gone, nil
}

func (l *lab) bring(ctx context.Context, ds []demand, cases []results.Case) (failed map[matrixKey]error, err error) {
	if failed, err = l.load(ctx, ds); err != nil {
		return nil, err
	}
	return failed, l.reserve(ctx, cases)
}

func (m *Measurer) group(ctx context.Context, l *lab, ds []demand, requests []results.Request, cases []results.Case,
	members []int, rounds int, out [][]results.Sample) (err error) {
	defer func() {
		// Finish and store the blocks in flight.
		if landed := l.land(); err == nil {
			err = landed
		}
	}()
	placed := l.allocation
	stations, gone, err := m.place(ctx, l, ds, cases, members)
	if err != nil {
		return err
	}
	if l.allocation == placed { // everything was loaded before
		if err := l.renew(ctx, false); err != nil {
			return err
		}
	}
	for at, s := range stations {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if gone[at] != nil {
			continue
		}
		if l.thermal == nil && (l.idle.IsZero() || m.cfg.Now().Sub(l.idle) > idleLimit) {
			_, gone[at] = warmUp(ctx, l.rig, s, m.cfg.Sentinel, m.cfg.Now)
		} else {
			gone[at] = l.pilot(ctx, s)
		}
		if deviceLost(gone[at]) || errors.Is(gone[at], errHalted) {
			return gone[at]
		}
		if l.thermal == nil {
			l.idle = m.cfg.Now()
		}
	}
	if err := m.warm(ctx, l); err != nil {
		return err
	}
	if l.thermal != nil {
		l.thermal.few = distinct(stations) < leastMixture
	}
	sets := adjacent(requests, members)
	process := func(at int) string { return l.process(stations[at].c) }
	for round := range rounds {
		if rested := m.cfg.Now(); round > 0 {
			placed := l.allocation
			if err := l.renew(ctx, false); err != nil {
				return err
			}
			if l.allocation != placed {
				l.idle = rested
				if err := m.warm(ctx, l); err != nil {
					return err
				}
			}
		}
		for next := range shuffleSets(source(m.cfg.Seed, streamMeasure, m.calls, uint64(round)), sets, process, round%2 == 1) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			at, i := next.at, members[next.at]
			if next.first {
				if err := l.keepWarm(ctx); err != nil {
					return err
				}
			}
			if gone[at] != nil {
				if err := m.fails(stations[at].c, requests[i].Phase, &gone[at]); err != nil {
					return err
				}
				continue
			}
			n := stations[at].perBlock
			err := l.begin(ctx, stations[at], n, requests[i].Serial, func(started time.Time, span kernels.Span, err error) error {
				if err == nil {
					return m.sample(l, stations[at], requests[i].Phase, n, started, span, &out[i])
				}
				if gone[at] == nil {
					gone[at] = err
				}
				return m.fails(stations[at].c, requests[i].Phase, &gone[at])
			})
			if err != nil {
				return err
			}
		}
	}
	if err := l.land(); err != nil {
		return err
	}
	l.idle = m.cfg.Now()
	return nil
}

// fails records once why a case can't be measured. It returns errors that are not the case's own.
func (m *Measurer) fails(c results.Case, phase results.Phase, why *error) error {
	var e *caseError
	switch err := *why; {
	case errors.As(err, &e):
		return nil
	case deviceLost(err) || errors.Is(err, errHalted) || errors.Is(err, errJournal):
		return err
	default:
		*why = &caseError{err}
		return m.giveUp(c, phase, err)
	}
}

// warm brings an idle device back into the sweep's state.
func (m *Measurer) warm(ctx context.Context, l *lab) error {
	note, err := l.warmToSweep(ctx, m.cfg.Sentinel.SettleCap, m.cfg.Now)
	if note != "" {
		m.cfg.Observer.Message(l.spec.ID + ": " + note)
	}
	return err
}

type caseError struct{ error }

// errJournal marks an error of the run file, which ends the measurement.
var errJournal = errors.New("the run file can't be written")

func (m *Measurer) sample(l *lab, s *station, phase results.Phase, n int, started time.Time, span kernels.Span,
	out *[]results.Sample) error {
	if l.thermal != nil {
		l.thermal.saw(s.c, span)
	}
	round, err := m.round(s.c.ID, phase)
	if err != nil {
		return err
	}
	smp := l.sample(s.c, phase, round, n, started, span, l.gauge.at(started))
	l.refine(s, n, span)
	if err := m.journal.append(&smp); err != nil {
		return errors.Join(errJournal, err)
	}
	others, err := s.record(m.cfg.Out, phase, round)
	if err != nil {
		return errors.Join(errJournal, err)
	}
	m.others = append(m.others, others...)
	*out = append(*out, smp)
	m.cfg.Observer.Sample(s.c, smp)
	return nil
}
