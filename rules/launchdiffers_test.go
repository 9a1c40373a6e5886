package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestLaunchDiffers(t *testing.T) {
	told := results.LaunchKind{Label: "a", Tile: [3]int{64, 128, 32}, Split: 1}
	row := func(m int, label string, tile [3]int, split int) results.Row {
		return results.Row{Case: results.Case{SeriesKey: synthetic.Key, M: m, Label: label,
			Launch: results.Launch{Tile: tile, Split: split}}, Samples: []results.Sample{{US: 1}}}
	}
	data := infer.Data{
		Series: []results.Series{{Key: synthetic.Key, Rows: []results.Row{
			row(8, "a", told.Tile, 1),
			row(16, "b", told.Tile, 1),
			row(24, "a", [3]int{128, 64, 32}, 1),
			row(32, "a", told.Tile, 2),
			row(40, "", [3]int{}, 0),
			row(72, "b", told.Tile, 1), // no report
			{Case: results.Case{SeriesKey: synthetic.Key, M: 48, Label: "b"}, Failed: "out of memory"},
		}}},
		Choices: map[results.SeriesKey]results.Choices{synthetic.Key: {{From: 8, To: 64, Kind: told}}},
	}
	want := []LaunchDiffers{
		{Series: synthetic.Key, M: 16, Told: told, Label: "b", Launch: results.Launch{Tile: told.Tile, Split: 1}},
		{Series: synthetic.Key, M: 24, Told: told, Label: "a", Launch: results.Launch{Tile: [3]int{128, 64, 32}, Split: 1}},
		{Series: synthetic.Key, M: 32, Told: told, Label: "a", Launch: results.Launch{Tile: told.Tile, Split: 2}},
	}
	if d := cmp.Diff(want, launchDiffers(data, nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, method := range []string{"interval", "article"} {
		cfg := Default()
		cfg.Method = method
		audit, err := RunAudit(t.Context(), data, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, audit.LaunchDiffers); d != "" {
			t.Errorf("%s (-want +got):\n%s", method, d)
		}
	}
}

// noticing is a measurer that saw a launch change.
type noticing struct {
	Measurer
	saw []results.OtherLaunch
}

func (n noticing) OtherLaunches() []results.OtherLaunch { return n.saw }

func TestLaunchChanges(t *testing.T) {
	row := func(id int64, m int, label string) results.Row {
		return results.Row{Case: results.Case{ID: id, SeriesKey: synthetic.Key, M: m, Label: label}, Samples: []results.Sample{{US: 1}}}
	}
	other := func(id int64, label string, phase results.Phase, round int) results.OtherLaunch {
		return results.OtherLaunch{CaseID: id, Label: label, Phase: phase, Round: round}
	}
	data := infer.Data{
		Series: []results.Series{{Key: synthetic.Key, Rows: []results.Row{row(1, 8, "a"), row(2, 16, "b"), row(3, 24, "a")}}},
		Launches: []results.OtherLaunch{other(2, "c", results.PhaseSweep, 3), other(2, "d", results.PhaseConfirm, 0),
			other(9, "e", results.PhaseRemedy, 1)},
	}
	m := noticing{saw: []results.OtherLaunch{other(1, "b", results.PhaseConfirm, 2), other(2, "d", results.PhaseConfirm, 0)}}
	want := []LaunchDiffers{
		{Series: synthetic.Key, M: 8, Told: results.LaunchKind{Label: "a"}, Label: "b", Phase: results.PhaseConfirm, Round: 2},
		{Series: synthetic.Key, M: 16, Told: results.LaunchKind{Label: "b"}, Label: "c", Phase: results.PhaseSweep, Round: 3},
		{Series: synthetic.Key, M: 16, Told: results.LaunchKind{Label: "b"}, Label: "d", Phase: results.PhaseConfirm},
	}
	if d := cmp.Diff(want, launchDiffers(data, m)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
