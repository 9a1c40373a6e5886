package sweep

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestTurnsOfProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, round := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "round")
		n, most := rapid.IntRange(0, 200).Draw(t, "cases"), rapid.IntRange(1, 3).Draw(t, "processes")
		names := make([]string, n)
		times := make([]time.Duration, n)
		var longest time.Duration
		for i := range n {
			names[i] = []string{"", "python", "other"}[rapid.IntRange(0, most-1).Draw(t, "process")]
			times[i] = time.Duration(rapid.IntRange(0, 60_000).Draw(t, "us")) * time.Microsecond
			longest = max(longest, times[i])
		}
		var group []int
		if sets := rapid.IntRange(0, 3).Draw(t, "sets"); sets > 0 {
			for range n {
				group = append(group, rapid.IntRange(0, sets-1).Draw(t, "set"))
			}
		}
		process, expected := func(i int) string { return names[i] }, func(i int) time.Duration { return times[i] }
		order := RoundOrder(seed, round, n, group)
		got := turnsOf(seed, round, order, group, process, expected)
		if !slices.Equal(got, turnsOf(seed, round, order, group, process, expected)) {
			t.Fatal("the same seed gave another order")
		}
		for _, name := range []string{"", "python", "other"} {
			of := func(all []int) []int {
				return slices.DeleteFunc(slices.Clone(all), func(i int) bool { return names[i] != name })
			}
			if !slices.Equal(of(got), of(order)) {
				t.Fatalf("%q runs %v, expected the order %v", name, of(got), of(order))
			}
		}
		sets := [][]int{got}
		if group != nil {
			sets = nil
			for first, i := 0, 1; i <= n; i++ {
				if i == n || group[got[i]] != group[got[first]] {
					sets, first = append(sets, got[first:i]), i
				}
			}
			if distinct := len(slices.Compact(slices.Sorted(slices.Values(group)))); len(sets) > distinct {
				t.Fatalf("%d sets of weights became %d", distinct, len(sets))
			}
		}
		for _, set := range sets {
			evenly(t, set, process, expected, max(slice, longest))
		}
	})
}

// evenly checks that at every moment each process has had its share of its time, up to a slice.
func evenly(t *rapid.T, set []int, process func(int) string, expected func(int) time.Duration, most time.Duration) {
	total, done := map[string]float64{}, map[string]float64{}
	for _, i := range set {
		total[process(i)] += float64(max(1, expected(i)))
	}
	for _, i := range set {
		done[process(i)] += float64(max(1, expected(i)))
		for a := range total {
			for b := range total {
				apart := math.Abs(done[a]/total[a] - done[b]/total[b])
				if bound := float64(most) * (1/total[a] + 1/total[b]); apart > bound+1e-9 {
					t.Fatalf("%q has had %.3f of its time while %q has had %.3f, expected at most %.3f apart", a, done[a]/total[a],
						b, done[b]/total[b], bound)
				}
			}
		}
	}
}

// One process doesn't wait for the other, and either may begin.
func TestTurnsAlternate(t *testing.T) {
	begins := map[string]int{}
	for seed := range uint64(200) {
		order := RoundOrder(seed, 0, 100, nil)
		process := func(i int) string { return []string{"", "python"}[i%2] }
		got := turnsOf(seed, 0, order, nil, process, func(int) time.Duration { return 5 * time.Millisecond })
		begins[process(got[0])]++
		run := 0
		for i := range got {
			if i > 0 && process(got[i]) != process(got[i-1]) {
				run = 0
			}
			if run++; run > 4 {
				t.Fatalf("seed %d: blocks %v: more than 20 ms of one process", seed, got)
			}
		}
		if switches := countSwitches(got, process); switches != 25 {
			t.Fatalf("seed %d: %d switches of 26 slices", seed, switches)
		}
	}
	if begins[""] < 70 || begins["python"] < 70 {
		t.Errorf("processes began %v times", begins)
	}
}

func countSwitches(order []int, process func(int) string) (n int) {
	for i := 1; i < len(order); i++ {
		if process(order[i]) != process(order[i-1]) {
			n++
		}
	}
	return n
}

// twoProcesses has "ours" in this process and "mine" in another.
func twoProcesses(observe func(simulated.Block)) *simulated.Device {
	return declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		mine := c.Gemms[0]
		mine.Name, mine.Process = "mine", "python"
		c.Gemms = append(c.Gemms, mine)
		c.Observe = observe
	})
}

func TestSweepRunsInSlices(t *testing.T) {
	for _, asynchronous := range []bool{false, true} {
		var blocks []string
		sweeping := false
		v := twoProcesses(func(b simulated.Block) {
			if sweeping {
				blocks = append(blocks, b.Launches[0].Kernel)
			}
		})
		var d clocked = v
		if asynchronous {
			d = &simulated.Starter{Device: v}
		}
		p := planned(t, d, "1:40", func(o *Options) { o.Sentinel.Every = time.Hour })
		run := newRun(t, p)
		w := &firstRound{then: func() { sweeping = true }}
		if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Observer: w}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		complete(t, p, run)
		switches := 0
		for i := 1; i < len(blocks); i++ {
			if blocks[i] != blocks[i-1] {
				switches++
			}
		}
		// Rounds of 80 blocks of a millisecond have four slices.
		if switches < 5 || switches > 12 {
			t.Errorf("asynchronous %v: %d switches in two rounds: %v", asynchronous, switches, blocks)
		}
	}
}

// firstRound calls then once a round has ended.
type firstRound struct {
	NoObserver
	then func()
}

func (f *firstRound) Sample(_ results.Case, s results.Sample) {
	if s.Phase == results.PhaseSweep && s.Round == 1 && f.then != nil {
		f.then()
		f.then = nil
	}
}

// No block is queued behind another, whichever process it is of.
func TestSharedDeviceHasOneBlock(t *testing.T) {
	for _, tc := range []struct {
		d     *simulated.Device
		aloft int
	}{{declared(nil), 1}, {twoProcesses(nil), 0}} {
		b := loaded(t, &simulated.Starter{Device: tc.d}, simCase(8))
		s := &station{c: simCase(8)}
		if err := b.pilot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := b.begin(t.Context(), s, 1, false, func(time.Time, kernels.Span, error) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if len(b.flights) != tc.aloft {
			t.Errorf("%d blocks in flight, expected %d", len(b.flights), tc.aloft)
		}
		if err := b.land(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMixedGroupsAreABBA(t *testing.T) {
	var blocks []string
	m := newMeasurer(t, twoProcesses(func(b simulated.Block) { blocks = append(blocks, b.Launches[0].Kernel) }), nil, nil)
	mine := simCase(8)
	mine.Kernel = "mine"
	second := simCase(9)
	requests := []results.Request{
		{Case: simCase(8), Phase: results.PhaseConfirm, Group: 1}, {Case: mine, Phase: results.PhaseConfirm, Group: 1},
		{Case: second, Phase: results.PhaseConfirm, Group: 1}}
	if _, err := m.Measure(context.Background(), requests, 1); err != nil { // pilots
		t.Fatal(err)
	}
	begins := map[string]int{}
	for range 40 {
		blocks = nil
		if _, err := m.Measure(context.Background(), requests, 4); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(blocks); i += 6 {
			ab, ba := slices.Clone(blocks[i:i+3]), slices.Clone(blocks[i+3:i+6])
			if slices.Reverse(ba); !slices.Equal(ab, ba) || ab[1] == "mine" {
				t.Fatalf("rounds %v and %v, expected one to reverse the other, with one switch each", ab, blocks[i+3:i+6])
			}
			begins[ab[0]]++
		}
	}
	if begins["ours"] < 20 || begins["mine"] < 10 {
		t.Errorf("pairs of rounds began with %v", begins)
	}
}

// copyless is a device that can't copy as a launch.
type copyless struct{ kernels.Device }

// A remedy of another process's kernel runs there as a whole, or is refused.
func TestRemediesOfAnotherProcess(t *testing.T) {
	var ran []simulated.LaunchInfo
	v := twoProcesses(func(b simulated.Block) { ran = b.Launches })
	split, padded, copied, direct := simCase(8), simCase(8), simCase(8), simCase(8)
	split.Parts, padded.PadTo, copied.PadTo, copied.Copied = []int{3, 5}, 16, 16, true
	for _, tc := range []struct {
		name   string
		c      results.Case
		device kernels.Device
		parts  []bool // which launches compute a part of the output
		fails  string
	}{
		{"direct", direct, v, []bool{false}, ""}, {"split", split, v, []bool{true, true}, ""}, {"padded", padded, v, []bool{false}, ""},
		{"copied", copied, v, []bool{false, false}, ""}, {"copied, without copies", copied, copyless{v}, nil, "copies no rows as a launch"},
	} {
		tc.c.Kernel = "mine"
		b := loaded(t, tc.device, tc.c)
		ran = nil
		_, err := b.block(t.Context(), &station{c: tc.c}, 1)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) || ran != nil {
				t.Errorf("%s: %v, %d launches ran; expected %q", tc.name, err, len(ran), tc.fails)
			}
			continue
		}
		var parts []bool
		for _, l := range ran {
			parts = append(parts, l.Task.Part)
		}
		if err != nil || !slices.Equal(parts, tc.parts) {
			t.Errorf("%s: parts %v, expected %v: %v", tc.name, parts, tc.parts, err)
		}
	}
}
