package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/sweep"
)

const (
	weightsN, weightsK = 4096, 4096
	screening, most    = 7, 35
	// noisePairs pairs of noiseRounds compare a row with itself.
	noisePairs, noiseRounds = 8, 10
)

// grid is the Ms of a sweep, memory-bound and compute-bound.
func grid() sweep.Batches {
	var ms sweep.Batches
	for m := 16; m < 512; m += 31 {
		ms = append(ms, m)
	}
	for m := 512; m <= 4096; m += 80 {
		ms = append(ms, m)
	}
	return ms
}

type subject struct {
	kind    Kind
	index   int
	cfg     rules.Config
	machine *simulated.Machine
	rng     *rand.Rand
	folder  string
	tally   *tally
}

// Equal seeds, kinds and indices give equal machines.
func newSubject(seed uint64, kind Kind, index int, cfg rules.Config, folder string, t *tally) (*subject, error) {
	name := uint64(0)
	for _, c := range kind.Name {
		name = name*131 + uint64(c)
	}
	rng := rand.New(rand.NewPCG(seed^name, uint64(index)))
	planted := []float64{PromisedDepth}
	others := Depths()
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, d := range others {
		if d != PromisedDepth && len(planted) < 3 {
			planted = append(planted, d)
		}
	}
	machineOf := simulated.MachineConfig{
		Seed: rng.Uint64(), N: weightsN, K: weightsK, Ms: kind.grid(), Depths: planted,
		Waves: kind.waves, Switches: kind.switches, Disturbances: kind.disturbances,
	}
	if kind.infers {
		machineOf.Families, machineOf.Isolated, machineOf.Depths = true, isolatedShare, nil
	}
	machine, err := simulated.NewMachine(machineOf)
	if err != nil {
		return nil, err
	}
	return &subject{kind: kind, index: index, cfg: cfg, machine: machine, rng: rng, folder: folder, tally: t}, nil
}

func (s *subject) plan(deadline time.Duration) *sweep.Plan {
	p := &sweep.Plan{
		Schema: sweep.PlanSchema, Screening: screening, Rounds: most, Seed: s.rng.Uint64(),
		Regime: results.Engine, Distribution: kernels.Normal, BlockTarget: time.Millisecond, MinLaunches: 1,
		Sentinel: sweep.DefaultSentinel(), Deadline: deadline,
	}
	p.Sentinel.DriftBound = rules.Default().DriftBound
	p.Sentinel.Every = 40 * time.Millisecond // a sweep of seconds needs as many as one of minutes
	for _, kernel := range []string{simulated.Library, simulated.Ours} {
		key := results.SeriesKey{Device: simulated.DeviceID, Kernel: kernel, Subject: s.machine.Config().Subject(), Regime: results.Engine}
		p.Series = append(p.Series, sweep.PlannedSeries{SeriesKey: key, Ms: s.kind.grid(), Infer: s.kind.infers})
	}
	return p
}

type visit struct {
	name   string
	device *simulated.Card
	run    *results.Run
	data   infer.Data
	truth  truth
	wall   time.Duration // of the sweep
	usual  float64
}

func (s *subject) sweep(ctx context.Context, name string, session simulated.Session, deadline time.Duration) (*visit, error) {
	v := &visit{name: name, device: s.machine.Open(session)}
	plan := s.plan(deadline)
	encoded, err := plan.Encode()
	if err != nil {
		return nil, err
	}
	ceilings, err := v.device.Ceilings(ctx)
	if err != nil {
		return nil, err
	}
	meta := results.Meta{
		Created: v.device.Now(), Command: "simulated", Plan: encoded, Regime: plan.Regime, Distribution: plan.Distribution, Seed: plan.Seed,
		Fingerprint: results.Fingerprint{Devices: []kernels.Spec{v.device.Spec()}},
		Ceilings:    map[string]kernels.Ceilings{simulated.DeviceID: ceilings},
	}
	if v.run, err = results.Create(filepath.Join(s.folder, fmt.Sprintf("%s-%d-%s.db", s.kind.Name, s.index, name)), meta); err != nil {
		return nil, err
	}
	chooser := choose.OpenRows{Config: s.cfg, Ceilings: meta.Ceilings, Looks: infer.LooksAt(plan.Screening, plan.Rounds),
		Clocks: func() map[string]float64 { return v.run.Meta().ReferenceClock }}
	runner := &sweep.Runner{
		Plan: plan, Devices: []kernels.Device{v.device}, Out: v.run, Now: v.device.Now, DriftTest: infer.DriftPast, Chooser: chooser,
	}
	if s.kind.infers {
		err = s.infer(ctx, v, runner, chooser)
	}
	var sum *sweep.Summary
	if err == nil {
		sum, err = runner.Run(ctx)
	}
	if err == nil {
		v.wall = sum.Wall
		v.data, err = infer.LoadData(v.run)
	}
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	v.usual = v.device.UsualClockMHz()
	return v, nil
}

func (v *visit) close() error { return errors.Join(v.run.Close(), v.device.Close()) }

func (v *visit) measurer() (*sweep.Measurer, error) {
	return sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{v.device}, Out: v.run, Now: v.device.Now})
}

// examine performs a user's steps on a machine, and counts.
func (s *subject) examine(ctx context.Context) (err error) {
	if s.kind.inOrder {
		return s.examineInOrder(ctx)
	}
	if s.kind.infers {
		return s.examineInferred(ctx)
	}
	seeds := [2]uint64{s.rng.Uint64(), s.rng.Uint64()}
	a, err := s.sweep(ctx, "a", simulated.Session{Seed: seeds[0]}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	first, err := s.audit(ctx, a, true)
	if err != nil {
		return err
	}
	b, err := s.sweep(ctx, "b", simulated.Session{Seed: seeds[1], Hot: true}, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	second, err := s.audit(ctx, b, false)
	if err != nil {
		return err
	}
	if err := s.compare(a, b, first, second); err != nil {
		return err
	}
	return s.stop(ctx, a, seeds[0])
}

// audit judges a visit with confirmation, and optionally with remedies.
func (s *subject) audit(ctx context.Context, v *visit, remedies bool) (_ *rules.Audit, err error) {
	m, err := v.measurer()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	audit, err := rules.RunAudit(ctx, v.data, s.cfg, m)
	if err != nil {
		return nil, err
	}
	// Without a reported clock, rows are judged at the sweep's clock.
	v.truth = newTruth(s.machine, cmp.Or(audit.Clocks[simulated.DeviceID], v.usual))
	s.scoreAudit(v, audit)
	if !remedies {
		return audit, nil
	}
	splits, err := remedy.Find(ctx, v.data, s.cfg, remedy.Options{Among: remedy.AmongAll}, m)
	if err != nil {
		return nil, err
	}
	s.scoreRemedies(v, splits)
	s.scoreTable(v, splits)
	series := v.data.Series[s.rng.IntN(len(v.data.Series))]
	floor, err := m.NoiseFloor(ctx, series.Rows[s.rng.IntN(len(series.Rows))].Case, noisePairs, noiseRounds, stats.Different)
	if err != nil {
		return nil, err
	}
	s.tally.count(NoiseFlagged).merge(Count{floor.Flagged, noisePairs})
	return audit, nil
}

func (s *subject) compare(a, b *visit, first, second *rules.Audit) error {
	s.scorePair(b, verdicts(first), verdicts(second))
	diff, err := diff.Compare(a.data, b.data, s.cfg)
	if err != nil {
		return err
	}
	s.scoreDiff(a, b, diff)
	return nil
}

// stops is the number of moments at which a run is judged as if stopped.
const stops = 4

// stop judges the prefixes of a sweep, and a sweep with a deadline.
func (s *subject) stop(ctx context.Context, full *visit, seed uint64) error {
	whole, err := rules.RunAudit(ctx, full.data, s.cfg, nil)
	if err != nil {
		return err
	}
	want := verdicts(whole)
	last := int64(0)
	for _, series := range full.data.Series {
		for _, r := range series.Rows {
			last = max(last, r.Samples[len(r.Samples)-1].Seq)
		}
	}
	for i := range stops {
		at := int64(float64(last) * (float64(i) + s.rng.Float64()) / stops)
		part, err := rules.RunAudit(ctx, until(full.data, at), s.cfg, nil)
		if err != nil {
			return err
		}
		s.scoreStopped(full, PrefixContradict, verdicts(part), want)
	}
	deadline := time.Duration((0.35 + 0.55*s.rng.Float64()) * float64(full.wall))
	short, err := s.sweep(ctx, "deadline", simulated.Session{Seed: seed}, deadline)
	if err != nil {
		return err
	}
	audit, err := rules.RunAudit(ctx, short.data, s.cfg, nil)
	if err == nil {
		s.scoreStopped(full, DeadlineContradict, verdicts(audit), want)
	}
	return errors.Join(err, short.close())
}

func until(data infer.Data, seq int64) infer.Data {
	before := func(samples []results.Sample) []results.Sample {
		var out []results.Sample
		for _, s := range samples {
			if s.Seq < seq {
				out = append(out, s)
			}
		}
		return out
	}
	out := data
	out.Series, out.Sentinels = nil, before(data.Sentinels)
	for _, s := range data.Series {
		rows := s.Rows
		s.Rows = nil
		for _, r := range rows {
			if r.Samples = before(r.Samples); len(r.Samples) > 0 {
				s.Rows = append(s.Rows, r)
			}
		}
		if len(s.Rows) > 0 {
			out.Series = append(out.Series, s)
		}
	}
	return out
}

func (s *subject) remove() error {
	files, err := filepath.Glob(filepath.Join(s.folder, fmt.Sprintf("%s-%d-*", s.kind.Name, s.index)))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
