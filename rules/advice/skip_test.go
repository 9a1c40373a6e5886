package advice

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

func TestSkips(t *testing.T) {
	ms := []int{64, 96, 128, 160, 192, 224}
	seconds := []float64{1, 1.30, 1.20, 1.22, 1.215, 2}
	p := known(ms, seconds, 0.002)
	skips := p.AdviseSkips(0.02, 0.05)
	if len(skips) != 1 || skips[0].M != 96 || skips[0].RunM != 128 || math.Abs(skips[0].Gain.Mid-1.3/1.2) > 1e-12 ||
		skips[0].AdjustedP > 0.001 {
		t.Errorf("skips %+v", skips)
	}
	load, err := NewLoad(results.Traffic{{M: 65, Weight: 1}, {M: 128, Weight: 0}}, 64, 224) // m65 to m127
	if err != nil {
		t.Fatal(err)
	}
	// 32 batches run at 96 or 128, 31 at 128 anyway.
	if s, want := p.skipping(skips, load),
		(32*1.3+31*1.2)/(63*1.2); math.Abs(s.Gain.Mid-want) > 1e-12 || !(s.Gain.Lo < want && s.Gain.Lo > 1 && s.Saved.Mid > 0) {
		t.Errorf("skipping saves %+v, expected a gain of %g", s, want)
	}
	if skips := p.AdviseSkips(0, 0.05); len(skips) != 1 { // 160 loses 0.4 % to 192, which is within the noise
		t.Errorf("with no least gain: %+v", skips)
	}
	if skips := known(ms, seconds, 0.05).AdviseSkips(0.02, 0.05); len(skips) != 0 {
		t.Errorf("of noisy times: %+v", skips)
	}
	if skips := known(ms, seconds, 0).AdviseSkips(0.02, 0.05); len(skips) != 0 {
		t.Errorf("of times whose noise is not known: %+v", skips)
	}
	if skips := known([]int{1}, []float64{1}, 0.01).AdviseSkips(0, 0.05); skips != nil {
		t.Errorf("of one size: %+v", skips)
	}
}

func TestSkipsAreControlled(t *testing.T) {
	var ms []int
	var truth []float64
	for m := 16; m <= 2048; m += 16 {
		ms = append(ms, m)
		truth = append(truth, math.Max(1, math.Ceil(float64(m)/128)/4)) // flat stairs: no size gains by padding
	}
	for _, slow := range []int{10, 50, 51, 90} {
		truth[slow] *= 1.06
	}
	random := rand.New(rand.NewPCG(5, 6))
	var named, wrong, missed int
	for range 60 {
		seen := make([]float64, len(ms))
		for i, v := range truth {
			seen[i] = v * math.Exp(0.008*random.NormFloat64())
		}
		skips := known(ms, seen, 0.008).AdviseSkips(0.02, 0.05)
		for _, s := range skips {
			named++
			i, _ := slices.BinarySearch(ms, s.M)
			j, _ := slices.BinarySearch(ms, s.RunM)
			if truth[i] <= truth[j] {
				wrong++
			}
		}
		for _, slow := range []int{10, 50, 51, 90} {
			if !slices.ContainsFunc(skips, func(s Skip) bool { return s.M == ms[slow] }) {
				missed++
			}
		}
	}
	if float64(wrong) > 0.05*float64(named)+3 {
		t.Errorf("%d of %d named sizes are no slower", wrong, named)
	}
	if missed > 60*4/4 {
		t.Errorf("%d of %d slow sizes are missed", missed, 60*4)
	}
}
