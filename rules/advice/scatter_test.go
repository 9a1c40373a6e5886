package advice

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// A size with borrowed scatter neither surely gains nor is never worth running.
func TestNothingIsSureByBorrowedScatter(t *testing.T) {
	for _, origin := range []infer.ScatterOrigin{"", infer.OwnScatter, infer.BorrowedScatter, infer.AssumedScatter} {
		part := Part{Names: []string{"q_proj"}, Count: 1}
		exact := Part{Names: []string{"o_proj"}, Count: 1}
		for _, m := range []int{256, 512, 768, 1024, 1536, 2048} {
			us := float64(m)
			if m == 768 {
				us /= 3 // faster than m512, and a gain of 3 over every chunk
			}
			part.Times = append(part.Times, Time{M: m, Seconds: us, SE: 0.01, DF: 20, Scatter: origin})
			exact.Times = append(exact.Times, Time{M: m, Seconds: us / 10, SE: 0.01, DF: 20, Scatter: infer.OwnScatter})
		}
		a, err := Advise(Subject{Model: "m"}, []Part{part, exact}, nil, nil,
			Options{Sizes: 4, MinGain: 0.02, FDR: 0.05, Engines: Engines()})
		if err != nil {
			t.Fatal(err)
		}
		own := origin == "" || origin == infer.OwnScatter
		if a.Chunk.M != 768 || (a.Chunk.Gains == GainsSurely) != own || (len(a.Skips) > 0) != own || (len(a.Warnings) == 0) != own {
			t.Errorf("scatter %q: chunk m%d gains %q, %d sizes are never run, warnings %v", origin, a.Chunk.M, a.Chunk.Gains, len(a.Skips),
				a.Warnings)
		}
		for _, s := range a.Settings {
			if s.Advice == "chunk" && (s.Gains == GainsSurely) != own {
				t.Errorf("scatter %q: the setting of %s gains %q", origin, s.Engine, s.Gains)
			}
		}
		for _, p := range a.Passes {
			if (p.Scatter == infer.OwnScatter) != own || p.Seconds.Hi <= p.Seconds.Lo {
				t.Errorf("scatter %q: m%d has %q, %+v", origin, p.M, p.Scatter, p.Seconds)
			}
		}
	}
}

// A part with unknown error makes every gain unsure.
func TestImportedTimesWithoutBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	part := Part{Names: []string{"attention"}, Count: 1}
	for m := 64; m <= 2048; m += 64 {
		se, df := infer.AssumedError()
		part.Times = append(part.Times,
			Time{M: m, Seconds: float64(m) * math.Exp(0.02*random.NormFloat64()), SE: se, DF: df, Scatter: infer.AssumedScatter})
	}
	p, err := Sum([]Part{part})
	if err != nil {
		t.Fatal(err)
	}
	c := p.AdviseChunk(0, 100, random.NormFloat64)
	if c.Gains != GainsUnsure || !(c.Gain.Lo < 1) {
		t.Errorf("m%d gains %q, %+v", c.M, c.Gains, c.Gain)
	}
}
