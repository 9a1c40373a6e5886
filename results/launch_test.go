package results

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// algorithm is a label as cuBLASLt's rows had it before launches were stored, and what it says.
const algorithm = "algo 66 tile 128x256x64 stages 4 splitk 3 in fp32 waves 0.97"

// launched are cases of four Ms with what is known of their launches.
func launched(m int) (want []Case) {
	at := func(m int, label string, l Launch) {
		want = append(want, Case{SeriesKey: testKey, M: m, Label: label, Launch: l})
	}
	at(m, "algo 66 tile 128x256x64 stages 4 splitk 3 in fp32",
		Launch{Tile: [3]int{256, 128}, Waves: 0.97, Split: 3, Orientation: kernels.OrientationTransposed})
	at(m+1, "ampere_64x128_nn", Launch{Tile: [3]int{64, 128}, Split: 2, Orientation: kernels.OrientationUnknown})
	at(m+2, "ampere_64x128_nn", Launch{Tile: [3]int{16, 32, 8}, Waves: 1.5, Split: 1})
	at(m+3, "gemv", Launch{})
	return want
}

// toBeRead are the same cases with what is known of them as it was given.
func toBeRead(m int) []Case {
	cases := launched(m)
	cases[0].Label, cases[0].Launch = algorithm, Launch{}
	cases[1].Launch = Launch{Split: 2}
	return cases
}

// holds checks label and launch of the cases of a run by their M.
func holds(t *testing.T, what string, r *Run, want []Case) {
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

// TestLaunchesOfLabels: what a label says of a launch is in its fields, whoever wrote the label.
func TestLaunchesOfLabels(t *testing.T) {
	r, _ := newRun(t)
	added, err := r.AddCases(toBeRead(64))
	must(t, err)
	holds(t, "added", r, launched(64))
	series, err := r.AddCases([]Case{{SeriesKey: testKey, M: 1}, {SeriesKey: testKey, M: 2}, {SeriesKey: testKey, M: 3}, {SeriesKey: testKey, M: 4}})
	must(t, err)
	for i, c := range series {
		must(t, r.Append(testSample(c, PhaseSweep, 0, int64(i))))
	}
	_, err = r.Series() // what is told later is told of what was loaded
	must(t, err)
	for i, c := range toBeRead(1) {
		must(t, r.SetLaunch(series[i].ID, c.Label, c.Launch))
	}
	holds(t, "set", r, launched(1))
	loaded, err := r.Series()
	must(t, err)
	for i, row := range loaded[0].Rows {
		if want := launched(1)[i]; row.Case.Label != want.Label || row.Case.Launch != want.Launch {
			t.Errorf("loaded m%d is %q %+v, want %q %+v", row.Case.M, row.Case.Label, row.Case.Launch, want.Label, want.Launch)
		}
	}
	if err := r.SetLaunch(added[0].ID, "x", Launch{Split: -1}); err == nil {
		t.Error("a split into -1 parts is stored")
	}
	path := r.Path()
	must(t, r.Close())

	// As an earlier version of the program left it.
	patch(t, path, `UPDATE cases SET label = '`+algorithm+`', tile_m = NULL, tile_n = NULL, tile_k = NULL, waves = NULL, split = NULL, orientation = NULL WHERE m = 64`,
		`UPDATE cases SET tile_m = NULL, tile_n = NULL, tile_k = NULL, waves = NULL, orientation = NULL WHERE m = 65`)
	r, err = Open(path)
	must(t, err)
	defer r.Close()
	holds(t, "read", r, launched(64))
}

// TestImportLaunchesOfLabels: the same for CSVs, with their columns before what labels say, and
// for labels that come with a later line.
func TestImportLaunchesOfLabels(t *testing.T) {
	head := "device,kernel,dtype,m,n,k,round,us,label,tile_m,tile_n,tile_k,waves,split\n"
	lines := "cpu,tiled,fp32,64,128,256,0,10,,,,,,\n" +
		"cpu,tiled,fp32,64,128,256,1,10," + algorithm + ",,,,,\n" +
		"cpu,tiled,fp32,65,128,256,0,10,ampere_64x128_nn,,,,,2\n" +
		"cpu,tiled,fp32,66,128,256,0,10,ampere_64x128_nn,16,32,8,1.5,1\n" +
		"cpu,tiled,fp32,67,128,256,0,10,gemv,,,,,\n"
	out := filepath.Join(t.TempDir(), "run.db")
	r, err := Import(context.Background(), []string{writeFile(t, "samples.csv", head+lines)}, out, ImportOptions{})
	must(t, err)
	holds(t, "imported", r, launched(64))
	must(t, r.Close())

	// They are fields of the file, for whoever asks it by SQL.
	db, err := openDB(out, "mode=ro")
	must(t, err)
	defer db.Close()
	var got Case
	must(t, db.QueryRow(`SELECT label, tile_m, tile_n, waves, split, orientation FROM cases WHERE m = 64`).
		Scan(&got.Label, &got.Launch.Tile[0], &got.Launch.Tile[1], &got.Launch.Waves, &got.Launch.Split, &got.Launch.Orientation))
	want := launched(64)[0]
	if d := cmp.Diff(Case{Label: want.Label, Launch: want.Launch}, got); d != "" {
		t.Errorf("(-want +stored):\n%s", d)
	}
}

// TestImportLaterLaunches: of lines of one case, the first that tells of a launch counts, whether it is the case's first line or not.
func TestImportLaterLaunches(t *testing.T) {
	head := "device,kernel,dtype,m,n,k,round,us,label,tile_m,tile_n,tile_k,waves,split\n"
	at := func(m int, label string, l Launch) Case {
		return Case{SeriesKey: testKey, M: m, Label: label, Launch: l}
	}
	small, large := Launch{Tile: [3]int{16, 32, 8}, Waves: 1.5, Split: 1}, Launch{Tile: [3]int{64, 64, 8}, Waves: 2.5, Split: 2}
	lines := ""
	for _, l := range []struct {
		m           int
		label, told string
	}{
		{64, "", ",,,,"}, {64, "", "16,32,8,1.5,1"}, {64, "", "64,64,8,2.5,2"},
		{65, "", "16,32,8,1.5,1"}, {65, "", "64,64,8,2.5,2"}, {65, "late", "64,64,8,2.5,2"},
		{66, "", ",,,,"}, {66, "both", "64,64,8,2.5,2"}, {66, "none", "16,32,8,1.5,1"},
	} {
		lines += fmt.Sprintf("cpu,tiled,fp32,%d,128,256,%d,10,%s,%s\n", l.m, strings.Count(lines, fmt.Sprintf(",%d,128,", l.m)), l.label, l.told)
	}
	r, err := Import(context.Background(), []string{writeFile(t, "samples.csv", head+lines)}, filepath.Join(t.TempDir(), "run.db"), ImportOptions{})
	must(t, err)
	defer r.Close()
	holds(t, "imported", r, []Case{at(64, "", small), at(65, "late", small), at(66, "both", large)})
}
