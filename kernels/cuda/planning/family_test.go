package planning

import (
	"math"
	"testing"
)

type fakeFamily struct {
	label   string
	most    int
	seconds float64
	needs   int // compute capability × 10
}

func (f fakeFamily) Name() string         { return f.label }
func (f fakeFamily) Describe(Arch) string { return "fake" }
func (f fakeFamily) Supports(a Arch, rows int) string {
	switch {
	case a.CC < f.needs:
		return "needs a newer GPU"
	case rows > f.most:
		return "M is too large"
	}
	return ""
}
func (f fakeFamily) Plan(Arch, int) Plan[int] { return Plan[int]{Label: "tile", Seconds: f.seconds} }

func TestPick(t *testing.T) {
	type family = Family[int, int]
	narrow := fakeFamily{"narrow", 8, 1, 90}
	wide := fakeFamily{"wide", 1 << 20, 2, 0}
	same := fakeFamily{"same", 1 << 20, 2, 0}
	for _, c := range []struct {
		among []family
		cc, m int
		want  string
	}{
		{[]family{wide, narrow}, 90, 8, "narrow tile"},
		{[]family{wide, narrow}, 90, 9, "wide tile"},
		{[]family{wide, narrow}, 80, 8, "wide tile"},
		{[]family{wide, same}, 80, 8, "wide tile"},
		{[]family{same, wide}, 80, 8, "same tile"},
		{[]family{narrow}, 90, 9, ""},
		{nil, 90, 9, ""},
	} {
		best, plan, ok := Pick(c.among, Arch{CC: c.cc}, c.m)
		got := ""
		if ok {
			got = JoinLabel(best.Name(), plan.Label)
		}
		if got != c.want {
			t.Errorf("m%d on %d: picked %q, want %q", c.m, c.cc, got, c.want)
		}
	}
	got := Refusals([]family{narrow, narrow, wide}, Arch{CC: 80}, 2<<20)
	if want := "needs a newer GPU; M is too large"; got != want {
		t.Errorf("refused with %q, want %q", got, want)
	}
}

func TestAlignmentOf(t *testing.T) {
	for _, c := range []struct {
		address uint64
		row     int64
		want    int
	}{{0x1000, 8192, 16}, {0x1008, 8192, 8}, {0x1000, 8194, 2}, {0x1001, 16, 1}, {0x1004, 8, 4}} {
		if got := AlignmentOf(c.address, c.row); got != c.want {
			t.Errorf("%#x with rows of %d bytes: aligned to %d, want %d", c.address, c.row, got, c.want)
		}
	}
}

func TestWaveSeconds(t *testing.T) {
	a := Arch{SMs: 10, ClockMHz: 1} // a cycle is a microsecond
	for _, c := range []struct {
		tiles int
		want  float64 // in cycles
	}{
		{1, 60},     // one block alone
		{10, 60},    // one on each multiprocessor
		{11, 100},   // some have two, which share the multipliers
		{20, 100},   // a full wave
		{21, 160},   // a full wave and one block
		{2000, 1e4}, // a hundred waves
	} {
		if got := WaveSeconds(a, c.tiles, 2, 60, 100) * 1e6; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d tiles: %g cycles, want %g", c.tiles, got, c.want)
		}
	}
}
