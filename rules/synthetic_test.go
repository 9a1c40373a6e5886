package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

type noise struct {
	name string
	draw func(*rand.Rand) float64
}

func gaussian(sigma float64) noise {
	return noise{fmt.Sprintf("gauss %g%%", 100*sigma), func(r *rand.Rand) float64 { return sigma * r.NormFloat64() }}
}

// student is Student's t with 3 degrees of freedom and the given standard
// deviation: heavy on both sides.
func student(sigma float64) noise {
	return noise{fmt.Sprintf("t3 %g%%", 100*sigma), func(r *rand.Rand) float64 {
		chi := 0.0
		for range 3 {
			v := r.NormFloat64()
			chi += v * v
		}
		return sigma / math.Sqrt(3) * r.NormFloat64() / math.Sqrt(chi/3)
	}}
}

// spiky is Gaussian noise with outliers: one sample in twenty is slower by a lognormal factor, as from other
// load.
func spiky(sigma float64) noise {
	return noise{fmt.Sprintf("spikes %g%%", 100*sigma), func(r *rand.Rand) float64 {
		v := sigma * r.NormFloat64()
		if r.IntN(20) == 0 {
			v += 0.1 * math.Exp(0.7*r.NormFloat64())
		}
		return v
	}}
}

// world is a machine whose true times are known.
type world struct {
	key   results.SeriesKey
	time  func(c results.Case) float64 // microseconds
	noise noise
	drift func(seq, total float64) float64 // log of time; or nil
	clock func(c results.Case) float64     // MHz, drawn for every sample; nil for unknown
	// follows is β, the elasticity of a case's time relative to 2000 MHz; nil for 0.
	follows func(c results.Case) float64
	rng     *rand.Rand
}

var syntheticKey = results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.BF16, 4096, 4096),
	Regime: results.Engine}

// byM makes a world of single launches whose time depends on M; a split takes the sum of its parts and
// padding the larger product's time.
func byM(us func(m int) float64, n noise, rng *rand.Rand) *world {
	return &world{key: syntheticKey, noise: n, rng: rng, time: func(c results.Case) float64 {
		switch {
		case len(c.Parts) > 0:
			var sum float64
			for _, m := range c.Parts {
				sum += us(m)
			}
			return sum
		case c.PadTo > 0:
			return us(c.PadTo)
		}
		return us(c.M)
	}}
}

func (w *world) sample(c results.Case, seq, total int64, round int, phase results.Phase) results.Sample {
	y := math.Log(w.time(c)) + w.noise.draw(w.rng)
	if w.drift != nil {
		y += w.drift(float64(seq), float64(total))
	}
	s := results.Sample{CaseID: c.ID, Phase: phase, Round: round, Seq: seq, Launches: 1, US: math.Exp(y)}
	if w.clock != nil {
		s.ClockMHz = w.clock(c)
		if w.follows != nil {
			s.US *= math.Pow(2000/s.ClockMHz, w.follows(c))
		}
	}
	return s
}

func (w *world) sweep(ms []int, rounds int) infer.Data {
	s := results.Series{Key: w.key, Peak: kernels.Peak{DType: w.key.DType, FLOPS: 100e12, Origin: kernels.Measured}}
	for i, m := range ms {
		s.Rows = append(s.Rows, results.Row{Case: results.Case{ID: int64(i + 1), SeriesKey: w.key, M: m}})
	}
	sentinel := results.Case{ID: 1 << 40, SeriesKey: w.key, M: ms[len(ms)/2]}
	total := int64(rounds*len(ms)) * 26 / 25
	var data infer.Data
	var seq int64
	for round := range rounds {
		for _, i := range w.rng.Perm(len(ms)) {
			if seq%26 == 0 {
				data.Sentinels = append(data.Sentinels, w.sample(sentinel, seq, total, len(data.Sentinels), results.PhaseSentinel))
				seq++
			}
			r := &s.Rows[i]
			r.Samples = append(r.Samples, w.sample(r.Case, seq, total, round, results.PhaseSweep))
			seq++
		}
	}
	data.Name, data.Series = "synthetic", []results.Series{s}
	return data
}

func (w *world) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	out := make([][]results.Sample, len(requests))
	for round := range rounds {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		for i, r := range requests {
			out[i] = append(out[i], w.sample(r.Case, 0, 1, round, r.Phase))
		}
	}
	return out, nil
}

func grid(from, to, step int) []int {
	var ms []int
	for m := from; m <= to; m += step {
		ms = append(ms, m)
	}
	return ms
}
