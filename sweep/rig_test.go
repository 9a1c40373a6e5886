package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func testRig(t *testing.T, d kernels.Device, dist kernels.Distribution, seed uint64, target time.Duration, least int) *rig {
	t.Helper()
	b, err := newRig(d, dist, seed, target, least, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func loaded(t *testing.T, d kernels.Device, cases ...results.Case) *rig {
	t.Helper()
	b := testRig(t, d, kernels.Normal, 1, time.Millisecond, 1)
	if failed, err := b.load(t.Context(), demands(cases, b.spec.LastLevelCacheBytes)); err != nil || failed != nil {
		t.Fatal(failed, err)
	}
	if err := b.reserve(t.Context(), cases); err != nil {
		t.Fatal(err)
	}
	return b
}

// Each part of a split uses the rows of A and C after the previous part's, even for a single row.
func TestPartsFollowEachOther(t *testing.T) {
	for _, parts := range [][]int{{1, 7}, {3, 1, 4}} {
		var ran []simulated.LaunchInfo
		d := declared(func(c *simulated.Config) { c.Observe = func(b simulated.Block) { ran = b.Launches } })
		c := divided(simCase(8), parts...)
		b := loaded(t, d, c)
		s := &station{c: c}
		if err := b.ready(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		var launches []kernels.Launch
		for step := range parts {
			l, err := b.launch(s, 0, step)
			if err != nil {
				t.Fatal(err)
			}
			launches = append(launches, l)
		}
		if _, err := d.Execute(t.Context(), launches, len(launches)); err != nil {
			t.Fatal(err)
		}
		row := 0
		for i, l := range ran {
			if l.Task.M != parts[i] || l.AOffset != ran[0].AOffset+row*c.K || l.COffset != ran[0].COffset+row*c.N {
				t.Errorf("parts %v: launch %d is %+v, expected to begin at row %d", parts, i, l, row)
			}
			row += parts[i]
		}
		if row != c.M {
			t.Errorf("parts %v: %d rows were computed", parts, row)
		}
	}
}

// Blocks in flight land before weights are loaded, while their own are still in memory.
func TestLoadLeavesFlightsAlone(t *testing.T) {
	first, second := simCase(8), simCase(8)
	second.N = 512
	d := &simulated.Starter{Device: declared(nil)}
	b := loaded(t, d, first)
	s := &station{c: first}
	if err := b.pilot(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := b.land(); err != nil {
		t.Fatal(err)
	}
	landed := 0
	err := b.begin(t.Context(), s, 1, false, func(_ time.Time, _ kernels.Span, err error) error {
		landed++
		if b.sets[matrixOf(first)] == nil || b.sets[matrixOf(second)] != nil {
			t.Error("the weights in memory changed under a block in flight")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.budget = b.used // the first weights must be freed
	for _, step := range []struct {
		c      results.Case
		landed int
	}{{first, 0}, {second, 1}} {
		if failed, err := b.load(t.Context(), demands([]results.Case{step.c}, b.spec.LastLevelCacheBytes)); err != nil || failed != nil {
			t.Fatal(failed, err)
		}
		if landed != step.landed {
			t.Errorf("loading the weights of n%d ended %d blocks, expected %d", step.c.N, landed, step.landed)
		}
	}
	if b.sets[matrixOf(first)] != nil || b.sets[matrixOf(second)] == nil {
		t.Error("the first weights did not give way to the second")
	}
}

type half struct{ *simulated.Device }

func (half) Prime(context.Context, kernels.Launch) (float64, error) { return 0.5, nil }

// The first run of a split takes the sum of its parts.
func TestPrimeTakesAllParts(t *testing.T) {
	c := divided(simCase(8), 5, 3)
	b := loaded(t, half{declared(nil)}, c)
	seconds, err := b.prime(t.Context(), &station{c: c})
	if err != nil || seconds != 1 || b.busy != 1 {
		t.Errorf("%g s, of which the device was busy %g, %v; expected 1 s", seconds, b.busy, err)
	}
}

// A packed form counts once against the budget and is released with its weights.
func TestAdmitTakesRoom(t *testing.T) {
	ours, theirs := simCase(8), simCase(8)
	theirs.Kernel = "theirs"
	b := loaded(t, declared(nil), ours)
	s, bare := b.sets[matrixOf(ours)], b.used
	b.budget = bare
	if b.admit(theirs) || b.used != bare {
		t.Errorf("without room %d bytes are taken of %d", b.used, bare)
	}
	b.budget = 10 * bare
	for range 2 {
		if !b.admit(theirs) || b.used <= bare || s.cost != b.used {
			t.Errorf("%d bytes are taken beside the weights' %d, of which %d are given back with them", b.used-bare, bare, s.cost)
		}
	}
	other := simCase(8)
	other.N = 512
	if b.admit(other) {
		t.Error("weights that are not in memory are admitted")
	}
}
