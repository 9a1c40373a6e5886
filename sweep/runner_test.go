package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"pgregory.net/rapid"
)

func tilingOfOurs(p kernels.Task) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{16, 64, 32}, Waves: float64(p.M) / 32, Split: 1, Orientation: kernels.OrientationTransposed}
}

// Weights of n256 k128 fp32 are 128 KiB, so three last-level caches take six copies.
func declared(change func(*simulated.Config)) *simulated.Device {
	cfg := simulated.Config{
		Seed: 1, LastLevelCacheBytes: 256 << 10, ClockMHz: 2000, PowerW: 100,
		Gemms: []simulated.KernelConfig{
			{Name: "ours", Cost: simulated.Linear(1e10, 5e-6), Tiling: tilingOfOurs},
			{Name: "theirs", Cost: simulated.Linear(2e10, 5e-6), DTypes: []kernels.DType{kernels.FP32}, Packs: true,
				Label: func(p kernels.Task) string { return fmt.Sprintf("tile%d", p.M%2) }},
		},
	}
	if change != nil {
		change(&cfg)
	}
	return simulated.New(cfg)
}

func planned(t testing.TB, d kernels.Device, batches string, change func(*Options)) *Plan {
	t.Helper()
	grid, err := ParseBatches(batches)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Targets: []Target{{N: 256, K: 128}}, Batches: grid, DTypes: []kernels.DType{kernels.FP32},
		Rounds: 3, Seed: 42, BlockTarget: time.Millisecond, Budget: -1,
		Sentinel: SentinelConfig{Every: 20 * time.Millisecond, Blocks: 1000, DriftBound: 0.15,
			SettleWindow: 5 * time.Millisecond, SettleWindows: 3, SettleSpread: 0.03, SettleCap: 100 * time.Millisecond},
	}
	if change != nil {
		change(&o)
	}
	p, err := NewPlan(t.Context(), []kernels.Device{d}, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func created(t testing.TB, path string, p *Plan) *results.Run {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	run, err := results.Create(path,
		results.Meta{Schema: results.SchemaVersion, Plan: data, Regime: p.Regime, Distribution: p.Distribution, Seed: p.Seed})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func newRun(t testing.TB, p *Plan) *results.Run {
	run := created(t, filepath.Join(t.TempDir(), "run.db"), p)
	t.Cleanup(func() { run.Close() })
	return run
}

// complete checks that a run holds exactly the planned samples.
func complete(t testing.TB, p *Plan, run *results.Run) []results.Sample {
	t.Helper()
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := run.AddCases(p.Cases())
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		id    int64
		round int
	}
	seen := map[pair]int{}
	for _, s := range samples {
		seen[pair{s.CaseID, s.Round}]++
	}
	for _, c := range cases {
		for round := range p.Rounds {
			if n := seen[pair{c.ID, round}]; n != 1 {
				t.Errorf("%v has %d samples in round %d", c, n, round)
			}
		}
	}
	if want := len(cases) * p.Rounds; len(samples) != want {
		t.Errorf("%d samples, expected %d", len(samples), want)
	}
	return samples
}

func state(t testing.TB, run *results.Run, key string) string {
	t.Helper()
	v, _, err := run.State(key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type watcher struct {
	NoObserver
	samples  int
	messages []string
	last     Progress
	at       func(n int)
}

func (w *watcher) Message(text string)  { w.messages = append(w.messages, text) }
func (w *watcher) Progress(p Progress)  { w.last = p }
func (w *watcher) said(sub string) bool { return strings.Contains(strings.Join(w.messages, "\n"), sub) }
func (w *watcher) Sample(_ results.Case, s results.Sample) {
	if s.Phase != results.PhaseSweep {
		return
	}
	w.samples++
	if w.at != nil {
		w.at(w.samples)
	}
}

func TestBusyShare(t *testing.T) {
	d := declared(nil)
	plan := planned(t, d, "1:10", nil)
	for _, c := range []struct {
		elapsed       time.Duration
		seconds, want float64
	}{{0, 0, 0}, {0, 0.25, 0}, {time.Second, 0, 0}, {time.Second, 0.25, 0.25}, {2 * time.Second, 2, 1}} {
		w := &watcher{}
		r := &Runner{Plan: plan, Observer: w, start: d.Now(), left: map[string]time.Duration{},
			Now: func() time.Time { return d.Now().Add(c.elapsed) }}
		p := &part{r: r, rig: testRig(t, d, kernels.Normal, 1, time.Millisecond, 1)}
		p.rig.busy = c.seconds
		p.report(&station{c: simCase(8)}, results.Sample{US: 10}, 0, time.Second)
		if w.last.Elapsed != c.elapsed || w.last.Busy != c.want {
			t.Errorf("%g s of %v in blocks are told as %g of %v, expected %g", c.seconds, c.elapsed, w.last.Busy, w.last.Elapsed, c.want)
		}
	}
}

func TestSweepMeasuresThePlan(t *testing.T) {
	d := declared(nil)
	p := planned(t, d, "1:40", nil)
	run := newRun(t, p)
	w := &watcher{}
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	samples := complete(t, p, run)
	if sum.Status != StatusComplete || sum.Samples != 240 || sum.Failures != 0 || sum.Invalid != "" {
		t.Errorf("summary %+v", sum)
	}
	if state(t, run, StateStatus) != StatusComplete || state(t, run, StateInvalid) != "" {
		t.Errorf("states %q, %q", state(t, run, StateStatus), state(t, run, StateInvalid))
	}
	if math.Abs(sum.Efficiency-1) > 1e-3 {
		t.Errorf("efficiency %g, expected 1", sum.Efficiency)
	}
	cases := map[int64]results.Case{}
	all, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		cases[c.ID] = c
	}
	for _, s := range samples {
		c := cases[s.CaseID]
		rate := map[string]float64{"ours": 1e10, "theirs": 2e10}[c.Kernel]
		if want := 5 + c.FLOPs()/rate*1e6; math.Abs(s.US-want) > 1e-6*want {
			t.Fatalf("%v took %g us, the device was told %g", c, s.US, want)
		}
		if block := s.US * float64(s.Launches); block < 500 || block > max(2000, 2*s.US) {
			t.Errorf("%v: a block of %d launches lasts %g us, expected about 1 ms", c, s.Launches, block)
		}
		if s.ClockMHz != 2000 || s.PowerW != 100 {
			t.Errorf("%v: clock %g, power %g", c, s.ClockMHz, s.PowerW)
		}
		if want := fmt.Sprintf("tile%d", c.M%2); c.Kernel == "theirs" && c.Label != want {
			t.Errorf("%v is labelled %q, expected %q", c, c.Label, want)
		}
		launch := results.Launch{}
		if c.Kernel == "ours" {
			launch = tilingOfOurs(kernels.Task{Subject: kernels.Product("", 0, 0), M: c.M})
		}
		if c.Launch != launch {
			t.Errorf("%v was launched as %+v, the kernel told %+v", c, c.Launch, launch)
		}
	}
	// Rounds follow each other, each in its own published order.
	for round := range p.Rounds {
		for i, at := range RoundOrder(p.Seed, round, 80, nil) {
			s := samples[round*80+i]
			if c := p.Cases()[at]; s.Round != round || cases[s.CaseID].M != c.M || cases[s.CaseID].Kernel != c.Kernel {
				t.Fatalf("block %d of round %d is %v, expected %v", i, round, cases[s.CaseID], c)
			}
		}
	}
	sentinels, err := run.Samples(results.PhaseSentinel)
	if err != nil || len(sentinels) < 10 {
		t.Errorf("%d visits to the sentinel in 0.3 s, expected one in 20 ms (%v)", len(sentinels), err)
	}
	var rotations []Rotation
	if err := json.Unmarshal([]byte(state(t, run, StateRotation)), &rotations); err != nil || len(rotations) != 2 {
		t.Fatalf("rotations %v, %v", rotations, err)
	}
	for _, r := range rotations {
		if r.Copies != 6 || r.Bytes != 6*256*128*4 || !r.Enough {
			t.Errorf("rotation %+v, expected 6 copies", r)
		}
	}
	if w.last.Done != 240 || w.last.Planned != 240 || w.last.Left != 0 || w.last.MFU <= 0 {
		t.Errorf("the last progress is %+v", w.last)
	}
	if d.Used() != 0 {
		t.Errorf("%d bytes are still allocated", d.Used())
	}
}

// No copy of a matrix is used again before all others.
func TestWeightsRotate(t *testing.T) {
	for _, regime := range []results.Regime{results.Engine, results.Cold, results.Hot} {
		var order []int
		aSlots, cSlots := map[int]bool{}, map[int]bool{}
		d := declared(func(c *simulated.Config) {
			c.Gemms = c.Gemms[:1]
			c.Observe = func(b simulated.Block) {
				for i := range b.N {
					l := b.Launches[i%len(b.Launches)]
					order = append(order, l.Weights)
					if l.Task.M == 64 {
						aSlots[l.AOffset], cSlots[l.COffset] = true, true
					}
				}
			}
		})
		p := planned(t, d, "1,7,64,100", func(o *Options) { o.Regime, o.MinLaunches = regime, 3 })
		run := newRun(t, p)
		if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		copies := map[results.Regime]int{results.Engine: 6, results.Cold: 6, results.Hot: 1}[regime]
		if made := slices.Max(order); made != 3*copies {
			t.Errorf("%s: %d copies were made, want those of three rounds", regime, made)
		}
		for i := 1; i < len(order); i++ {
			// Copies are numbered in order of creation, restarting between rounds.
			if now, last := (order[i]-1)%copies, (order[i-1]-1)%copies; now != (last+1)%copies {
				t.Fatalf("%s: launch %d used copy %d after %d of %d", regime, i, now, last, copies)
			}
		}
		// Cold: 3·256 KiB ÷ (A 32 KiB + B 128 KiB + C 64 KiB) is 3.4, so four places suffice; six is the next
		// divisor of the copies.
		slots := map[results.Regime]int{results.Engine: 1, results.Cold: 6, results.Hot: 1}[regime]
		if len(aSlots) != slots || len(cSlots) != slots {
			t.Errorf("%s: %d places of A and %d of C, expected %d", regime, len(aSlots), len(cSlots), slots)
		}
	}
}

func TestResumeCompletesAnyPrefix(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		stops := rapid.SliceOfN(rapid.IntRange(1, 12), 1, 4).Draw(t, "stops")
		seed := rapid.Uint64().Draw(t, "seed")
		path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
		d := declared(nil)
		grid, _ := ParseBatches("1:6")
		p, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Targets: []Target{{N: 256, K: 128}}, Batches: grid,
			DTypes: []kernels.DType{kernels.FP32}, Rounds: 3, Seed: seed, BlockTarget: 100 * time.Microsecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := p.Encode()
		run, err := results.Create(path, results.Meta{Schema: results.SchemaVersion, Plan: data})
		if err != nil {
			t.Fatal(err)
		}
		for _, stop := range append(stops, math.MaxInt) {
			back, err := DecodePlan(run.Meta().Plan)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			w := &watcher{at: func(n int) {
				if n == stop {
					cancel()
				}
			}}
			sum, err := (&Runner{Plan: back, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(ctx)
			cancel()
			var interrupted *InterruptedError
			switch {
			case err == nil && sum.Status == StatusComplete:
			case errors.As(err, &interrupted) && errors.Is(err, context.Canceled) && sum.Status == StatusInterrupted:
				if w.samples != stop {
					t.Fatalf("%d samples after a stop at %d", w.samples, stop)
				}
			default:
				t.Fatalf("status %q, error %v", sum.Status, err)
			}
			if got, _, _ := run.State(StateStatus); got != sum.Status {
				t.Fatalf("state %q, summary %q", got, sum.Status)
			}
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
			if run, err = results.OpenAppend(path); err != nil {
				t.Fatal(err)
			}
		}
		defer run.Close()
		samples, err := run.Samples(results.PhaseSweep)
		if err != nil || len(samples) != 36 {
			t.Fatalf("%d samples, expected 36 (%v)", len(samples), err)
		}
		cases, _ := run.AddCases(p.Cases())
		for round := range 3 {
			for i, at := range RoundOrder(seed, round, 12, nil) {
				if s := samples[round*12+i]; s.Round != round || s.CaseID != cases[at].ID {
					t.Fatalf("the resumed run left the order at block %d of round %d", i, round)
				}
			}
		}
	})
}

type chooser struct {
	ms    []int
	until int
}

func (c chooser) Open(cases []results.Case, samples []results.Sample) ([]int64, error) {
	count := map[int64]int{}
	for _, s := range samples {
		count[s.CaseID]++
	}
	var out []int64
	for _, k := range cases {
		if slices.Contains(c.ms, k.M) && count[k.ID] < c.until {
			out = append(out, k.ID)
		}
	}
	return out, nil
}

func TestTimeGoesWhereAVerdictIsOpen(t *testing.T) {
	d := declared(nil)
	p := planned(t, d, "1:10", func(o *Options) { o.Rounds, o.Screening = 9, 2 })
	run := newRun(t, p)
	for range 2 {
		w := &watcher{}
		_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now,
			Chooser: chooser{[]int{4, 7}, 5}}).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if w.samples > 0 && w.last.Done != w.last.Planned {
			t.Errorf("progress ended at %d of %d", w.last.Done, w.last.Planned)
		}
	}
	cases, _ := run.Cases()
	done, _ := run.Done(results.PhaseSweep)
	for _, c := range cases {
		want := 2
		if c.M == 4 || c.M == 7 {
			want = 5
		}
		if len(done[c.ID]) != want {
			t.Errorf("%v has %d samples, expected %d", c, len(done[c.ID]), want)
		}
	}
}

func TestSetsOfWeightsTakeTurns(t *testing.T) {
	var most int64
	var d *simulated.Device
	d = declared(func(c *simulated.Config) {
		c.Observe = func(simulated.Block) { most = max(most, d.Used()) }
	})
	p := planned(t, d, "1:5", func(o *Options) { o.Targets = []Target{{N: 256, K: 128}, {N: 128, K: 256}, {N: 512, K: 64}} })
	run := newRun(t, p)
	w := &watcher{}
	// Six copies of 128 KiB, raw and for two kernels, are 2.4 MB.
	r := &Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now, MemoryBudget: 3 << 20}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	complete(t, p, run)
	if !w.said("3 sets that take turns") {
		t.Errorf("messages %q", w.messages)
	}
	if most > 3<<20 {
		t.Errorf("%d bytes were in use at once, the budget is 3 MiB", most)
	}
	if w.said("not in memory") {
		t.Errorf("a sentinel was visited while its weights were not in memory: %q", w.messages)
	}
}

func TestDevicesWorkSideBySide(t *testing.T) {
	a, b := declared(nil), declared(func(c *simulated.Config) { c.ID = "sim:1" })
	grid, _ := ParseBatches("1:10")
	p, err := NewPlan(t.Context(), []kernels.Device{a, b}, Options{Targets: []Target{{N: 256, K: 128}}, Batches: grid,
		DTypes: []kernels.DType{kernels.FP32}, Rounds: 4, BlockTarget: time.Millisecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{a, b}, Out: run, Observer: &watcher{}}).Run(context.Background())
	if err != nil || len(sum.WarmUp) != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	samples := complete(t, p, run)
	if len(samples) != 160 {
		t.Errorf("%d samples, expected 160", len(samples))
	}
}

// A known time passes around each block on this device.
func TestHostTimeIsCounted(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.HostOverhead = 250 * time.Microsecond })
	p := planned(t, d, "1:40", nil)
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	busy, blocks := d.Busy()
	want := busy.Seconds() / (busy.Seconds() + float64(blocks)*250e-6)
	if err != nil || math.Abs(sum.Efficiency-want) > 1e-3 || state(t, run, StateEfficiency) != fmt.Sprintf("%.4f", sum.Efficiency) {
		t.Errorf("efficiency %g, expected %g (%v)", sum.Efficiency, want, err)
	}

	kept := map[string]string{}
	for _, key := range []string{StateEfficiency, StateDrift, StateWarmUp, StateRotation} {
		kept[key] = state(t, run, key)
	}
	again, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if err != nil || again.Samples != 0 {
		t.Fatalf("%d samples, %v", again.Samples, err)
	}
	for key, before := range kept {
		if after := state(t, run, key); after != before {
			t.Errorf("%s was %s and is %s", key, before, after)
		}
	}
}
