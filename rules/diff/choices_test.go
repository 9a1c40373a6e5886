package diff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// choicesOf makes choices from one label per M; "" is unknown.
func choicesOf(ms []int, labels ...string) results.Choices {
	var c results.Choices
	joined := false
	for i, l := range labels {
		if l != "" {
			c = c.Add(ms[i], results.LaunchKind{Label: l, Slots: float64(len(l))}, joined)
		}
		joined = l != ""
	}
	return c
}

func TestDiffChoices(t *testing.T) {
	ms := []int{8, 16, 24, 32, 40, 48}
	key, on := synthetic.Key, synthetic.Key
	on.Device = "another"
	lonely := synthetic.Key
	lonely.K++
	a := Chosen{Name: "a.db",
		Choices: map[results.SeriesKey]results.Choices{key: choicesOf(ms, "x", "x", "x", "y", "y", ""), lonely: choicesOf(ms, "x")},
		Ms:      map[results.SeriesKey][]int{key: ms}}
	b := Chosen{Name: "b.db", Choices: map[results.SeriesKey]results.Choices{on: choicesOf(ms, "x", "z", "z", "z", "y", "y")},
		Ms: map[results.SeriesKey][]int{on: ms}}
	got, err := CompareChoices(a, b)
	if err != nil {
		t.Fatal(err)
	}
	kind := func(l string) results.LaunchKind { return results.LaunchKind{Label: l, Slots: 1} }
	want := &Choices{Schema: ChoicesSchema, A: "a.db", B: "b.db", Asked: 5, Changed: 3, OnlyA: []results.SeriesKey{lonely},
		Series: []SeriesChoices{{
			A: key, B: on, Asked: 5, Changed: 3,
			Stretches: []ChangedStretch{{16, 24, 2, kind("x"), kind("z")}, {32, 32, 1, kind("y"), kind("z")}},
		}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	other := choicesOf(ms, "x", "x")
	other[0].Kind.Slots = 99
	same, err := CompareChoices(a, Chosen{Name: "c.db", Choices: map[results.SeriesKey]results.Choices{key: other}})
	if err != nil || same.Changed != 0 || same.Asked != 2 {
		t.Errorf("%+v, %v", same, err)
	}
	a.Choices[on] = choicesOf(ms, "x")
	if got, err := CompareChoices(a, b); err != nil || len(got.Series) != 1 || got.Series[0].A != on || len(got.OnlyA) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		b    Chosen
		want string
	}{
		{Chosen{Name: "empty.db"}, "empty.db: no kernel choices"},
		{Chosen{Name: "other.db", Choices: map[results.SeriesKey]results.Choices{{Kernel: "k"}: choicesOf(ms, "x")}},
			"a.db and other.db have no series in common"},
	} {
		if _, err := CompareChoices(a, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
}

func TestAlikeLaunches(t *testing.T) {
	kind := func(m, n int, orientation string, split int) results.LaunchKind {
		return results.LaunchKind{Label: "a", Tile: [3]int{m, n, 32}, Orientation: orientation, Split: split}
	}
	for _, c := range []struct {
		a, b results.LaunchKind
		want bool
	}{
		{kind(64, 128, "", 1), kind(64, 128, "", 1), true},
		{kind(64, 128, "", 1), kind(128, 64, "", 1), false},
		{kind(64, 128, "", 1), kind(128, 64, kernels.OrientationUnknown, 1), true},
		{kind(64, 128, kernels.OrientationUnknown, 1), kind(128, 64, "", 2), false},
	} {
		if got := alike(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
}

func TestDiffChosenOfOneSide(t *testing.T) {
	ms := []int{1, 2, 3}
	one, two, turned := synthetic.Key, synthetic.Key, synthetic.Key
	one.Kernel, two.Kernel = "cublas@1", "cublas@2"
	turned.Kernel, turned.Layout = "cublas@1", kernels.Transposed
	of := Chosen{Name: "run.db", Choices: map[results.SeriesKey]results.Choices{
		one: choicesOf(ms, "x", "x", "y"), two: choicesOf(ms, "x", "y", "y"), turned: choicesOf(ms, "z", "x", "y"),
	}}
	byKernel, err := CompareChosenKernels(of, "cublas@1", "cublas@2")
	if err != nil || byKernel.Changed != 1 || byKernel.Asked != 3 || byKernel.Series[0].Stretches[0].From != 2 {
		t.Errorf("%+v, %v", byKernel, err)
	}
	byLayout, err := CompareChosenLayouts(of, kernels.RowMajor, kernels.Transposed)
	if err != nil || byLayout.Changed != 1 || byLayout.Asked != 3 || byLayout.Series[0].Share() != 1./3 || byLayout.B != "nk" {
		t.Errorf("%+v, %v", byLayout, err)
	}
	if _, err := CompareChosenKernels(of, "cublas@1", "cublas@3"); err == nil ||
		!strings.Contains(err.Error(), "cublas@3: no kernel choices") {
		t.Errorf("%v", err)
	}
}
