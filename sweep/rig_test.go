package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/results"
)

// testRig is a rig on a device that always answers.
func testRig(t *testing.T, d kernels.Device, dist kernels.Distribution, seed uint64, target time.Duration, least int) *rig {
	t.Helper()
	b, err := newRig(d, dist, seed, target, least, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// loaded is a rig that has what cases need in memory.
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

// TestPartsFollowEachOther: each part of a split takes the rows of A and C behind those of the parts before it, a single row
// too.
func TestPartsFollowEachOther(t *testing.T) {
	for _, parts := range [][]int{{1, 7}, {3, 1, 4}} {
		var ran []kerneltest.LaunchInfo
		d := simulated(func(c *kerneltest.Config) { c.Observe = func(b kerneltest.Block) { ran = b.Launches } })
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
			if l.Problem.M != parts[i] || l.AOffset != ran[0].AOffset+row*c.K || l.COffset != ran[0].COffset+row*c.N {
				t.Errorf("parts %v: launch %d is %+v, expected to begin at row %d", parts, i, l, row)
			}
			row += parts[i]
		}
		if row != c.M {
			t.Errorf("parts %v: %d rows were computed", parts, row)
		}
	}
}

// TestLoadLeavesFlightsAlone: blocks in flight end before weights are made, while their own are still in memory, and go on where all are there.
func TestLoadLeavesFlightsAlone(t *testing.T) {
	first, second := simCase(8), simCase(8)
	second.N = 512
	d := &kerneltest.Starter{Device: simulated(nil)}
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
	b.budget = b.used // the first weights give way to others
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

// half is a device whose first runs take half a second.
type half struct{ *kerneltest.Device }

func (half) Prime(context.Context, kernels.Launch) (float64, error) { return 0.5, nil }

// TestPrimeTakesAllParts: the first run of a split takes what its parts take together.
func TestPrimeTakesAllParts(t *testing.T) {
	c := divided(simCase(8), 5, 3)
	b := loaded(t, half{simulated(nil)}, c)
	seconds, err := b.prime(t.Context(), &station{c: c})
	if err != nil || seconds != 1 || b.busy != 1 {
		t.Errorf("%g s, of which the device was busy %g, %v; expected 1 s", seconds, b.busy, err)
	}
}

// TestAdmitTakesRoom: the form that a kernel makes of weights is taken from the budget once, and belongs to what is given back with
// them; where the budget leaves no room for it, nothing is taken.
func TestAdmitTakesRoom(t *testing.T) {
	ours, theirs := simCase(8), simCase(8)
	theirs.Kernel = "theirs"
	b := loaded(t, simulated(nil), ours)
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
