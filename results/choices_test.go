package results

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestKindOf(t *testing.T) {
	choice := kernels.Choice{
		Label:  "algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1",
		Tiling: kernels.Tiling{Tile: [3]int{256, 128, 64}, Waves: 64. / 132, Split: 1, Orientation: kernels.OrientationTransposed},
		Stages: 4, Cluster: [3]int{2, 1, 1}, Grid: [3]int{2, 32, 1},
	}
	want := LaunchKind{Label: choice.Label, Tile: choice.Tile, Stages: 4, Split: 1, Cluster: [3]int{2, 1, 1},
		Orientation: kernels.OrientationTransposed, Slots: 132}
	k := KindOf(choice, 512, 4096)
	if d := cmp.Diff(want, k); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	choice.Slots = 264 // as reported, regardless of the waves
	if told := KindOf(choice, 512, 4096); told.Slots != 264 {
		t.Errorf("%g slots, expected those that were told", told.Slots)
	}
	if n := k.Tiles(513, 4097); n != 3*33 {
		t.Errorf("%d tiles", n)
	}
	if w := k.Waves(512, 4096); math.Abs(w-64./132) > 1e-9 {
		t.Errorf("%v waves", w)
	}
	split := k
	split.Split = 3
	if n := split.Tiles(512, 4096); n != 192 {
		t.Errorf("%d tiles in three parts along K, expected 192", n)
	}
	// A kernel's name alone is enough.
	if named := KindOf(kernels.Choice{Label: "nvjet_tst_128x256_64x4_2x1_v_bz_TNT waves 1.5"}, 512,
		4096); named.Tile != [3]int{256, 128, 0} ||
		named.Label != "nvjet_tst_128x256_64x4_2x1_v_bz_TNT" || math.Abs(named.Slots-64/1.5) > 1e-3 {
		t.Errorf("%+v", named)
	}
	if none := KindOf(kernels.Choice{Label: "sgemm"}, 512, 4096); none != (LaunchKind{Label: "sgemm"}) || none.Tiles(4, 4) != 0 ||
		none.Waves(4, 4) != 0 {
		t.Errorf("%+v", none)
	}
}

func TestKindRuns(t *testing.T) {
	k := LaunchKind{Label: "a", Tile: [3]int{128, 256, 64}, Split: 2}
	for _, tt := range []struct {
		label  string
		launch Launch
		want   bool
	}{
		{"a", Launch{Tile: [3]int{128, 256, 64}, Split: 2, Waves: 3}, true},
		{"a", Launch{}, true},
		{"", Launch{}, true},
		{"a", Launch{Tile: [3]int{256, 128, 64}, Orientation: kernels.OrientationUnknown}, true},
		{"b", Launch{Tile: [3]int{128, 256, 64}, Split: 2}, false},
		{"a", Launch{Tile: [3]int{256, 128, 64}, Split: 2}, false},
		{"a", Launch{Split: 1}, false},
	} {
		if got := k.Runs(tt.label, tt.launch); got != tt.want {
			t.Errorf("%s %+v: %v", tt.label, tt.launch, got)
		}
	}
}

func TestChoicesAt(t *testing.T) {
	a, b := LaunchKind{Label: "a"}, LaunchKind{Label: "b"}
	var c Choices
	for _, m := range []int{8, 16} {
		c = c.Add(m, a, true)
	}
	c = c.Add(24, b, true)
	c = c.Add(40, b, false) // no choice for m32
	if d := cmp.Diff(Choices{{8, 16, a}, {24, 24, b}, {40, 40, b}}, c); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	for m, want := range map[int]string{1: "", 8: "a", 16: "a", 24: "b", 32: "", 40: "b", 48: ""} {
		if k, ok := c.At(m); k.Label != want || ok != (want != "") {
			t.Errorf("m%d: %q, %v, expected %q", m, k.Label, ok, want)
		}
	}
	if _, ok := (Choices)(nil).At(1); ok {
		t.Error("nothing was told, and m1 is")
	}
}

var anyChoices = rapid.Custom(func(t *rapid.T) Choices {
	kind := rapid.Custom(func(t *rapid.T) LaunchKind {
		small := rapid.IntRange(0, 256)
		return LaunchKind{
			Label: rapid.SampledFrom([]string{"", "kernel<a, b>", "ünïcode"}).Draw(t, "label"),
			Tile:  [3]int{small.Draw(t, "tile m"), small.Draw(t, "tile n"), small.Draw(t, "tile k")}, Stages: small.Draw(t, "stages"),
			Split: small.Draw(t, "split"), Cluster: [3]int{small.Draw(t, "x"), small.Draw(t, "y"), small.Draw(t, "z")},
			Orientation: rapid.SampledFrom([]string{"", "transposed"}).Draw(t, "orientation"),
			Slots:       rapid.OneOf(rapid.Just(0.0), anyPositive).Draw(t, "slots"),
		}
	})
	m := 0
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Stretch {
		s := Stretch{From: m + rapid.IntRange(1, 64).Draw(t, "gap"), Kind: kind.Draw(t, "kind")}
		s.To = s.From + rapid.IntRange(0, 64).Draw(t, "length")
		m = s.To
		return s
	}), 1, 8).Draw(t, "stretches")
})

// Of series with and without cases.
func TestStoredChoices(t *testing.T) {
	path := emptyRun(t)
	rapid.Check(t, func(rt *rapid.T) {
		r, err := OpenAppend(path)
		check(rt, err)
		defer r.Close()
		want := map[SeriesKey]Choices{}
		for k := range must1(r.Choices())(t) {
			check(rt, r.SetChoices(k, nil))
		}
		for _, c := range rapid.SliceOfN(anyCase, 0, 4).Draw(rt, "cases") {
			want[c.SeriesKey] = rapid.Custom(func(t *rapid.T) Choices { return anyChoices.Draw(t, "choices") }).Draw(rt, "of a series")
			if rapid.Bool().Draw(rt, "cases are stored first") {
				_, err := r.AddCases([]Case{c})
				check(rt, err)
			}
			check(rt, r.SetChoices(c.SeriesKey, want[c.SeriesKey]))
		}
		for range 2 {
			got, err := r.Choices()
			check(rt, err)
			if len(got)+len(want) > 0 {
				if d := cmp.Diff(want, got); d != "" {
					rt.Fatalf("(-stored +read):\n%s", d)
				}
			}
			check(rt, r.Close())
			r, err = Open(path)
			check(rt, err)
		}
	})
}

func TestSetChoicesRefuses(t *testing.T) {
	r, _ := NewRun(t, 4)
	for name, c := range map[string]Choices{
		"m0":       {{0, 4, LaunchKind{}}},
		"m4 to m2": {{4, 2, LaunchKind{}}},
		"after m8": {{4, 8, LaunchKind{}}, {8, 9, LaunchKind{}}},
		"split":    {{4, 8, LaunchKind{Split: -1}}},
		"slots":    {{4, 8, LaunchKind{Slots: math.NaN()}}},
		"stages":   {{4, 8, LaunchKind{Stages: -2}}},
	} {
		if err := r.SetChoices(SomeKey, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Older runs of this schema lack the tables of choices and may get them.
func TestRunWithoutTablesOfChoices(t *testing.T) {
	r, _ := NewRun(t, 4)
	must(t, r.Close())
	patch(t, r.Path(), `DROP TABLE choices`, `DROP TABLE launch_kinds`)
	o, err := Open(r.Path())
	must(t, err)
	if got, err := o.Choices(); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	must(t, o.Close())
	w, err := OpenAppend(r.Path())
	must(t, err)
	defer w.Close()
	want := Choices{{4, 8, LaunchKind{Label: "a"}}}
	must(t, w.SetChoices(SomeKey, want))
	if got := must1(w.Choices())(t); !slices.Equal(got[SomeKey], want) {
		t.Errorf("%v", got)
	}
}

func TestKibibytes(t *testing.T) {
	for n, want := range map[int64]string{48 << 10: "48 KiB", 1 << 20: "1 MiB", 3 << 20: "3 MiB", 1<<20 + 512<<10: "1536 KiB",
		32 << 20: "32 MiB"} {
		if got := kibibytes(n); got != want {
			t.Errorf("%d: %s, expected %s", n, got, want)
		}
	}
}
