package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// host is several cards, each with its own clock; the wall clock is the furthest one.
type host []*simulated.Device

func cards(n int, change func(card int, c *simulated.Config)) host {
	var h host
	for i := range n {
		h = append(h, declared(func(c *simulated.Config) {
			c.ID, c.Kind, c.Seed = fmt.Sprintf("cuda:%d", i), kernels.CUDA, uint64(i+1)
			c.Gemms = c.Gemms[:1]
			if change != nil {
				change(i, c)
			}
		}))
	}
	return h
}

func (h host) devices() []kernels.Device {
	var out []kernels.Device
	for _, d := range h {
		out = append(out, d)
	}
	return out
}

func (h host) now() time.Time {
	last := h[0].Now()
	for _, d := range h {
		if t := d.Now(); t.After(last) {
			last = t
		}
	}
	return last
}

func (h host) plan(t *testing.T, batches string, change func(*Options)) *Plan {
	t.Helper()
	var options Options
	planned(t, h[0], batches, func(o *Options) {
		if change != nil {
			change(o)
		}
		options = *o
	})
	p, err := NewPlan(t.Context(), h.devices(), options, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (h host) run(p *Plan, run *results.Run, w Observer) (*Summary, error) {
	return (&Runner{Plan: p, Devices: h.devices(), Out: run, Observer: w, Now: h.now}).Run(context.Background())
}

func TestCardsAreSweptSideBySide(t *testing.T) {
	h := cards(4, func(card int, c *simulated.Config) {
		c.Gemms[0].Cost = simulated.Linear(1e10*float64(card+1), 5e-6)
	})
	p := h.plan(t, "1:8", nil)
	if got := p.Devices(); !slices.Equal(got, []string{"cuda:0", "cuda:1", "cuda:2", "cuda:3"}) {
		t.Fatalf("the plan measures on %v", got)
	}
	run := newRun(t, p)
	w := &watcher{}
	sum, err := h.run(p, run, w)
	if err != nil || sum.Status != StatusComplete || sum.Samples != 4*8*3 {
		t.Fatalf("status %q, %d samples, %v", sum.Status, sum.Samples, err)
	}
	complete(t, p, run)
	if len(sum.Drift) != 4 || len(sum.WarmUp) != 4 {
		t.Errorf("%d drifts and %d warm-ups, expected one a card", len(sum.Drift), len(sum.WarmUp))
	}
	if w.last.Done != 96 || w.last.Planned != 96 {
		t.Errorf("progress ends at %d of %d", w.last.Done, w.last.Planned)
	}
	series, err := run.Series()
	if err != nil || len(series) != 4 {
		t.Fatalf("%d series, %v; expected one a card", len(series), err)
	}
	for i, s := range series {
		if s.Key.Device != fmt.Sprintf("cuda:%d", i) || len(s.Rows) != 8 {
			t.Errorf("series %v of %d rows", s.Key, len(s.Rows))
		}
	}
	seen := map[int64]bool{}
	samples, _ := run.Samples(results.PhaseSweep)
	for _, s := range samples {
		if seen[s.Seq] {
			t.Fatalf("two blocks have the number %d", s.Seq)
		}
		seen[s.Seq] = true
	}
	for _, d := range h {
		if d.Used() != 0 {
			t.Errorf("%s: %d bytes are still allocated", d.Spec().ID, d.Used())
		}
	}
}

// One of four cards falls off the bus; once it is back, the run completes without repeated samples.
func TestALostCardLeavesTheOthers(t *testing.T) {
	lossy := func(lost bool) host {
		return cards(4, func(card int, c *simulated.Config) {
			launches := 0
			c.Gemms[0].ExecuteError = func(p kernels.Task) error {
				if p.M == 1 {
					launches++
				}
				if lost && card == 2 && launches > 3 {
					return fmt.Errorf("Xid 79: %w", kernels.ErrDeviceLost)
				}
				return nil
			}
		})
	}
	h := lossy(true)
	p := h.plan(t, "1:8", nil)
	run := newRun(t, p)
	sum, err := h.run(p, run, nil)
	if !errors.Is(err, kernels.ErrDeviceLost) || !strings.Contains(err.Error(), "cuda:2") || sum.Status != StatusInterrupted {
		t.Fatalf("status %q, error %v", sum.Status, err)
	}
	if failures, _ := run.Failures(); len(failures) != 0 {
		t.Errorf("the loss was held against cases: %v", failures)
	}
	samples, _ := run.Samples(results.PhaseSweep)
	device := map[int64]string{}
	cases, err := run.AddCases(p.Cases())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		device[c.ID] = c.Device
	}
	count := map[string]int{}
	for _, s := range samples {
		count[device[s.CaseID]]++
	}
	for _, id := range []string{"cuda:0", "cuda:1", "cuda:3"} {
		if count[id] != 24 {
			t.Errorf("%s has %d samples, expected 24", id, count[id])
		}
	}
	if count["cuda:2"] == 0 || count["cuda:2"] >= 24 {
		t.Errorf("the lost card has %d samples", count["cuda:2"])
	}
	h = lossy(false)
	again, err := h.run(p, run, nil)
	if err != nil || again.Samples != 24-count["cuda:2"] {
		t.Errorf("resumed: %d samples, %v; expected %d", again.Samples, err, 24-count["cuda:2"])
	}
	complete(t, p, run)
}

// A run on three cards resumes on two and finishes when the third is back.
func TestTheOthersGoOnWithoutACard(t *testing.T) {
	h := cards(3, func(card int, c *simulated.Config) { c.LoseAfter = 30 })
	p := h.plan(t, "1:8", nil)
	run := newRun(t, p)
	if _, err := h.run(p, run, nil); !errors.Is(err, kernels.ErrDeviceLost) {
		t.Fatalf("error %v", err)
	}
	count := func() map[string]int {
		out, device := map[string]int{}, map[int64]string{}
		cases, err := run.AddCases(p.Cases())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			device[c.ID] = c.Device
		}
		samples, _ := run.Samples(results.PhaseSweep)
		for _, s := range samples {
			out[device[s.CaseID]]++
		}
		return out
	}
	before := count()["cuda:1"]
	h = cards(3, nil)
	two := &Runner{Plan: p, Devices: []kernels.Device{h[0], h[2]}, Out: run, Now: h.now}
	sum, err := two.Run(context.Background())
	if err != nil || !slices.Equal(sum.Missing, []string{"cuda:1"}) || sum.Status != StatusInterrupted || sum.Invalid != "" {
		t.Fatalf("status %q, missing %q, invalid %q, %v", sum.Status, sum.Missing, sum.Invalid, err)
	}
	if got := count(); got["cuda:0"] != 24 || got["cuda:2"] != 24 || got["cuda:1"] != before {
		t.Errorf("samples %v, expected 24 of the cards that are there and %d of the other", got, before)
	}
	if !strings.Contains(state(t, run, StateNotes), "cuda:1 was not there") {
		t.Errorf("notes %s", state(t, run, StateNotes))
	}
	if sum, err = h.run(p, run, nil); err != nil || sum.Status != StatusComplete || sum.Missing != nil {
		t.Fatalf("status %q, missing %q, %v", sum.Status, sum.Missing, err)
	}
	complete(t, p, run)
	if sum, err = two.Run(context.Background()); err != nil || sum.Status != StatusComplete || sum.Missing != nil || sum.Samples != 0 {
		t.Errorf("status %q, missing %q, %d samples, %v", sum.Status, sum.Missing, sum.Samples, err)
	}
	m, err := NewMeasurer(MeasureConfig{Devices: two.Devices, Absent: []string{"cuda:1"}, Out: run, Now: h.now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ask := func(device string) results.Request {
		c := p.Cases()[0]
		c.Device = device
		return results.Request{Case: c, Phase: results.PhaseConfirm}
	}
	samples, err := m.Measure(context.Background(), []results.Request{ask("cuda:0"), ask("cuda:1")}, 2)
	if err != nil || len(samples) != 2 || len(samples[0]) != 2 || len(samples[1]) != 0 {
		t.Errorf("measured again: %v, %v; expected two samples of the card that is there", samples, err)
	}
	if _, err := m.Measure(context.Background(), []results.Request{ask("cuda:9")}, 2); err == nil ||
		!strings.Contains(err.Error(), "cuda:9") {
		t.Errorf("a card that is neither there nor absent: %v", err)
	}
}

func TestCardsFailByThemselves(t *testing.T) {
	h := cards(2, func(card int, c *simulated.Config) {
		if card == 1 {
			c.Gemms[0].ExecuteError = func(p kernels.Task) error {
				if p.M == 3 {
					return errors.New("launch failed: too many resources requested")
				}
				return nil
			}
			c.Gemms[0].DTypes = []kernels.DType{kernels.FP32}
		}
	})
	p := h.plan(t, "1:4", func(o *Options) { o.DTypes = []kernels.DType{kernels.FP32, kernels.BF16} })
	if len(p.Series) != 3 || !slices.ContainsFunc(p.Notes, func(n Note) bool { return strings.Contains(n.What, "cuda:1") }) {
		t.Errorf("%d series, notes %q; expected bf16 on one card alone, and why", len(p.Series), p.Notes)
	}
	run := newRun(t, p)
	sum, err := h.run(p, run, nil)
	if err != nil || sum.Status != StatusComplete || sum.Failures != 1 {
		t.Fatalf("status %q, %d failures, %v", sum.Status, sum.Failures, err)
	}
	failures, _ := run.Failures()
	if len(failures) != 1 || !strings.Contains(failures[0].Reason, "too many resources") {
		t.Errorf("failures %v", failures)
	}
}

func TestADeadlineEndsEveryCard(t *testing.T) {
	h := cards(2, func(card int, c *simulated.Config) {
		c.Gemms[0].Cost = simulated.Linear(1e10/float64(1+3*card), 5e-6)
	})
	p := h.plan(t, "1:10", func(o *Options) { o.Deadline = 150 * time.Millisecond; o.Rounds = 50 })
	run := newRun(t, p)
	sum, err := h.run(p, run, nil)
	if err != nil || sum.Status != StatusDeadline {
		t.Fatalf("status %q, %v", sum.Status, err)
	}
	for _, d := range h {
		busy, _ := d.Busy()
		if busy > 155*time.Millisecond {
			t.Errorf("%s worked for %v", d.Spec().ID, busy)
		}
	}
	est := NewPredictor(nil).Plan(p, nil, CacheSizes(h.devices()))
	if one := NewPredictor(nil).Block(p, p.Cases()[0]); est.Round > 11*one || est.Round < 9*one {
		t.Errorf("a round of ten blocks of %v a card is estimated at %v", one, est.Round)
	}
}

// Only the batches whose A and C do not fit fail.
func TestOnlyTheLargestGiveWay(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.MemoryBytes, c.Gemms = 4<<20, c.Gemms[:1] })
	p := planned(t, d, "1,64,1024,4096,8192", nil)
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if err != nil || sum.Failures != 2 {
		t.Fatalf("%d failures, %v", sum.Failures, err)
	}
	failures, _ := run.Failures()
	for _, f := range failures {
		if !strings.Contains(f.Reason, "out of memory") || !strings.Contains(f.Reason, "operand") {
			t.Errorf("reason %q", f.Reason)
		}
	}
	if samples, _ := run.Samples(results.PhaseSweep); len(samples) != 9 {
		t.Errorf("%d samples of the three that fit, expected 9", len(samples))
	}
	if d.Used() != 0 {
		t.Errorf("%d bytes are still allocated", d.Used())
	}
}
