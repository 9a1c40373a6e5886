package cuda

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// fakeFamily takes a fixed time for batches up to most.
type fakeFamily struct {
	label   string
	most    int
	seconds float64
	needs   int // compute capability × 10
}

func (f fakeFamily) Name() string         { return f.label }
func (f fakeFamily) Describe(arch) string { return "fake" }
func (f fakeFamily) Supports(a arch, p gemmProblem) string {
	switch {
	case a.cc < f.needs:
		return "needs a newer GPU"
	case p.M > f.most:
		return "M is too large"
	}
	return ""
}
func (f fakeFamily) Plan(arch, gemmProblem) gemmPlan {
	return gemmPlan{label: "tile", seconds: f.seconds}
}

func TestPick(t *testing.T) {
	narrow := fakeFamily{"narrow", 8, 1, 90}
	wide := fakeFamily{"wide", 1 << 20, 2, 0}
	same := fakeFamily{"same", 1 << 20, 2, 0}
	for _, c := range []struct {
		among []gemmFamily
		cc, m int
		want  string
	}{
		{[]gemmFamily{wide, narrow}, 90, 8, "narrow tile"},
		{[]gemmFamily{wide, narrow}, 90, 9, "wide tile"},
		{[]gemmFamily{wide, narrow}, 80, 8, "wide tile"},
		{[]gemmFamily{wide, same}, 80, 8, "wide tile"},
		{[]gemmFamily{same, wide}, 80, 8, "same tile"},
		{[]gemmFamily{narrow}, 90, 9, ""},
		{nil, 90, 9, ""},
	} {
		best, plan, ok := pick(c.among, arch{cc: c.cc}, gemmProblem{kernels.Problem{Shape: kernels.Shape{M: c.m, N: 1, K: 1}}, alignment{16, 16}})
		got := ""
		if ok {
			got = joinLabel(best.Name(), plan.label)
		}
		if got != c.want {
			t.Errorf("m%d on %d: picked %q, want %q", c.m, c.cc, got, c.want)
		}
	}
	got := refusals([]gemmFamily{narrow, narrow, wide}, arch{cc: 80}, gemmProblem{Problem: kernels.Problem{Shape: kernels.Shape{M: 2 << 20, N: 1, K: 1}}})
	if want := "needs a newer GPU; M is too large"; got != want {
		t.Errorf("refused with %q, want %q", got, want)
	}
}

// Every rung of the ladder is there or says why, on every architecture.
func TestPresent(t *testing.T) {
	for _, cc := range []int{75, 80, 86, 89, 90, 100, 120} {
		a := arch{cc: cc, sms: 100, sharedMax: 99 << 10, l2: 50 << 20, clockMHz: 1700, bandwidth: 1e12}
		there, missing := present(families, a)
		names := map[string]bool{}
		for _, f := range there {
			names[f.Name()] = true
			if f.Describe(a) == "" {
				t.Errorf("%d: %s does not describe itself", cc, f.Name())
			}
		}
		for _, m := range missing {
			if names[m.Name] || m.Reason == "" {
				t.Errorf("%d: %s is missing (%q) and there: %v", cc, m.Name, m.Reason, names[m.Name])
			}
		}
		for _, f := range families {
			if f.Name() == "naive" && !names["naive"] {
				t.Errorf("%d: naive is not there", cc)
			}
		}
		if cc != 90 && names["hopper"] {
			t.Errorf("%d: hopper is there", cc)
		}
		if d := describeAuto(there); !strings.Contains(d, "expected time") {
			t.Errorf("auto describes itself as %q", d)
		}
	}
}

func TestAlignmentOf(t *testing.T) {
	for _, c := range []struct {
		address uint64
		row     int64
		want    int
	}{{0x1000, 8192, 16}, {0x1008, 8192, 8}, {0x1000, 8194, 2}, {0x1001, 16, 1}, {0x1004, 8, 4}} {
		if got := alignmentOf(c.address, c.row); got != c.want {
			t.Errorf("%#x with rows of %d bytes: aligned to %d, want %d", c.address, c.row, got, c.want)
		}
	}
}
