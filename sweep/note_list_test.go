package sweep

import (
	"slices"
	"testing"
)

// Skipped items must be one line; other notes keep their own.
func TestPlanNotes(t *testing.T) {
	out := func(what string) Note { return Note{What: what, LeftOut: true, Why: "slow"} }
	for _, c := range []struct {
		name  string
		notes []Note
		want  []string
	}{
		{"none", nil, nil},
		{"one keeps its reason", []Note{out("kernel mma on cuda:0")}, []string{"kernel mma on cuda:0 is left out: slow"}},
		{"many, on two cards", []Note{out("kernel mma on cuda:0"), {What: "traffic", Why: "2 Ms lie beyond"}, out("kernel naive on cuda:0"),
			out("kernel mma on cuda:1")},
			[]string{"traffic: 2 Ms lie beyond", "2 skipped: mma, naive; --dry-run gives the reasons"}},
	} {
		if got := ShortNotes(c.notes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
