package sweep

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// moody is a device whose kernels tell only after a launch what ran.
type moody struct {
	*simulated.Device
	label func(t kernels.Task) string
}

type moodyKernel struct{ kernels.Kernel }

type moodyLaunch struct {
	kernels.Launch
	task  kernels.Task
	label string
}

func (d *moody) Kernels(o kernels.Operation) (out []kernels.Kernel) {
	for _, k := range d.Device.Kernels(o) {
		out = append(out, moodyKernel{k})
	}
	return out
}

func (k moodyKernel) Process() string { return kernels.ProcessOf(k.Kernel) }

func (k moodyKernel) Bind(t kernels.Task, in kernels.Operand, w kernels.Weights, out kernels.Operand,
	more ...kernels.Operand) (kernels.Launch, error) {
	l, err := k.Kernel.Bind(t, in, w, out, more...)
	return &moodyLaunch{Launch: l, task: t}, err
}

func (l *moodyLaunch) Label() string { return l.label }

func (d *moody) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	own := make([]kernels.Launch, len(launches))
	for i, l := range launches {
		own[i] = l
		if m, ok := l.(*moodyLaunch); ok {
			own[i], m.label = m.Launch, d.label(m.task)
		}
	}
	return d.Device.Execute(ctx, own, n)
}

// newMoody has one kernel, of another process.
func newMoody(label func(kernels.Task) string) *moody {
	return &moody{declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Process, c.Gemms[0].Tiling = "python", nil
	}), label}
}

// Launches that change are stored with the round: at a later round, a resume, a confirmation, and between launches
// of one block.
func TestLaunchesThatChange(t *testing.T) {
	round, name := 0, "first_64x128"
	label := func(t kernels.Task) string {
		if t.M == 2 {
			return name
		}
		return fmt.Sprintf("same_m%d", t.M)
	}
	d := newMoody(label)
	p := planned(t, d, "1:4", func(o *Options) { o.Rounds = 4 })
	run := newRun(t, p)
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{}
	seen := 0
	w.at = func(int) {
		if seen++; seen%4 != 0 {
			return
		}
		switch round = seen / 4; round {
		case 2:
			name = "second_128x128"
		case 3:
			stop()
		}
	}
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Observer: w}).Run(ctx); err == nil {
		t.Fatal("it was not interrupted")
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	id := cases[slices.IndexFunc(cases, func(c results.Case) bool { return c.M == 2 })].ID
	other := func(label string, side int, round int) results.OtherLaunch {
		return results.OtherLaunch{CaseID: id, Label: label, Launch: results.Launch{Tile: [3]int{side, side}}, Phase: "sweep", Round: round}
	}
	want := []results.OtherLaunch{other("second_128x128", 128, 2)}
	others := func() []results.OtherLaunch {
		all, err := run.OtherLaunches()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if diff := cmp.Diff(want, others()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if !w.said("ran second_128x128 in round 2, first_64x128 before") {
		t.Errorf("it said %q", w.messages)
	}

	// After a restart another launch comes up.
	name = "third_64x64"
	again := newMoody(label)
	if _, err := startOn(again, p, run, patience); err != nil {
		t.Fatal(err)
	}
	complete(t, p, run)
	want = append(want, other("third_64x64", 64, 3))
	if diff := cmp.Diff(want, others()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}

	// The confirmation alternates between a known launch and a new one.
	flip := false
	third := newMoody(func(k kernels.Task) string {
		if flip = !flip; flip && k.M == 2 {
			return "fourth"
		}
		return label(k)
	})
	m := newMeasurer(t, third, run, func(c *MeasureConfig) { c.Now = third.Now })
	request := []results.Request{{Case: simCase(2), Phase: results.PhaseConfirm}, {Case: simCase(3), Phase: results.PhaseConfirm}}
	if _, err := m.Measure(t.Context(), request, 2); err != nil {
		t.Fatal(err)
	}
	fourth := results.OtherLaunch{CaseID: id, Label: "fourth", Phase: "confirm"}
	if diff := cmp.Diff(append([]results.OtherLaunch{fourth}, want...), others()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := m.OtherLaunches(); !slices.Contains(got, fourth) {
		t.Errorf("the measurer tells of %+v", got)
	}
	cases, err = run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if want := map[bool]string{true: "first_64x128", false: fmt.Sprintf("same_m%d", c.M)}[c.M == 2]; c.Label != want {
			t.Errorf("%v has label %q, expected %q", c, c.Label, want)
		}
	}
}
