package advice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A chunk reports its gain over the fastest usual chunk allowed; a chunk over itself gains exactly 1.
func TestChunkGains(t *testing.T) {
	ms := []int{256, 512, 768, 1024, 2048}
	for _, c := range []struct {
		name    string
		rates   []float64
		sd      float64
		latency float64
		m, over int
		want    Gains
	}{
		{"faster", []float64{5, 6, 9, 6, 6}, 0.001, 0, 768, 512, GainsSurely},
		{"perhaps faster", []float64{5, 6, 8.004, 8, 6}, 0.01, 0, 768, 1024, GainsUnsure},
		{"itself", []float64{5, 6, 7, 9, 6}, 0.01, 0, 1024, 1024, GainsNothing},
		{"no usual one within the bound", []float64{5, 6, 7, 9, 6}, 0.001, 60, 256, 0, ""},
	} {
		seconds := make([]float64, len(ms))
		for i, m := range ms {
			seconds[i] = float64(m) / c.rates[i]
		}
		chunk := known(ms, seconds, c.sd).AdviseChunk(c.latency, 200, rand.New(rand.NewPCG(1, 2)).NormFloat64)
		if chunk.M != c.m || chunk.OverM != c.over || chunk.Gains != c.want {
			t.Errorf("%s: m%d over m%d gains %q %v, expected m%d over m%d, %q", c.name, chunk.M, chunk.OverM, chunk.Gains, chunk.Gain, c.m,
				c.over, c.want)
		}
		one := stats.Interval{Lo: 1, Mid: 1, Hi: 1}
		for _, u := range chunk.Usual {
			if (u.M == chunk.M) != (u.Gain == one) || u.BestM > 0 && (u.BestM == u.M) != (u.BestGain == one) {
				t.Errorf("%s: m%d over m%d gains %v, the best up to it, m%d, %v", c.name, chunk.M, u.M, u.Gain, u.BestM, u.BestGain)
			}
		}
		for _, s := range (&Advice{Chunk: chunk, Sizes: Sizes{Captured: ms}}).settings(Engines()) {
			if want := (map[string]Gains{"chunk": c.want})[s.Advice]; s.Gains != want {
				t.Errorf("%s: the setting of %s for %s gains %q, expected %q", c.name, s.Advice, s.Engine, s.Gains, want)
			}
		}
	}
	for gain, want := range map[stats.Interval]Gains{{Lo: 0.9, Mid: 0.95, Hi: 0.999}: GainsNothing,
		{Lo: 1.001, Mid: 1.01, Hi: 1.02}: GainsSurely, {Lo: 0.99, Mid: 1, Hi: 1.01}: GainsUnsure} {
		if got := gainsOf(gain, true); got != want {
			t.Errorf("%v gains %q, expected %q", gain, got, want)
		}
		if got := gainsOf(gain, false); got != GainsUnsure {
			t.Errorf("%v gains %q by scatter that is not its own", gain, got)
		}
	}
}

// Passes a thousand times too long or too short give a warning.
func TestMeasuredInOtherUnits(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := simulate(random, 0.001)
	for _, c := range []struct {
		unit   float64
		warned bool
	}{{1, false}, {20, false}, {1000, true}, {1e6, true}, {0.001, true}, {1e-6, true}} {
		p, measured := s.passes(t, random, 0.001)
		var times []Time
		for i, m := range p.ms {
			times = append(times, Time{M: m, Seconds: p.seconds[i], SE: 0.001, DF: 20})
		}
		measured = slices.Clone(measured)
		for i := range measured {
			measured[i].Seconds *= c.unit
		}
		a, err := Advise(Subject{Model: "m"}, []Part{{Names: []string{"products"}, Count: 1, Times: times}}, nil, measured,
			Options{Sizes: 4, MinGain: 0.02, FDR: 0.05})
		if err != nil {
			t.Fatal(err)
		}
		if ratio := a.Rest.Ratio / c.unit; ratio < 1 || ratio > 2 {
			t.Errorf("× %g: measured passes take %g times their parts", c.unit, a.Rest.Ratio)
		}
		warned := slices.ContainsFunc(a.Warnings, func(w rules.Warning) bool { return strings.Contains(w.Text, "check that times") })
		if warned != c.warned {
			t.Errorf("× %g: warnings %s", c.unit, fmt.Sprint(a.Warnings))
		}
	}
}
