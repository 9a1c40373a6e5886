package cause

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func stepsOf(steps []Step) map[Kind][]int {
	out := map[Kind][]int{}
	for _, s := range steps {
		out[s.Kind] = append(out[s.Kind], s.M)
	}
	return out
}

// Tiles of 128x128 over n4096 on 108 units, 32 tiles per row: waves end at m384, m768, m1280 and so on.
func TestStepsOfTiles(t *testing.T) {
	us := func(m int) float64 {
		o := infer.Tiling{M: 128, N: 128, Units: 108, Columns: 4096}.Fill(m)
		return 5 + 50*float64(o.Waves)
	}
	data := synthetic.ByM(us, synthetic.Student(0.005), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(8, 1600, 8), 8)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 108}}
	for i := range data.Series[0].Rows {
		data.Series[0].Rows[i].Case.Launch = results.Launch{Tile: [3]int{128, 128}}
	}
	got := stepsOf(Steps(data, synthetic.Key))
	want := []int{384, 768, 1280}
	if len(got) != 1 || len(got[WaveQuantization]) != len(want) {
		t.Fatalf("steps %v, want waves to end at %v", got, want)
	}
	for i, m := range want {
		if got[WaveQuantization][i] != m {
			t.Errorf("steps %v, want %v", got, want)
		}
	}
	if Steps(data, synthetic.Keyed("other", kernels.BF16)) != nil {
		t.Error("a series that the data lack has steps")
	}
}

func TestStepsOfTimes(t *testing.T) {
	for _, tc := range []struct {
		period int
		kind   Kind
	}{{432, WaveQuantization}, {64, TileQuantization}} {
		us := func(m int) float64 { return 5 + 100*math.Ceil(float64(m)/float64(tc.period)) }
		got := stepsOf(Steps(synthetic.ByM(us, synthetic.Student(0.005), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(8, 1740, 8),
			8), synthetic.Key))
		if len(got) != 1 || len(got[tc.kind]) < 1700/tc.period*3/4 {
			t.Errorf("period %d: steps %v", tc.period, got)
		}
		for _, m := range got[tc.kind] {
			if m%tc.period != 0 {
				t.Errorf("period %d: a step after m%d", tc.period, m)
			}
		}
	}
	flat := synthetic.ByM(func(m int) float64 { return 5 + float64(m) }, synthetic.Student(0.02), rand.New(rand.NewPCG(5, 1)))
	if got := Steps(flat.Sweep(synthetic.Grid(8, 1740, 8), 8), synthetic.Key); len(got) > 0 {
		t.Errorf("a straight line has steps %v", got)
	}
}

// The steps visible in the plot of an A800.
func TestStepsOfThePublishedSweep(t *testing.T) {
	data := synthetic.A800(t)
	got := stepsOf(Steps(data, data.Series[0].Key))
	t.Log(got)
	want := map[int]bool{384: true, 768: true, 1664: true}
	for _, m := range got[WaveQuantization] {
		delete(want, m)
	}
	if len(want) > 0 || len(got[WaveQuantization])+len(got[TileQuantization]) > 12 {
		t.Errorf("steps %v, want waves to end at m384, m768 and m1664 and few others", got)
	}
}
