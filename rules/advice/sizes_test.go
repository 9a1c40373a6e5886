package advice

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// The errors sd are independent shares of the time.
func known(ms []int, seconds []float64, sd float64) *Passes {
	p := &Passes{ms: ms, seconds: seconds, parts: seconds, inferred: make([]bool, len(ms)), own: make([]float64, len(ms)),
		df: make([]float64, len(ms)), scatter: make([]infer.ScatterOrigin, len(ms))}
	for i, t := range seconds {
		p.own[i], p.df[i], p.scatter[i] = t*t*sd*sd, 50, infer.OwnScatter
	}
	return p
}

func drawSizes(t *rapid.T) (ms []int, seconds []float64, load *Load) {
	ms = rapid.SliceOfNDistinct(rapid.IntRange(1, 60), 1, 9, rapid.ID[int]).Draw(t, "sizes")
	slices.Sort(ms)
	for range ms {
		seconds = append(seconds, float64(rapid.IntRange(1, 40).Draw(t, "time")))
	}
	var traffic results.Traffic
	if rapid.Bool().Draw(t, "listed") {
		at := rapid.SliceOfNDistinct(rapid.IntRange(1, 70), 1, 6, rapid.ID[int]).Draw(t, "loads")
		slices.Sort(at)
		for _, m := range at {
			traffic = append(traffic, results.Load{M: m, Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight"))})
		}
	}
	load, err := NewLoad(traffic, ms[0], ms[len(ms)-1])
	if err != nil {
		t.Skip("no traffic")
	}
	return ms, seconds, load
}

func paddedSum(ms []int, seconds []float64, load *Load, captured []int) float64 {
	sum := 0.0
	for m := 1; m <= ms[len(ms)-1]; m++ {
		w := load.between(m-1, m)
		if w == 0 {
			continue
		}
		i := slices.IndexFunc(captured, func(i int) bool { return ms[i] >= m })
		if i < 0 {
			return math.Inf(1)
		}
		sum += w * seconds[captured[i]]
	}
	return sum
}

func TestCaptureIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, seconds, load := drawSizes(t)
		most := rapid.IntRange(1, len(ms)).Draw(t, "most")
		got := capture(ms, seconds, load, most)
		if len(got) == 0 || len(got) > most || !slices.IsSorted(got) {
			t.Fatalf("%d sizes asked for, got %v", most, got)
		}
		least := math.Inf(1)
		for set := range 1 << len(ms) {
			var captured []int
			for i := range ms {
				if set>>i&1 == 1 {
					captured = append(captured, i)
				}
			}
			if len(captured) <= most {
				least = min(least, paddedSum(ms, seconds, load, captured))
			}
		}
		if sum := paddedSum(ms, seconds, load, got); math.Abs(sum-least) > 1e-9*least {
			t.Fatalf("sizes %v of %v take %g, the best take %g", at(ms, got), ms, sum, least)
		}
	})
}

func TestMoreSizesNeverHurt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, seconds, load := drawSizes(t)
		before := math.Inf(1)
		for most := 1; most <= len(ms); most++ {
			sum := paddedSum(ms, seconds, load, capture(ms, seconds, load, most))
			if sum > before*(1+1e-12) {
				t.Fatalf("%d sizes take %g, one less %g", most, sum, before)
			}
			before = sum
		}
	})
}

// A list is compared over the batches with known sizes, and reports the unknown ones.
func TestUsualLists(t *testing.T) {
	ms := []int{16, 24, 32, 64, 100}
	p := known(ms, []float64{1, 1.2, 1.4, 2, 3}, 0.01)
	load, err := NewLoad(results.Traffic{{M: 1, Weight: 1}, {M: 101, Weight: 1}, {M: 121, Weight: 0}}, 16, 100)
	if err != nil {
		t.Fatal(err)
	}
	s := p.AdviseSizes(load, 5, 20, 0, rand.New(rand.NewPCG(1, 1)).NormFloat64)
	// 100 of 120 batches fit.
	if want := 100. / 120; math.Abs(s.Covered-want) > 1e-12 {
		t.Errorf("covered %g, expected %g", s.Covered, want)
	}
	powers := s.Against[0]
	if !slices.Equal(powers.Captured, []int{1, 2, 4, 8, 16, 32, 64}) || !slices.Equal(powers.Unknown, []int{1, 2, 4, 8}) {
		t.Errorf("powers of two: %+v", powers)
	}
	// Batches 9 to 64 run at 16, 32 and 64.
	if want := 56. / 120; math.Abs(powers.Covered-want) > 1e-12 {
		t.Errorf("powers of two cover %g, expected %g", powers.Covered, want)
	}
	usual := (8*1. + 16*1.4 + 32*2) / 56
	advised := (8*1. + 8*1.2 + 8*1.4 + 32*2) / 56
	if math.Abs(powers.Usual-usual) > 1e-12 || math.Abs(powers.Advised-advised) > 1e-12 {
		t.Errorf("powers of two take %g, advised %g; expected %g and %g", powers.Usual, powers.Advised, usual, advised)
	}
	if g := powers.Gain; !(g.Lo < g.Mid && g.Mid < g.Hi) {
		t.Errorf("gain %v has no interval", g)
	}
	all := s.Against[2]
	if all.Name != "all known sizes" || len(all.Unknown) > 0 || all.Usual != all.Advised {
		t.Errorf("all sizes: %+v", all)
	}
	if one := (stats.Interval{Lo: 1, Mid: 1, Hi: 1}); all.Gain != one || all.Saved != (stats.Interval{}) {
		t.Errorf("a list gains %v over itself, and saves %v", all.Gain, all.Saved)
	}
	if _, err := NewLoad(results.Traffic{{M: 200, Weight: 1}}, 16, 100); err == nil {
		t.Error("a traffic above all sizes is accepted")
	}
}

// Tokens within a step are free, as with tiles and waves.
func stairs(m int) float64 {
	x := float64(m)
	return 1e-3 + 2e-5*math.Max(60, 0.6*x+0.4*math.Ceil(x/96)*96)
}

// Intervals of gains have their nominal coverage, although the choice uses the same times.
func TestGainIntervalsCover(t *testing.T) {
	var ms []int
	for m := 16; m <= 1024; m += 16 {
		ms = append(ms, m)
	}
	truth := make([]float64, len(ms))
	for i, m := range ms {
		truth[i] = stairs(m)
	}
	load, err := NewLoad(nil, ms[0], ms[len(ms)-1])
	if err != nil {
		t.Fatal(err)
	}
	const runs, noise = 300, 0.01
	random := rand.New(rand.NewPCG(3, 4))
	exact := known(ms, truth, noise)
	var missedSizes, missedChunks, high int
	for range runs {
		seen := make([]float64, len(ms))
		for i, v := range truth {
			seen[i] = v * math.Exp(noise*random.NormFloat64())
		}
		p := known(ms, seen, noise)
		s := p.AdviseSizes(load, 8, 60, 0, random.NormFloat64)
		captured := make([]int, len(s.Captured))
		for k, m := range s.Captured {
			captured[k], _ = slices.BinarySearch(ms, m)
		}
		a := s.Against[0]
		w := padded(ms, captured, load, []span{{8, ms[len(ms)-1]}})
		usual := padded(ms, []int{0, 1, 3, 7, 15, 31, 63}, load, []span{{8, ms[len(ms)-1]}})
		if is := sum(usual, truth) / sum(w, truth); is < a.Gain.Lo || is > a.Gain.Hi {
			missedSizes++
		}
		c := p.AdviseChunk(0, 60, random.NormFloat64)
		best, _ := slices.BinarySearch(ms, c.M)
		at512, _ := slices.BinarySearch(ms, 512)
		is := exact.rate(best, truth) / exact.rate(at512, truth)
		if g := c.Usual[0].Gain; is < g.Lo || is > g.Hi {
			missedChunks++
		}
		if c.Usual[0].Gain.Mid > is {
			high++
		}
	}
	// 5 % are expected; 9 % of 300 happen by chance once in a thousand times.
	if most := runs * 9 / 100; missedSizes > most || missedChunks > most {
		t.Errorf("of %d intervals %d of sizes and %d of chunks miss the truth", runs, missedSizes, missedChunks)
	}
	if high < runs*35/100 || high > runs*65/100 {
		t.Errorf("%d of %d gains of chunks are estimated too high", high, runs)
	}
}

func BenchmarkCapture(b *testing.B) {
	ms, seconds := make([]int, 1<<15), make([]float64, 1<<15)
	for i := range ms {
		ms[i], seconds[i] = i+1, stairs(i+1)
	}
	load, err := NewLoad(nil, 1, len(ms))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		capture(ms, seconds, load, 16)
	}
}

// BenchmarkAdvise uses a sweep with every M known.
func BenchmarkAdvise(b *testing.B) {
	part := Part{Names: []string{"products"}, Source: Swept, Count: 1}
	for m := 1; m <= 1<<15; m++ {
		part.Times = append(part.Times, Time{M: m, Seconds: stairs(m), SE: 0.002, DF: 20})
	}
	for b.Loop() {
		if _, err := Advise(Subject{Model: "m"}, []Part{part}, nil, nil, Options{Sizes: 16, MinGain: 0.02, FDR: 0.05}); err != nil {
			b.Fatal(err)
		}
	}
}
