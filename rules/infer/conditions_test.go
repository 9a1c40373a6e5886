package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

func TestTwoModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		y     []float64
		slow  float64
		fast  float64
		sigma float64
	}{
		{"one level", []float64{0, 0.001, -0.001, 0.002, 0, -0.002, 0.001}, 0, 0, 0.002},
		{"two levels", []float64{0, 0.05, 0.001, 0.051, -0.001, 0.049, 0}, 3.0 / 7, 0, 0.002},
		{"a stray", []float64{0, 0.001, -0.001, 0.08, 0, -0.002, 0.001}, 0, 0, 0.002},
		{"broad", []float64{0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06}, 0, 0, 0.002},
		{"apart by no more than scatter", []float64{0, 0.012, 0.001, 0.013, -0.001, 0.011, 0}, 0, 0, 0.004},
		{"too few", []float64{0, 0.1, 0}, 0, 0, 0.002},
	} {
		got := twoModes(slices.Sorted(slices.Values(c.y)), c.sigma)
		if (got != nil) != (c.slow > 0) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		if got != nil && (math.Abs(got.share-c.slow) > 1e-9 || math.Abs(got.Fast) > 0.002 || math.Abs(got.Slow-0.05) > 0.002) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestTimerStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	fine, coarse := make([]float64, 400), make([]float64, 400)
	for i := range fine {
		us := 1000 * (1 + 0.05*rng.NormFloat64())
		fine[i], coarse[i] = us, 5*math.Round(us/5)
	}
	slices.Sort(fine)
	slices.Sort(coarse)
	if step := timerStep(fine); step != 0 {
		t.Errorf("a fine timer has a step of %v", step)
	}
	if step := timerStep(coarse); math.Abs(step-5) > 1e-6 {
		t.Errorf("step %v, want 5", step)
	}
}

func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		name         string
		rows, rounds int
		seq          func(row, round int) int64
		correlation  float64
		is           bool
	}{
		{"ascending", orderRows, 3, func(row, round int) int64 { return int64(100*round + row) }, 1, true},
		{"descending", orderRows, 3, func(row, round int) int64 { return int64(100*round - row) }, -1, true},
		{"there and back", orderRows, 2, func(row, round int) int64 { return int64(row * (1 - 2*round)) }, 0, false},
		{"too few rows", orderRows - 1, 3, func(row, round int) int64 { return int64(100*round + row) }, 0, false},
		{"nobody tells the order", orderRows, 3, func(int, int) int64 { return 0 }, 0, false},
		{"one round tells it", orderRows, 3, func(row, round int) int64 { return int64(row * (round / 2)) }, 1, true},
		{"no samples", orderRows, 0, nil, 0, false},
	} {
		s := results.Series{Key: syntheticKey}
		for row := range c.rows {
			r := results.Row{Case: results.Case{SeriesKey: syntheticKey, M: 8 * (row + 1)}}
			for round := range c.rounds {
				r.Samples = append(r.Samples, results.Sample{Round: round, Seq: c.seq(row, round)})
			}
			s.Rows = append(s.Rows, r)
		}
		if got, is := Ordered(s); !(math.Abs(got-c.correlation) < 1e-9) || is != c.is {
			t.Errorf("%s: correlation %v, ordered %v; expected %v and %v", c.name, got, is, c.correlation, c.is)
		}
	}
}
