package diff

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// twin is a machine that measures two kernels in the same shuffled rounds.
type twin struct {
	noise  func(*rand.Rand) float64 // of a sample, in logs
	beta   func(row int) float64
	wander float64 // range of the true clock, as a share to either side, all of it within a round; 0 for unknown clocks
	silent bool    // the clock is unknown
	misses float64 // standard deviation of a clock's reading
	placed float64 // standard deviation of what a round's allocation does to a row, alike for both kernels
	slower float64 // log of the second kernel's time over the first's
	rounds int
}

const twinRows = 64

func (w twin) run(seed uint64) infer.Data {
	rng := rand.New(rand.NewPCG(seed, 23))
	data := infer.Data{Name: "twin", Meta: simMeta(nil)}
	for k, kernel := range []string{"a", "b"} {
		key := synthetic.Key
		key.Kernel = kernel
		s := results.Series{Key: key}
		for i := range twinRows {
			c := results.Case{ID: int64(k*twinRows + i + 1), SeriesKey: key, M: 16 * (i + 1)}
			s.Rows = append(s.Rows, results.Row{Case: c})
		}
		data.Series = append(data.Series, s)
	}
	const reference = 1800.0
	seq := int64(0)
	phase := 2 * math.Pi * rng.Float64()
	sample := func(id int64, us, beta float64) results.Sample {
		// Some three periods a round.
		x := w.wander * math.Sin(phase+float64(seq)*2*math.Pi*3.3/(2*twinRows))
		s := results.Sample{CaseID: id, Seq: seq, Launches: 1, US: us * math.Exp(w.noise(rng)-beta*x)}
		if !w.silent && w.wander+w.misses > 0 {
			s.ClockMHz = reference * math.Exp(x+w.misses*rng.NormFloat64())
		}
		seq++
		return s
	}
	process := make([]float64, twinRows) // intervals cover that the process moves a row
	for i := range process {
		process[i] = leastBetweenRuns * rng.NormFloat64()
	}
	for round := range w.rounds {
		placed := make([]float64, twinRows)
		for i := range placed {
			placed[i] = w.placed * rng.NormFloat64()
		}
		for n, at := range rng.Perm(2 * twinRows) {
			if n%25 == 0 {
				s := sample(1<<40, 100, 0.5)
				s.Phase, s.Round = results.PhaseSentinel, len(data.Sentinels)
				data.Sentinels = append(data.Sentinels, s)
			}
			k, i := at/twinRows, at%twinRows
			row := &data.Series[k].Rows[i]
			us := (20 + float64(row.Case.M)) * math.Exp(placed[i]+float64(k)*(w.slower+process[i]))
			s := sample(row.Case.ID, us, w.beta(i))
			s.Phase, s.Round = results.PhaseSweep, round
			row.Samples = append(row.Samples, s)
		}
	}
	return data
}

// TestPairedCoverage checks how often the intervals of ratios contain the true ratio, compared with those of
// times that are estimated apart.
func TestPairedCoverage(t *testing.T) {
	spread := func(i int) float64 { return float64(i%8) / 7 } // unlike its neighbors'
	smooth := func(i int) float64 { return float64(i) / (twinRows - 1) }
	always := func(beta float64) func(int) float64 { return func(int) float64 { return beta } }
	gauss, student := synthetic.Gaussian(0.005).Draw, synthetic.Student(0.01).Draw
	for _, tt := range []struct {
		name     string
		w        twin
		narrower float64 // least ratio of the widths of intervals apart and paired
	}{
		{"clock within a round, β from 0 to 1", twin{noise: gauss, beta: smooth, wander: 0.03, placed: 0.01, rounds: 9}, 1.3},
		{"clock within a round, β unlike", twin{noise: gauss, beta: spread, wander: 0.03, placed: 0.01, rounds: 9}, 1.3},
		{"clock within a round, β 0", twin{noise: gauss, beta: always(0), wander: 0.03, placed: 0.01, rounds: 9}, 1.3},
		{"clock within a round, β 1", twin{noise: gauss, beta: always(1), wander: 0.03, placed: 0.01, rounds: 9}, 1.3},
		{"slower", twin{noise: gauss, beta: smooth, wander: 0.03, placed: 0.01, rounds: 9, slower: 0.1}, 1.3},
		{"clocks misread", twin{noise: gauss, beta: always(0.5), misses: 0.02, placed: 0.01, rounds: 9}, 1.3},
		{"unknown clock", twin{noise: gauss, beta: always(0.5), wander: 0.03, silent: true, placed: 0.01, rounds: 9}, 1.2},
		{"independent noise", twin{noise: gauss, beta: always(0), rounds: 9}, 0.9},
		{"independent noise, heavy tails", twin{noise: student, beta: always(0), rounds: 9}, 0.85},
		{"five rounds", twin{noise: gauss, beta: smooth, wander: 0.03, placed: 0.01, rounds: 5}, 1.2},
		{"many rounds", twin{noise: gauss, beta: smooth, wander: 0.03, placed: 0.01, rounds: 40}, 1.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := rules.Default()
			var cases, paired, in, inApart, inMean int
			var width, apart float64
			runs, slack := 50, 0.0
			if testing.Short() {
				runs, slack = 15, 0.01
			}
			for seed := range uint64(runs) {
				data := tt.w.run(seed)
				d, err := CompareKernels(data, "a", "b", cfg)
				if err != nil {
					t.Fatal(err)
				}
				p := infer.PrepareAt(data, d.Clocks)
				truth := math.Exp(tt.w.slower)
				if d.Geomean.Lo <= truth && truth <= d.Geomean.Hi {
					inMean++
				}
				for i, c := range d.Cases {
					if c.Paired == tt.w.rounds {
						paired++
					}
					e := stats.Difference(p.Curves[1].Points[i].US, p.Curves[0].Points[i].US)
					e.SE = math.Hypot(e.SE, leastBetweenRuns)
					old := e.Interval(cfg.Confidence, p.Quantiles)
					cases++
					if c.Ratio.Lo <= truth && truth <= c.Ratio.Hi {
						in++
					}
					if old.Lo <= truth && truth <= old.Hi {
						inApart++
					}
					width, apart = width+math.Log(c.Ratio.Hi/c.Ratio.Lo), apart+math.Log(old.Hi/old.Lo)
				}
			}
			covered := float64(in) / float64(cases)
			t.Logf("coverage %.4f, apart %.4f; of the mean %d of %d; width %.4f, apart %.4f", covered, float64(inApart)/float64(cases),
				inMean, runs, width/float64(cases), apart/float64(cases))
			if paired < cases*19/20 {
				t.Errorf("%d of %d cases are paired in all rounds", paired, cases)
			}
			if covered < 0.93-slack || covered > 0.97+slack {
				t.Errorf("%.2f %% of the intervals contain the true ratio, expected 93 to 97 %%", 100*covered)
			}
			if inMean < runs*4/5 {
				t.Errorf("%d of %d intervals of the geometric mean contain the true ratio", inMean, runs)
			}
			if apart < tt.narrower*width {
				t.Errorf("intervals are %.4f wide, and %.4f if times are estimated apart", width/float64(cases), apart/float64(cases))
			}
		})
	}
}

// TestPairedRows checks which rows are compared by rounds.
func TestPairedRows(t *testing.T) {
	quiet := twin{noise: synthetic.Gaussian(0.004).Draw, beta: func(int) float64 { return 0.5 }, wander: 0.02, rounds: 9}
	each := func(change func(k int, s *results.Sample)) func(*rand.Rand, infer.Data) {
		return func(_ *rand.Rand, data infer.Data) {
			for k := range data.Series {
				for i := range data.Series[k].Rows {
					for j := range data.Series[k].Rows[i].Samples {
						change(k, &data.Series[k].Rows[i].Samples[j])
					}
				}
			}
		}
	}
	flips := func(alike bool) func(*rand.Rand, infer.Data) {
		return func(rng *rand.Rand, data infer.Data) {
			for i := range twinRows {
				together := rng.Perm(quiet.rounds)
				for k := range data.Series {
					slow := together
					if !alike {
						slow = rng.Perm(quiet.rounds)
					}
					for _, j := range slow[:4] {
						data.Series[k].Rows[i].Samples[j].US *= 1.06
					}
				}
			}
		}
	}
	delays := func(rng *rand.Rand) float64 { return 0.05 * rng.ExpFloat64() }
	shifted := func(rounds int) func(*rand.Rand, infer.Data) {
		return each(func(k int, s *results.Sample) { s.Round += rounds * k })
	}
	for _, tt := range []struct {
		name   string
		w      twin
		b      string
		change func(*rand.Rand, infer.Data)
		want   int     // rounds
		most   float64 // largest width of an interval as a share
	}{
		{"all rounds", quiet, "b", nil, 9, 0.025},
		{"no common round", quiet, "b", shifted(9), 0, 0.05},
		{"two common rounds", quiet, "b", shifted(7), 0, 0.05},
		{"six common rounds", quiet, "b", shifted(3), 6, 0.05},
		{"one round of many samples", quiet, "b", each(func(_ int, s *results.Sample) { s.Round = 0 }), 0, 0.05},
		{"clocks of one kernel", quiet, "b", each(func(k int, s *results.Sample) { s.ClockMHz *= float64(k) }), 0, 0.1},
		{"levels that change for both kernels", quiet, "b", flips(true), 9, 0.025},
		{"levels that change for each kernel", quiet, "b", flips(false), 0, 0.3},
		{"the faster of several", quiet, "a+b", nil, 9, 0.025},
		{"noise that only delays", twin{noise: delays, beta: quiet.beta, rounds: 9}, "b", nil, 0, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := tt.w.run(5)
			if tt.change != nil {
				tt.change(rand.New(rand.NewPCG(6, 6)), data)
			}
			d, err := CompareKernels(data, "a", tt.b, rules.Default())
			if err != nil || len(d.Cases) != twinRows {
				t.Fatalf("%d cases, %v", len(d.Cases), err)
			}
			usual, wide := 0, 0
			for _, c := range d.Cases {
				if c.Paired == tt.want {
					usual++
				}
				if c.Ratio.Hi/c.Ratio.Lo > 1+tt.most {
					wide++
				}
				apart := c.B.Mid / c.A.Mid
				if c.Paired == 0 && math.Abs(c.Ratio.Mid/apart-1) > 1e-9 {
					t.Errorf("m%d: ratio %v of times whose quotient is %v", c.M, c.Ratio.Mid, apart)
				}
				if tt.b == "a+b" && apart == 1 && c.Ratio.Mid != 1 {
					t.Errorf("m%d: a row takes %v times as long as itself", c.M, c.Ratio.Mid)
				}
			}
			if usual < twinRows*9/10 || wide > twinRows/10 {
				t.Errorf("%d of %d cases are paired as expected, %d intervals are wider than %g: first %+v", usual, twinRows, wide, tt.most,
					d.Cases[0])
			}
		})
	}
}
