package remedy

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

func TestRemediesAreUndone(t *testing.T) {
	cfg := rules.Default()
	for _, tc := range []struct {
		name   string
		search Options
		change func(*rules.Config)
		want   string
	}{
		{"nothing", Options{}, func(*rules.Config) {}, ""},
		{"effort", Options{}, func(c *rules.Config) { c.Remedy.MaxRounds, c.Remedy.MaxCases, c.Rules.Pad.Margin = 60, 3, 0.1 }, ""},
		{"margin", Options{}, func(c *rules.Config) { c.Remedy.Margin = 0.05 }, "remedy.margin was 0.02 and is 0.05"},
		{"drift", Options{}, func(c *rules.Config) { c.DriftBound = 0.1 }, "drift_bound was 1 and is 0.1"},
		{"threshold among flagged", Options{Among: AmongFlagged}, func(c *rules.Config) { c.Threshold = 0.9 },
			"threshold was 0.95 and is 0.9"},
		{"threshold among all", Options{Among: AmongAll}, func(c *rules.Config) { c.Threshold = 0.9 }, ""},
		{"parts", Options{}, func(c *rules.Config) { c.Remedy.MaxParts = 2 }, "remedy.max_parts was 4 and is 2"},
		{"parts of the search", Options{MaxParts: 3}, func(c *rules.Config) { c.Remedy.MaxParts = 2 }, ""},
	} {
		kept := NewExecuted(&Result{}, cfg, tc.search, 7)
		changed := cfg
		tc.change(&changed)
		var words []string
		for _, u := range kept.Undone(changed, 7) {
			words = append(words, u.String())
		}
		if got := strings.Join(words, "; "); got != tc.want {
			t.Errorf("%s: %q, expected %q", tc.name, got, tc.want)
		}
		if why := kept.Undone(cfg, 8); len(why) != 1 || why[0].String() != "samples was 7 and is 8" {
			t.Errorf("%s, another number of samples: %v", tc.name, why)
		}
	}
}
