package synthetic

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Noise is a distribution of the log of a sample's time around the true one.
type Noise struct {
	Name string
	Draw func(*rand.Rand) float64
}

// Gaussian is normal noise with a standard deviation as a share of the time.
func Gaussian(sigma float64) Noise {
	return Noise{fmt.Sprintf("gauss %g%%", 100*sigma), func(r *rand.Rand) float64 { return sigma * r.NormFloat64() }}
}

// Student is Student's t with 3 degrees of freedom and the given standard
// deviation: heavy on both sides.
func Student(sigma float64) Noise {
	return Noise{fmt.Sprintf("t3 %g%%", 100*sigma), func(r *rand.Rand) float64 {
		chi := 0.0
		for range 3 {
			v := r.NormFloat64()
			chi += v * v
		}
		return sigma / math.Sqrt(3) * r.NormFloat64() / math.Sqrt(chi/3)
	}}
}

// Spiky is Gaussian noise with outliers: one sample in twenty is slower by a lognormal factor, as from other
// load.
func Spiky(sigma float64) Noise {
	return Noise{fmt.Sprintf("spikes %g%%", 100*sigma), func(r *rand.Rand) float64 {
		v := sigma * r.NormFloat64()
		if r.IntN(20) == 0 {
			v += 0.1 * math.Exp(0.7*r.NormFloat64())
		}
		return v
	}}
}

// World is a machine whose true times are known.
type World struct {
	Key   results.SeriesKey
	Time  func(c results.Case) float64 // microseconds
	noise Noise
	Drift func(seq, total float64) float64 // log of time; or nil
	Clock func(c results.Case) float64     // MHz, drawn for every sample; nil for unknown
	// Follows is β, the elasticity of a case's time relative to 2000 MHz; nil for 0.
	Follows func(c results.Case) float64
	RNG     *rand.Rand
}

// Key is the series of a machine that names no other.
var Key = results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.BF16, 4096, 4096),
	Regime: results.Engine}

// ByM makes a world of single launches whose time depends on M; a split takes the sum of its parts and
// padding the larger product's time.
func ByM(us func(m int) float64, n Noise, rng *rand.Rand) *World {
	return &World{Key: Key, noise: n, RNG: rng, Time: func(c results.Case) float64 {
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

// Sample times a case once; seq of total is its place in the run.
func (w *World) Sample(c results.Case, seq, total int64, round int, phase results.Phase) results.Sample {
	y := math.Log(w.Time(c)) + w.noise.Draw(w.RNG)
	if w.Drift != nil {
		y += w.Drift(float64(seq), float64(total))
	}
	s := results.Sample{CaseID: c.ID, Phase: phase, Round: round, Seq: seq, Launches: 1, US: math.Exp(y)}
	if w.Clock != nil {
		s.ClockMHz = w.Clock(c)
		if w.Follows != nil {
			s.US *= math.Pow(2000/s.ClockMHz, w.Follows(c))
		}
	}
	return s
}

// Sweep measures single launches in shuffled rounds, with a sentinel before every 25 samples.
func (w *World) Sweep(ms []int, rounds int) infer.Data {
	s := results.Series{Key: w.Key, Peak: kernels.Peak{DType: w.Key.DType, FLOPS: 100e12, Origin: kernels.Measured}}
	for i, m := range ms {
		s.Rows = append(s.Rows, results.Row{Case: results.Case{ID: int64(i + 1), SeriesKey: w.Key, M: m}})
	}
	sentinel := results.Case{ID: 1 << 40, SeriesKey: w.Key, M: ms[len(ms)/2]}
	total := int64(rounds*len(ms)) * 26 / 25
	var data infer.Data
	var seq int64
	for round := range rounds {
		for _, i := range w.RNG.Perm(len(ms)) {
			if seq%26 == 0 {
				data.Sentinels = append(data.Sentinels, w.Sample(sentinel, seq, total, len(data.Sentinels), results.PhaseSentinel))
				seq++
			}
			r := &s.Rows[i]
			r.Samples = append(r.Samples, w.Sample(r.Case, seq, total, round, results.PhaseSweep))
			seq++
		}
	}
	data.Name, data.Series = "synthetic", []results.Series{s}
	return data
}

// Measure satisfies rules.Measurer.
func (w *World) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	out := make([][]results.Sample, len(requests))
	for round := range rounds {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		for i, r := range requests {
			out[i] = append(out[i], w.Sample(r.Case, 0, 1, round, r.Phase))
		}
	}
	return out, nil
}

// Grid is the numbers from one to another, ends included, by a step.
func Grid(from, to, step int) []int {
	var ms []int
	for m := from; m <= to; m += step {
		ms = append(ms, m)
	}
	return ms
}
