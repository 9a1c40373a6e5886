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
		{synthetic.Key, 16, told, "b", results.Launch{Tile: told.Tile, Split: 1}},
		{synthetic.Key, 24, told, "a", results.Launch{Tile: [3]int{128, 64, 32}, Split: 1}},
		{synthetic.Key, 32, told, "a", results.Launch{Tile: told.Tile, Split: 2}},
	}
	if d := cmp.Diff(want, launchDiffers(data)); d != "" {
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
