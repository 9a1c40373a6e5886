package results_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/merge"
)

func TestOtherLaunches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.db")
	r, err := results.Create(path, results.SomeMeta())
	must(t, err)
	cases, err := r.AddCases([]results.Case{{SeriesKey: results.SomeKey, M: 4}, {SeriesKey: results.SomeKey, M: 8}})
	must(t, err)
	if all, err := r.OtherLaunches(); err != nil || all != nil {
		t.Errorf("%v, %v before any", all, err)
	}
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 0, 0)))
	want := []results.OtherLaunch{
		{CaseID: cases[0].ID, Label: "b", Launch: results.Launch{Tile: [3]int{64, 128, 32}, Split: 2}, Phase: results.PhaseSweep, Round: 3},
		{CaseID: cases[1].ID, Label: "b", Phase: results.PhaseConfirm},
		{CaseID: cases[1].ID, Label: "b", Launch: results.Launch{Split: 2}, Phase: results.PhaseSweep, Round: 1},
	}
	for _, o := range want {
		must(t, r.AddLaunch(o))
	}
	again := want[0]
	again.Round = 5
	must(t, r.AddLaunch(again)) // the first is kept
	for _, tt := range []struct {
		change func(o *results.OtherLaunch)
		want   string
	}{
		{func(o *results.OtherLaunch) { o.CaseID = 99 }, "there is no case 99"},
		{func(o *results.OtherLaunch) { o.Phase = "" }, `a launch of phase "", round 3`},
		{func(o *results.OtherLaunch) { o.Round = -1 }, "round -1"},
		{func(o *results.OtherLaunch) { o.Launch.Split = -1 }, "split"},
		{func(o *results.OtherLaunch) { o.Label = strings.Repeat("x", results.MaxText+1) }, "a text of more than 4096 bytes"},
	} {
		o := want[0]
		tt.change(&o)
		if err := r.AddLaunch(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, expected %q", err, tt.want)
		}
	}
	must(t, r.Close())
	merged, err := merge.Runs(t.Context(), filepath.Join(t.TempDir(), "merged.db"), []string{path}, merge.Options{})
	must(t, err)
	defer merged.Close()
	for name, run := range map[string]*results.Run{"run": must1(results.Open(path))(t), "merged": merged} {
		got, err := run.OtherLaunches()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		must(t, run.Close())
	}
	r = must1(results.Open(path))(t)
	defer r.Close()
	if err := r.AddLaunch(want[0]); !errors.Is(err, results.ErrReadOnly) {
		t.Errorf("%v, expected ErrReadOnly", err)
	}
}

// A case gets the label that is stored of it.
func TestAddCasesTellsLabels(t *testing.T) {
	r, err := results.Create(filepath.Join(t.TempDir(), "run.db"), results.SomeMeta())
	must(t, err)
	defer r.Close()
	cases, err := r.AddCases([]results.Case{{SeriesKey: results.SomeKey, M: 4}})
	must(t, err)
	must(t, r.SetLaunch(cases[0].ID, "a", results.Launch{Split: 2}))
	again, err := r.AddCases([]results.Case{{SeriesKey: results.SomeKey, M: 4}, {SeriesKey: results.SomeKey, M: 4, Label: "b"}})
	must(t, err)
	if again[0].Label != "a" || again[0].Launch.Split != 2 || again[1].Label != "b" {
		t.Errorf("%+v", again)
	}
}
