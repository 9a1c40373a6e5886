package history

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// simulate draws a standard deviation of 0.5 % between runs, half of it common to neighbors. One run in ten
// is an outlier, usually slower, by about 10 %. levels are logs of true times.
func simulate(r *rand.Rand, levels []float64) []float64 {
	const sd, correlation = 0.005, 0.5
	y := make([]float64, len(levels))
	noise := sd * r.NormFloat64()
	for i := range y {
		if i > 0 {
			noise = correlation*noise + sd*math.Sqrt(1-correlation*correlation)*r.NormFloat64()
		}
		y[i] = levels[i] + noise
		if r.IntN(10) == 0 {
			stray := 0.1 * math.Exp(0.7*r.NormFloat64())
			if r.IntN(5) == 0 {
				stray = -stray / 2
			}
			y[i] += stray
		}
	}
	return y
}

// 60 runs with steps of 3 %, up or down, with at least five runs on both sides.
func stepped(r *rand.Rand, steps int) (levels []float64, at []int) {
	const runs, least = 60, 5
	levels = make([]float64, runs)
	for len(at) < steps {
		k := least + r.IntN(runs-2*least+1)
		free := true
		for _, other := range at {
			free = free && (k-other >= least || other-k >= least)
		}
		if free {
			at = append(at, k)
		}
	}
	for _, k := range at {
		by := math.Log(1.03)
		if r.IntN(2) == 0 {
			by = -by
		}
		for i := k; i < runs; i++ {
			levels[i] += by
		}
	}
	return levels, at
}

type tally struct{ histories, steps, missed, wrong int }

// A step counts as found within three runs, since its neighbors may be outliers.
const beside = 3

func count(seed uint64, histories, perHistory int) tally {
	r := rand.New(rand.NewPCG(seed, 60))
	of := tally{histories: histories}
	for range histories {
		levels, at := stepped(r, perHistory)
		found := steps(simulate(r, levels), Default().Level)
		used := make([]bool, len(found))
		for _, k := range at {
			hit := false
			for i, s := range found {
				if d := s.at - k; d >= -beside && d <= beside && !used[i] {
					used[i], hit = true, true
					break
				}
			}
			of.steps++
			if !hit {
				of.missed++
			}
		}
		for _, u := range used {
			if !u {
				of.wrong++
				break
			}
		}
	}
	return of
}

// At most one of 20 histories has a false step.
func TestSimulatedHistories(t *testing.T) {
	for seed := range uint64(10) {
		if of := count(seed, 20, 1); of.missed > 0 || of.wrong > 1 {
			t.Errorf("seed %d: %d of %d steps were missed, %d of %d histories have a false one", seed, of.missed, of.steps, of.wrong,
				of.histories)
		}
		if of := count(100+seed, 20, 0); of.wrong > 1 {
			t.Errorf("seed %d: %d of %d histories without a step have one", seed, of.wrong, of.histories)
		}
	}
}

// The rates of docs/trust.md: go test ./rules/history -run '^$' -bench Histories -benchtime 1x
func BenchmarkHistories(b *testing.B) {
	for _, perHistory := range []int{0, 1, 2, 3} {
		b.Run(map[int]string{0: "steps=0", 1: "steps=1", 2: "steps=2", 3: "steps=3"}[perHistory], func(b *testing.B) {
			var all tally
			for i := range b.N {
				of := count(9000+uint64(i), 20000, perHistory)
				all.histories, all.steps, all.missed, all.wrong = all.histories+of.histories, all.steps+of.steps, all.missed+of.missed,
					all.wrong+of.wrong
			}
			b.ReportMetric(100*float64(all.wrong)/float64(all.histories), "%false")
			if all.steps > 0 {
				b.ReportMetric(100*float64(all.missed)/float64(all.steps), "%missed")
			}
		})
	}
	b.Run("cases=50", func(b *testing.B) {
		const histories = 4000
		wrong := 0
		for i := range b.N {
			wrong += unchanged(uint64(9000+i), histories)
		}
		b.ReportMetric(100*float64(wrong)/float64(b.N*histories), "%false")
	})
}

func TestStepWithoutNoise(t *testing.T) {
	y := make([]float64, 30)
	for i := 12; i < 30; i++ {
		y[i] = 0.05
	}
	found := steps(y, 0.05)
	if len(found) != 1 || found[0].at != 12 || math.Abs(found[0].log-0.05) > 1e-9 {
		t.Errorf("found %+v", found)
	}
}

func TestStraysAreNoLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	y := make([]float64, 40)
	for i := range y {
		y[i] = 0.005 * r.NormFloat64()
	}
	y[10] += 0.2
	y[20], y[21] = y[20]+0.1, y[21]+0.1
	y[39] += 0.3
	if found := steps(y, 0.05); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

// For arbitrary times, steps are ordered, apart, and of finite height.
func TestStepsOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-14, 34), rapid.Float64Range(-0.1, 0.1), rapid.Just(1.5)), 0, 50).Draw(t, "y")
		last := 0
		for _, s := range steps(y, 0.05) {
			if s.at-last < leastRuns || len(y)-s.at < leastRuns {
				t.Fatalf("a step is at %d of %d, the last at %d", s.at, len(y), last)
			}
			if math.IsNaN(s.log) || math.IsInf(s.log, 0) || !(s.se > 0) || !(s.p >= 0 && s.p <= 0.05) {
				t.Fatalf("%+v", s)
			}
			last = s.at
		}
	})
}
