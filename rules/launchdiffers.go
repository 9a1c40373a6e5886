package rules

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// LaunchDiffers is a row whose timed launch differs from its kernel's report. The choice depends on something
// that was not passed, so rows inferred from choices may be wrong there.
type LaunchDiffers struct {
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	// Told is the reported launch, Label and Launch the actual one.
	Told   results.LaunchKind `json:"told"`
	Label  string             `json:"label"`
	Launch results.Launch     `json:"launch,omitzero"`
}

func launchDiffers(data infer.Data) []LaunchDiffers {
	var out []LaunchDiffers
	for _, s := range data.Series {
		choices := data.Choices[s.Key]
		for _, r := range s.Rows {
			told, ok := choices.At(r.Case.M)
			if ok && len(r.Samples) > 0 && !told.Runs(r.Case.Label, r.Case.Launch) {
				out = append(out, LaunchDiffers{s.Key, r.Case.M, told, r.Case.Label, r.Case.Launch})
			}
		}
	}
	return out
}
