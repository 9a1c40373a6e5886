package report

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/diff"
)

// toldFixture has two layouts: one choice is equal, one differs.
func toldFixture() map[results.SeriesKey]results.Choices {
	key := results.SeriesKey{Device: "cuda:0", Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 14336, 4096),
		Regime: results.Engine}
	turned := key
	turned.Layout = kernels.Transposed
	nvjet := func(m, n int, stages int) results.LaunchKind {
		k := results.LaunchKind{Label: "nvjet_tst", Tile: [3]int{m, n, 64}, Split: 1, Stages: stages, Cluster: [3]int{2, 1, 1},
			Orientation: kernels.OrientationTransposed, Slots: 132}
		k.Label += "_" + tileText(k.Tile)
		return k
	}
	split := nvjet(64, 32, 0)
	split.Split, split.Cluster = 4, [3]int{}
	return map[results.SeriesKey]results.Choices{
		key: {{From: 1, To: 64, Kind: split}, {From: 128, To: 512, Kind: nvjet(128, 256, 4)},
			{From: 576, To: 576, Kind: results.LaunchKind{Label: hostile}}},
		turned: {{From: 1, To: 256, Kind: split}, {From: 320, To: 576, Kind: nvjet(128, 256, 4)}},
	}
}

func askedFixture() map[results.SeriesKey][]int {
	asked := map[results.SeriesKey][]int{}
	for k := range toldFixture() {
		asked[k] = []int{1, 64, 128, 256, 320, 512, 576}
	}
	return asked
}

func fixtureChoices() *Choices {
	return NewChoices("run.db", toldFixture(), askedFixture(),
		map[results.SeriesKey]string{fixtureKey: "kernel openblas has no interface to report its kernels"})
}

func fixtureChoicesDiff() *diff.Choices {
	d, err := diff.CompareChosenLayouts(diff.Chosen{Name: "run.db", Choices: toldFixture(), Ms: askedFixture()}, kernels.RowMajor,
		kernels.Transposed)
	if err != nil {
		panic(err)
	}
	d.OnlyA = []results.SeriesKey{fixtureKey}
	return d
}

func TestNothingToldIsSaid(t *testing.T) {
	var b strings.Builder
	if err := WriteChoices(&b, Table, NewChoices("", nil, nil, nil)); err != nil ||
		!strings.Contains(b.String(), "no kernel reported its choices") {
		t.Errorf("%q, %v", b.String(), err)
	}
	same := &diff.Choices{A: "a.db", B: "b.db", Series: make([]diff.SeriesChoices, 1), Asked: 7}
	if got := ChoicesDiffSummary(same); got != "A a.db, B b.db: the same would run at all 7 batches of 1 series" {
		t.Error(got)
	}
}

func TestWriteLaunchDiffers(t *testing.T) {
	audit := fixtureAudit()
	told := toldFixture()
	for key, c := range told {
		if key.Layout == kernels.RowMajor {
			audit.LaunchDiffers = []rules.LaunchDiffers{
				{Series: key, M: 64, Told: c[0].Kind, Label: "nvjet_tst_64x64x64",
					Launch: results.Launch{Tile: [3]int{64, 64, 64}, Split: 1}},
				{Series: key, M: 512, Told: c[1].Kind, Label: c[1].Kind.Label, Launch: results.Launch{Tile: c[1].Kind.Tile, Split: 2}},
				{Series: key, M: 1024, Told: results.LaunchKind{Label: "triton_mm_64x128"}, Label: "triton_mm_128x128",
					Launch: results.Launch{Tile: [3]int{128, 128, 32}}, Phase: results.PhaseConfirm, Round: 3},
			}
		}
	}
	for _, f := range []Format{Table, Markdown, JSON} {
		var b strings.Builder
		if err := WriteAudit(&b, f, fixtureMeta(), fixtureSeries(), audit); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "launch-differs."+string(f), b.String())
	}
	p := newPage(Input{Meta: fixtureMeta(), Audit: audit, Series: fixtureSeries()}, nil)
	found := 0
	for _, s := range p.sections {
		if s.heading == differTitle && len(s.sheet.Rows) == 2 || s.heading == changeTitle && len(s.sheet.Rows) == 1 {
			found++
		}
	}
	if found != 2 {
		t.Error("a report does not tell of launches that differ")
	}
}
