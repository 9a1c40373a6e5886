package rules

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// LaunchDiffers is a row with a launch that differs from its kernel's report or, if Phase is set, from the row's
// first launch. The choice depends on something that was not passed: rows inferred from choices may be wrong
// there, and the samples of a row whose launch changed are of several kernels.
type LaunchDiffers struct {
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	// Told is the reported or first launch, Label and Launch the other one.
	Told   results.LaunchKind `json:"told"`
	Label  string             `json:"label"`
	Launch results.Launch     `json:"launch,omitzero"`
	// Phase and Round are of the first sample with the other launch, if the launch changed during the run.
	Phase results.Phase `json:"phase,omitempty"`
	Round int           `json:"round,omitempty"`
}

// Changed reports whether the launch changed during the run.
func (d LaunchDiffers) Changed() bool { return d.Phase != "" }

// LaunchTeller is implemented by measurers that see which launches run.
type LaunchTeller interface {
	// OtherLaunches returns the launches so far that differ from the first launch of their cases.
	OtherLaunches() []results.OtherLaunch
}

func launchDiffers(data infer.Data, m Measurer) []LaunchDiffers {
	changed := map[int64][]results.OtherLaunch{}
	all := data.Launches
	if t, ok := m.(LaunchTeller); ok {
		all = slices.Concat(all, t.OtherLaunches())
	}
	for _, o := range all {
		if !slices.ContainsFunc(changed[o.CaseID], func(e results.OtherLaunch) bool {
			return results.SameLaunch(e.Label, e.Launch, o.Label, o.Launch)
		}) {
			changed[o.CaseID] = append(changed[o.CaseID], o)
		}
	}
	var out []LaunchDiffers
	for _, s := range data.Series {
		choices := data.Choices[s.Key]
		for _, r := range s.Rows {
			c := r.Case
			told, ok := choices.At(c.M)
			if ok && len(r.Samples) > 0 && !told.Runs(c.Label, c.Launch) {
				out = append(out, LaunchDiffers{Series: s.Key, M: c.M, Told: told, Label: c.Label, Launch: c.Launch})
			}
			first := results.LaunchKind{Label: c.Label, Tile: c.Launch.Tile, Split: c.Launch.Split}
			for _, o := range changed[c.ID] {
				out = append(out, LaunchDiffers{Series: s.Key, M: c.M, Told: first, Label: o.Label, Launch: o.Launch, Phase: o.Phase,
					Round: o.Round})
			}
		}
	}
	return out
}
