package results

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Algorithm is a label of cuBLASLt's rows from before launches were stored.
const Algorithm = "algo 66 tile 128x256x64 stages 4 splitk 3 in fp32 waves 0.97"

func Launched(m int) (want []Case) {
	at := func(m int, label string, l Launch) {
		want = append(want, Case{SeriesKey: SomeKey, M: m, Label: label, Launch: l})
	}
	at(m, "algo 66 tile 128x256x64 stages 4 splitk 3 in fp32",
		Launch{Tile: [3]int{256, 128}, Waves: 0.97, Split: 3, Orientation: kernels.OrientationTransposed})
	at(m+1, "ampere_64x128_nn", Launch{Tile: [3]int{64, 128}, Split: 2, Orientation: kernels.OrientationUnknown})
	at(m+2, "ampere_64x128_nn", Launch{Tile: [3]int{16, 32, 8}, Waves: 1.5, Split: 1})
	at(m+3, "gemv", Launch{})
	return want
}

func toBeRead(m int) []Case {
	cases := Launched(m)
	cases[0].Label, cases[0].Launch = Algorithm, Launch{}
	cases[1].Launch = Launch{Split: 2}
	return cases
}

func Holds(t *testing.T, what string, r *Run, want []Case) {
	t.Helper()
	cases, err := r.Cases()
	must(t, err)
	byM := map[int]Case{}
	for _, c := range cases {
		byM[c.M] = c
	}
	for _, c := range want {
		got := byM[c.M]
		if got.Label != c.Label || got.Launch != c.Launch {
			t.Errorf("%s: m%d is %q %+v, want %q %+v", what, c.M, got.Label, got.Launch, c.Label, c.Launch)
		}
	}
}

// The writer of a label must not matter.
func TestLaunchesOfLabels(t *testing.T) {
	r, _ := NewRun(t)
	added, err := r.AddCases(toBeRead(64))
	must(t, err)
	Holds(t, "added", r, Launched(64))
	series, err := r.AddCases([]Case{{SeriesKey: SomeKey, M: 1}, {SeriesKey: SomeKey, M: 2}, {SeriesKey: SomeKey, M: 3},
		{SeriesKey: SomeKey, M: 4}})
	must(t, err)
	for i, c := range series {
		must(t, r.Append(SomeSample(c, PhaseSweep, 0, int64(i))))
	}
	_, err = r.Series() // later updates apply to loaded data
	must(t, err)
	for i, c := range toBeRead(1) {
		must(t, r.SetLaunch(series[i].ID, c.Label, c.Launch))
	}
	Holds(t, "set", r, Launched(1))
	loaded, err := r.Series()
	must(t, err)
	for i, row := range loaded[0].Rows {
		if want := Launched(1)[i]; row.Case.Label != want.Label || row.Case.Launch != want.Launch {
			t.Errorf("loaded m%d is %q %+v, want %q %+v", row.Case.M, row.Case.Label, row.Case.Launch, want.Label, want.Launch)
		}
	}
	if err := r.SetLaunch(added[0].ID, "x", Launch{Split: -1}); err == nil {
		t.Error("a split into -1 parts is stored")
	}
	path := r.Path()
	must(t, r.Close())

	// As an earlier version left it.
	patch(t, path,
		`UPDATE cases SET label = '`+Algorithm+
			`', tile_m = NULL, tile_n = NULL, tile_k = NULL, waves = NULL, split = NULL, orientation = NULL WHERE m = 64`,
		`UPDATE cases SET tile_m = NULL, tile_n = NULL, tile_k = NULL, waves = NULL, orientation = NULL WHERE m = 65`)
	r, err = Open(path)
	must(t, err)
	defer r.Close()
	Holds(t, "read", r, Launched(64))
}

// The name of a kernel that is too long to be read again is cut.
func TestLongName(t *testing.T) {
	r, _ := NewRun(t)
	cases, err := r.AddCases([]Case{{SeriesKey: SomeKey, M: 1}})
	must(t, err)
	must(t, r.SetLaunch(cases[0].ID, "x"+strings.Repeat("é", MaxText), Launch{}))
	must(t, r.Append(SomeSample(cases[0], PhaseSweep, 0, 1)))
	path := r.Path()
	must(t, r.Close())
	r, err = Open(path)
	must(t, err)
	series, err := r.Series()
	must(t, err)
	if got := series[0].Rows[0].Case.Label; len(got) != MaxText-1 || !utf8.ValidString(got) {
		t.Errorf("the name has %d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	must(t, r.Close())
}
