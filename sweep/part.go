package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type part struct {
	r        *Runner
	rig      *rig
	gauge    gauge
	past     *past
	cases    []results.Case
	stations []*station
	index    map[int64]int // stations by case
	joined   []int         // first round of each station
	have     []roundSet    // finished rounds, by station
	failure  error         // a storage error, after which nothing is stored
	gone     []bool        // stations given up
	failed   []bool        // stations that an earlier start gave up, not tried since
	lastSeq  int64         // of the sweep phase's samples, including earlier starts
	looked   bool          // a look preceded this round
	open     []bool        // stations to measure until the next look, from the chooser
	until    int           // the next look, or the number of rounds
	design   *design       // of the inferred series; may be nil

	demands []demand
	sets    map[matrixKey]int // of weights, by matrix; nil if all fit together
	group   []int             // set of weights by station, or nil
	loadedG int               // the set in memory, -1 for none

	sentinels []*guard
	visited   time.Time // when sentinels last ran
	since     int       // blocks since then
	heap      uint64

	warm               WarmUp
	setUp, wall        time.Duration
	samples, failures  int
	measured, inferred int // rows, see [Known]
	stopped            string
	changed            bool // a launch changed, which is noted once
	hung               bool // abandoned with its goroutine; its fields must not be read
}

func newPart(r *Runner, d kernels.Device, past *past) (*part, error) {
	b, err := newRig(d, r.Plan.Distribution, r.Plan.Seed, r.Plan.BlockTarget, r.Plan.MinLaunches, r.CaseTimeout)
	if err != nil {
		return nil, err
	}
	if r.MemoryBudget > 0 {
		b.budget = r.MemoryBudget
	}
	p := &part{r: r, rig: b, gauge: gauge{device: d, dog: b.dog}, past: past, index: map[int64]int{}, loadedG: -1}
	b.due = func() bool { return p.late(0) }
	b.watch.now, b.alone = r.Now, past.faults.alone()
	return p, nil
}

// add appends a case that is measured from a round on.
func (p *part) add(c results.Case, round int) {
	s := &station{c: c, seconds: p.r.est.Launch(c)}
	if last, ok := p.past.last[c.ID]; ok {
		s.learn(last.US/1e6, last.Launches)
		p.rig.paces.learn(c, last.US/1e6)
	}
	have := newRoundSet(p.r.Plan.Rounds)
	for _, round := range p.past.rounds[c.ID] {
		have.add(round)
	}
	p.index[c.ID] = len(p.cases)
	p.cases, p.stations, p.have = append(p.cases, c), append(p.stations, s), append(p.have, have)
	p.joined, p.open = append(p.joined, round), append(p.open, false)
	fault := p.past.faults[c.ID].Failed
	p.gone, p.failed = append(p.gone, fault), append(p.failed, !fault && p.past.failed[c.ID])
	if have.n >= p.r.Plan.Screening {
		p.measured++
	}
}

func (p *part) recall() {
	for _, s := range p.past.samples {
		if p.r.device[s.CaseID] == p.rig.spec.ID {
			p.rig.allocation = max(p.rig.allocation, s.Allocation)
			p.lastSeq = max(p.lastSeq, s.Seq)
		}
	}
}

// certain is the number of rounds that every case gets.
func (p *part) certain() int {
	if p.r.Chooser != nil {
		return p.r.Plan.Screening
	}
	return p.r.Plan.Rounds
}

func (p *part) awaits(i, round int) bool {
	age := round - p.joined[i]
	return age >= 0 && (age < p.certain() || p.open[i] && round < p.until)
}

// promised is the number of planned rounds until a station is complete.
func (p *part) promised(i int) int {
	own := p.joined[i] + p.certain()
	if p.open[i] {
		return max(p.until, own)
	}
	return own
}

// prepare assigns weights to sets, counts the missing samples, and checks the deadline.
func (p *part) prepare() error {
	p.demands = demands(p.forms(), p.rig.spec.LastLevelCacheBytes)
	for _, note := range fit(p.demands, p.rig.budget) {
		p.r.note("%s: %s", p.rig.spec.ID, note)
	}
	if of, n := groups(p.demands, p.rig.budget); n > 1 {
		p.r.note("%s: weights need %d sets that take turns in memory", p.rig.spec.ID, n)
		p.sets = of
		p.regroup()
	}
	p.until = p.certain()
	p.plan(0)
	round := -1
	var first time.Duration
	for n := range p.certain() {
		for i := range p.stations {
			if p.have[i].has(n) || p.gone[i] {
				continue
			}
			t := p.blockTime(p.stations[i])
			if round < 0 {
				round = n
			}
			if round == n {
				first += t
			}
		}
	}
	if d := p.deadline(); d > 0 && first > d {
		return &DeadlineError{Deadline: d, Round: first}
	}
	return nil
}

// forms lists cases that cover every form of every matrix: the measured cases, and one of each series that
// may get more.
func (p *part) forms() []results.Case {
	if p.design == nil {
		return p.cases
	}
	out := slices.Clone(p.cases)
	for _, s := range p.design.plan.Series {
		if s.Infer || p.design.plan.staged() {
			out = append(out, s.Case(s.Ms[0]))
		}
	}
	return out
}

func (p *part) regroup() {
	if p.sets == nil {
		return
	}
	for _, c := range p.cases[len(p.group):] {
		p.group = append(p.group, p.sets[matrixOf(c)])
	}
}

// plan counts the samples of the rounds from one to the next look.
func (p *part) plan(from int) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	for i := range p.stations {
		for n := from; n < p.until; n++ {
			if !p.awaits(i, n) {
				continue
			}
			p.r.planned++
			if p.have[i].has(n) || p.gone[i] {
				p.r.done++
			}
		}
	}
}

func (p *part) blockTime(s *station) time.Duration {
	if s.perBlock > 0 {
		return time.Duration(s.seconds * float64(s.perBlock) * 1e9)
	}
	t := p.r.est.Block(p.r.Plan, s.c)
	return t + min(t, time.Duration(s.seconds*1e9)+p.r.Plan.BlockTarget/4)
}

// run measures round after round until all are done or an error or the deadline ends it.
func (p *part) run(ctx context.Context) (err error) {
	began := p.r.Now()
	defer func() {
		if landed := p.rig.land(); landed != nil && (err == nil || errors.Is(err, errHalted)) {
			err = landed
		}
		if err == nil && p.stopped == StatusDeadline && p.design != nil {
			var all []results.Sample
			if all, err = p.before(math.MaxInt); err == nil {
				_, err = p.more(all) // to update the known rows
			}
		}
		p.wall = p.r.Now().Sub(began)
		if !deviceLost(err) && p.samples > 0 {
			err = errors.Join(err, p.storeClock(p.lastSeq))
		}
		if errors.Is(err, errHalted) && p.ended(ctx, 0) {
			err = nil // treat it as found before that block
		}
		if err != nil {
			p.stopped = StatusInterrupted
			err = fmt.Errorf("%s: %w", p.rig.spec.ID, err)
		}
	}()
	opened := false
	for round := 0; ; round++ {
		if more, err := p.look(round); err != nil {
			return err
		} else if !more {
			break
		}
		p.reckon(round)
		if err := p.renew(ctx); err != nil {
			return err
		}
		order := slices.DeleteFunc(RoundOrder(p.r.Plan.Seed, round, len(p.stations), p.group), func(i int) bool {
			return !p.awaits(i, round) || p.have[i].has(round)
		})
		order = turnsOf(p.r.Plan.Seed, round, order, p.group, func(i int) string { return p.rig.process(p.cases[i]) },
			func(i int) time.Duration { return p.blockTime(p.stations[i]) })
		for _, i := range order {
			if p.gone[i] {
				continue
			}
			if p.ended(ctx, p.blockTime(p.stations[i])) {
				return nil
			}
			if !opened {
				opened = true
				if err := p.settle(ctx); err != nil {
					return err
				}
				p.setUp = p.r.Now().Sub(began)
				// Time already spent on binding and launching is part of it.
				warm := p.rig.watch.Warmups
				p.rig.watch.Times = Times{SetUp: max(0, p.setUp.Seconds()-p.rig.busy-warm), Warmups: warm}
				if p.ended(ctx, p.blockTime(p.stations[i])) {
					return nil
				}
			}
			if err := p.watch(ctx, false); err != nil {
				return err
			}
			if err := p.measure(ctx, i, round); err != nil {
				return err
			}
		}
		p.collect(true)
	}
	if opened {
		// The final state is part of the drift, but not worth packing weights again.
		if err := p.watch(ctx, true); !errors.Is(err, errHalted) {
			return err
		}
	}
	return nil
}

// renew reallocates operands before a round, and always at looks. Operands lost in it are loaded again when
// needed.
func (p *part) renew(ctx context.Context) error {
	must := p.looked
	p.looked = false
	if p.group != nil || p.loadedG < 0 || ctx.Err() != nil || p.late(0) || !p.rig.stale(must) {
		return nil
	}
	if err := p.rig.land(); err != nil {
		return err
	}
	err := p.rig.renew(ctx, must)
	if err == nil || deviceLost(err) || errors.Is(err, errHalted) {
		return err
	}
	p.loadedG = -1
	p.r.note("%s: %v", p.rig.spec.ID, err)
	return nil
}

// ended reports whether to stop before a step that takes the time next.
func (p *part) ended(ctx context.Context, next time.Duration) bool {
	if ctx.Err() != nil {
		p.stopped = StatusInterrupted
		return true
	}
	if p.late(next) {
		p.stopped = StatusDeadline
		return true
	}
	return false
}

// late reports whether the deadline leaves less than next after the blocks in flight.
func (p *part) late(next time.Duration) bool {
	d := p.deadline()
	return d > 0 && p.r.Now().Sub(p.r.start)+p.rig.aloft()+next > d
}

func (p *part) firstMissing(i int) int {
	round := p.joined[i]
	for p.have[i].has(round) {
		round++
	}
	return round
}

func (p *part) measure(ctx context.Context, i, round int) error {
	s := p.stations[i]
	expected := p.blockTime(s)
	g := 0
	if p.group != nil {
		g = p.group[i]
	}
	if err := p.load(ctx, g); err != nil {
		return err
	}
	if p.gone[i] {
		return nil // its weights could not be loaded
	}
	if err := p.forgive(i); err != nil {
		return err
	}
	if p.rig.rests(s) {
		if err := p.rig.land(); err != nil {
			return err
		}
	}
	if err := p.rig.pilot(ctx, s); err != nil {
		return p.fails(i, round, err)
	}
	n := s.perBlock
	return p.rig.begin(ctx, s, n, false, func(started time.Time, span kernels.Span, err error) error {
		if err != nil {
			return p.fails(i, round, err)
		}
		return p.landed(block{s, p.rig.sample(s.c, results.PhaseSweep, round, n, started, span, p.telemetry(started)), expected}, i, span)
	})
}

func (p *part) landed(b block, i int, span kernels.Span) error {
	if p.failure != nil {
		return p.failure // an unstored sample counts as not measured
	}
	s := b.station
	s.seconds = b.sample.US / 1e6
	p.rig.paces.learn(s.c, s.seconds)
	p.rig.refine(s, b.sample.Launches, span)
	began := p.r.Now()
	defer func() { p.rig.watch.took(&p.rig.watch.Journal, began) }()
	if p.failure = p.store(b); p.failure != nil {
		return p.failure
	}
	p.have[i].add(b.sample.Round)
	if p.have[i].n == p.r.Plan.Screening {
		p.measured++
	}
	p.samples++
	return nil
}

// fails ends the part if an error is not the case's own.
func (p *part) fails(i, round int, why error) error {
	switch {
	case deviceLost(why) || errors.Is(why, errHalted):
		return why
	case p.failure != nil:
		return p.failure
	case p.gone[i]:
		return nil
	}
	return p.giveUp(i, round, why)
}

// forgive clears a failure of an earlier start before the retry: more memory may be free now.
func (p *part) forgive(i int) error {
	if !p.failed[i] {
		return nil
	}
	p.failed[i] = false
	return p.r.Out.Forgive(p.cases[i].ID, results.PhaseSweep)
}

// giveUp skips a failed case's later rounds in this start: it would fail again, and curves with gaps compare
// unevenly.
func (p *part) giveUp(i, round int, why error) error {
	if err := p.forgive(i); err != nil {
		return err
	}
	p.gone[i] = true
	p.failures++
	c := p.stations[i].c
	if err := p.r.journal.fail(results.Failure{CaseID: c.ID, Phase: results.PhaseSweep, Round: round, Reason: why.Error()}); err != nil {
		return err
	}
	p.r.note("%v failed: %v", c, why)
	if err := p.r.recordLost(c, why, p.past); err != nil {
		return err
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	for n := round; n < p.promised(i); n++ {
		if !p.have[i].has(n) && p.awaits(i, n) {
			p.r.done++
		}
	}
	return nil
}

const heapGrowth = 64 << 20

// collect frees memory between blocks: after each round, and after much allocation.
func (p *part) collect(now bool) {
	if p.rig.ahead > 0 {
		return
	}
	began := p.r.Now()
	defer func() { p.rig.watch.took(&p.rig.watch.Collector, began) }()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc < p.heap+heapGrowth && (!now || m.HeapAlloc < p.heap+heapGrowth/8) {
		return
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	p.heap = m.HeapAlloc
}
