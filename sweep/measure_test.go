package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func simCase(m int) results.Case {
	return results.Case{M: m, SeriesKey: results.SeriesKey{
		Device: "sim", Kernel: "ours", Subject: kernels.Product(kernels.FP32, 256, 128), Regime: results.Engine}}
}

func newMeasurer(t *testing.T, d kernels.Device, run *results.Run, change func(*MeasureConfig)) *Measurer {
	t.Helper()
	cfg := MeasureConfig{Devices: []kernels.Device{d}, Out: run, Seed: 5, BlockTarget: time.Millisecond,
		Sentinel: SentinelConfig{SettleWindow: time.Millisecond, SettleWindows: 2, SettleSpread: 0.1, SettleCap: 20 * time.Millisecond}}
	if v, ok := d.(*simulated.Device); ok {
		cfg.Now = v.Now
	}
	if change != nil {
		change(&cfg)
	}
	m, err := NewMeasurer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestMeasureInterleaves(t *testing.T) {
	d := declared(nil)
	p := planned(t, d, "1:3", nil)
	run := newRun(t, p)
	m := newMeasurer(t, d, run, nil)
	requests := []results.Request{
		{Case: simCase(64), Phase: results.PhaseConfirm},
		{Case: simCase(32), Phase: results.PhaseConfirm},
		{Case: simCase(32), Phase: results.PhaseConfirm}, // a reference of two suspects
		{Case: simCase(64), Phase: results.PhaseRemedy},
	}
	for call := range 2 {
		got, err := m.Measure(context.Background(), requests, 6)
		if err != nil {
			t.Fatal(err)
		}
		var first []int
		seqs := map[int64]int{}
		for i, samples := range got {
			if len(samples) != 6 {
				t.Fatalf("request %d has %d samples", i, len(samples))
			}
			for _, s := range samples {
				seqs[s.Seq] = i
				if want := 5 + simCase(requests[i].Case.M).FLOPs()/1e10*1e6; math.Abs(s.US-want) > 1e-6*want {
					t.Errorf("request %d took %g us, expected %g", i, s.US, want)
				}
			}
		}
		if len(seqs) != 24 {
			t.Fatalf("24 blocks have %d places in the order", len(seqs))
		}
		base := int64(24 * call)
		orders := map[string]bool{}
		for round := range int64(6) {
			var order []int
			for at := range int64(4) {
				order = append(order, seqs[base+4*round+at])
			}
			if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3}) {
				t.Errorf("round %d ran requests %v", round, order)
			}
			orders[results.JoinInts(order, " ")] = true
			first = append(first, order[0])
		}
		if len(orders) < 3 {
			t.Errorf("six rounds had the orders %v, starting %v", orders, first)
		}
	}
	done, err := run.Done(results.PhaseConfirm)
	if err != nil {
		t.Fatal(err)
	}
	counts := []int{}
	for _, rounds := range done {
		if rounds[len(rounds)-1] != len(rounds)-1 {
			t.Errorf("rounds %v have gaps", rounds)
		}
		counts = append(counts, len(rounds))
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{12, 24}) {
		t.Errorf("%v samples a case are stored, expected 12 and 24", counts)
	}
	again := newMeasurer(t, d, run, nil)
	got, err := again.Measure(context.Background(), requests[:1], 1)
	if err != nil || got[0][0].Round != 12 || got[0][0].Seq != 48 {
		t.Errorf("%+v, %v; expected round 12, seq 48", got, err)
	}
}

// A group's blocks are adjacent in every round, in changing order.
func TestGroupsAreAdjacent(t *testing.T) {
	var blocks []int
	d := declared(func(c *simulated.Config) {
		c.Observe = func(b simulated.Block) { blocks = append(blocks, b.Launches[0].Task.M) }
	})
	m := newMeasurer(t, d, nil, nil)
	group := map[int]int{10: 7, 11: 0, 12: 9, 13: 7, 14: 0, 15: 9, 16: 7}
	var requests []results.Request
	for i := 10; i <= 16; i++ {
		requests = append(requests, results.Request{Case: simCase(i), Phase: results.PhaseRemedy, Group: group[i]})
	}
	if _, err := m.Measure(context.Background(), requests, 1); err != nil { // pilots
		t.Fatal(err)
	}
	blocks = nil
	const rounds = 40
	if _, err := m.Measure(context.Background(), requests, rounds); err != nil {
		t.Fatal(err)
	}
	if len(blocks) != rounds*len(requests) {
		t.Fatalf("%d blocks of %d rounds", len(blocks), rounds)
	}
	within, between := map[string]bool{}, map[string]bool{}
	for round := range rounds {
		order := blocks[round*len(requests):][:len(requests)]
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{10, 11, 12, 13, 14, 15, 16}) {
			t.Fatalf("round %d ran M %v", round, order)
		}
		var first, members []int
		for i, m := range order {
			if g := group[m]; g == 7 {
				members = append(members, m)
				if at := slices.IndexFunc(order, func(o int) bool { return group[o] == 7 }); i-at > 2 {
					t.Fatalf("round %d: %v takes the group of 10, 13 and 16 apart", round, order)
				}
			} else if g == 9 &&
				!slices.ContainsFunc(order[max(0, i-1):min(len(order), i+2)], func(o int) bool { return o != m && group[o] == 9 }) {
				t.Fatalf("round %d: %v takes the group of 12 and 15 apart", round, order)
			}
			if group[m] == 0 {
				first = append(first, m)
			} else if i == 0 || group[m] != group[order[i-1]] {
				first = append(first, group[m])
			}
		}
		within[results.JoinInts(members, " ")], between[results.JoinInts(first, " ")] = true, true
	}
	if len(within) != 6 || len(between) < 12 {
		t.Errorf("a group of three ran in %d orders, four sets in %d", len(within), len(between))
	}
}

// Parts are adjacent, on consecutive rows of one A and C and with one copy of the weights.
func TestSplitsAndPaddingAreExecutedAsTheyWouldBeUsed(t *testing.T) {
	var blocks []simulated.Block
	d := declared(func(c *simulated.Config) {
		c.Observe = func(b simulated.Block) { blocks = append(blocks, b) }
	})
	m := newMeasurer(t, d, nil, nil)
	split, padded := simCase(40), simCase(40)
	split.Parts, padded.PadTo = []int{8, 20, 12}, 64
	got, err := m.Measure(context.Background(), []results.Request{
		{Case: simCase(40), Phase: results.PhaseRemedy}, {Case: split, Phase: results.PhaseRemedy},
		{Case: padded, Phase: results.PhaseRemedy}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	per := simCase(1).FLOPs() / 1e10 * 1e6
	for i, want := range []float64{5 + 40*per, 3*5 + 40*per, 5 + 64*per} {
		for _, s := range got[i] {
			if math.Abs(s.US-want) > 1e-6*want {
				t.Errorf("request %d took %g us, expected %g: all launches count", i, s.US, want)
			}
		}
	}
	if got[0][0].CaseID == got[1][0].CaseID || got[1][0].CaseID == got[2][0].CaseID {
		t.Error("a split, padding and the direct product are one case")
	}
	for _, b := range blocks {
		switch b.Launches[0].Task.M {
		case 8:
			if b.N%3 != 0 {
				t.Fatalf("%d launches for a split in three", b.N)
			}
			for i, l := range b.Launches {
				part, row := i%3, []int{0, 8, 28}[i%3]
				if l.Task.M != split.Parts[part] || l.AOffset != row*128 || l.COffset != row*256 ||
					l.Weights != b.Launches[i-part].Weights {
					t.Fatalf("launch %d of a split is %+v", i, l)
				}
			}
		case 40, 64:
			for _, l := range b.Launches {
				if l.AOffset != 0 || l.COffset != 0 {
					t.Fatalf("a single launch is %+v", l)
				}
			}
		default:
			t.Fatalf("a launch of %d rows", b.Launches[0].Task.M)
		}
	}
}

func TestMeasureRecordsFailures(t *testing.T) {
	d := declared(func(c *simulated.Config) {
		c.Gemms[0].ExecuteError = func(p kernels.Task) error {
			if p.M == 13 {
				return errors.New("launch error 719")
			}
			return nil
		}
	})
	run := newRun(t, planned(t, d, "1:3", nil))
	w := &watcher{}
	m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.Observer = w })
	got, err := m.Measure(context.Background(), []results.Request{
		{Case: simCase(13), Phase: results.PhaseConfirm}, {Case: simCase(12), Phase: results.PhaseConfirm}}, 4)
	if err != nil || len(got[0]) != 0 || len(got[1]) != 4 {
		t.Fatalf("%d and %d samples, %v", len(got[0]), len(got[1]), err)
	}
	failures, err := run.Failures()
	if err != nil || len(failures) != 1 || !strings.Contains(failures[0].Reason, "719") || !w.said("719") {
		t.Errorf("failures %v, %v", failures, err)
	}
}

func TestMeasureRefuses(t *testing.T) {
	d := declared(nil)
	m := newMeasurer(t, d, nil, nil)
	for _, c := range []struct {
		change func(*results.Case)
		want   string
	}{
		{func(c *results.Case) { c.Device = "cuda:1" }, `no device "cuda:1"`},
		{func(c *results.Case) { c.M = 0 }, "M 0, expected at least 1"},
		{func(c *results.Case) { c.Parts = []int{3, 4} }, "add up to 7"},
		{func(c *results.Case) { c.Parts = []int{0, 8} }, "a part of 0 rows"},
		{func(c *results.Case) { c.PadTo = 4 }, "padded to 4"},
		// Hand-written tables may contain this: A would have 2^64 bytes, which overflows to 0.
		{func(c *results.Case) { c.M, c.K = 1<<31, 1<<31 }, "m2147483648 n256 k2147483648 has a dimension of 2147483648"},
		{func(c *results.Case) { c.PadTo = 1 << 31 }, "→ 2147483648 has a dimension of 2147483648"},
	} {
		k := simCase(8)
		c.change(&k)
		if _, err := m.Measure(context.Background(), []results.Request{{Case: k, Phase: results.PhaseConfirm}}, 1); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected %q", err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Measure(ctx, []results.Request{{Case: simCase(8), Phase: results.PhaseConfirm}}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := NewMeasurer(MeasureConfig{}); err == nil {
		t.Error("a measurer without a device")
	}
}

func TestNoiseFloor(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.Noise = simulated.Disturbances{Sigma: 0.02} })
	m := newMeasurer(t, d, nil, nil)
	calls := 0
	n, err := m.NoiseFloor(context.Background(), simCase(64), 200, 7, func(a, b []float64) bool {
		calls++
		return stats.Median(a) > 1.02*stats.Median(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 200 || len(n.Ratios) != 200 || !slices.IsSorted(n.Ratios) {
		t.Fatalf("%d calls, %d ratios", calls, len(n.Ratios))
	}
	// The median of seven has 1.25·σ/√7, the ratio of two √2 times that: 1.3 %.
	if mid := n.Quantile(0.5); math.Abs(mid-1) > 0.005 {
		t.Errorf("the middle ratio is %g", mid)
	}
	if width := n.Quantile(0.84) - n.Quantile(0.16); width < 0.018 || width > 0.036 {
		t.Errorf("the ratios are %g wide, expected about 0.027", width)
	}
	above := 0
	for _, r := range n.Ratios {
		if r > 1.02 {
			above++
		}
	}
	if n.Flagged != above || n.Rate != float64(above)/200 || above < 2 || above > 30 {
		t.Errorf("%d flagged, %d ratios above 1.02, rate %g", n.Flagged, above, n.Rate)
	}
}

func TestMeasureTakesSetsInTurn(t *testing.T) {
	var most int64
	var d *simulated.Device
	d = declared(func(c *simulated.Config) {
		c.Observe = func(simulated.Block) { most = max(most, d.Used()) }
	})
	m := newMeasurer(t, d, nil, func(c *MeasureConfig) { c.MemoryBudget = 2 << 20 })
	var requests []results.Request
	for _, n := range []int{256, 255, 254} {
		c := simCase(8)
		c.N = n
		requests = append(requests, results.Request{Case: c, Phase: results.PhaseConfirm})
	}
	got, err := m.Measure(context.Background(), requests, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got {
		if len(s) != 3 {
			t.Errorf("request %d has %d samples", i, len(s))
		}
	}
	if most > 2<<20 {
		t.Errorf("%d bytes were in use at once, the budget is 2 MiB", most)
	}
}
