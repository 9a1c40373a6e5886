package rules

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// blockScaled are the products of a layer of a large model in fp8, from public tables.
var blockScaled = [][2]int{{2112, 7168}, {24576, 1536}, {32768, 512}, {7168, 16384}, {4096, 7168}, {7168, 2048}}

var hostMs = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 257, 512, 1024, 2048, 4096}

func hosted(shapes [][2]int, known bool, rng *rand.Rand, us func(k results.SeriesKey, m int) float64) infer.Data {
	data := infer.Data{Name: "hosted", Meta: results.Meta{Source: "elsewhere.csv"}}
	for _, shape := range shapes {
		w := synthetic.ByM(nil, synthetic.Gaussian(0.02), rng)
		w.Key = results.SeriesKey{Device: "card", Kernel: "lib", Subject: kernels.Product(kernels.FP8, shape[0], shape[1])}
		rows := map[int]float64{}
		for _, m := range hostMs {
			rows[m] = us(w.Key, m)
		}
		w.Time = func(c results.Case) float64 { return rows[c.M] }
		s := w.Sweep(hostMs, 5).Series[0]
		s.Peak = kernels.Peak{DType: kernels.FP8, Origin: kernels.Relative}
		if known {
			s.Peak = kernels.Peak{DType: kernels.FP8, FLOPS: 1979e12, Origin: kernels.DataSheet}
			s.Bandwidth = kernels.Bandwidth{Rate: 3350e9, Of: kernels.Reading, Origin: kernels.DataSheet}
		}
		for i := range s.Rows {
			s.Rows[i].Case.ID += int64(1000 * len(data.Series))
			for j := range s.Rows[i].Samples {
				s.Rows[i].Samples[j].CaseID = s.Rows[i].Case.ID
			}
		}
		data.Series = append(data.Series, s)
	}
	return data
}

// good is the time of a good kernel on a card of 3350 GB/s and 1979 TFLOP/s, in microseconds.
func good(k results.SeriesKey, m int) float64 {
	return 3 + 1e6*math.Max(k.Bytes(m)/(0.8*3350e9), k.FLOPs(m)/(0.7*1979e12))
}

// Over many seeds the host's floor is found, and rarely a floor in times that follow memory or a loop over K.
func TestHostFloors(t *testing.T) {
	const seeds = 200
	for _, tc := range []struct {
		name   string
		shapes [][2]int
		known  bool
		us     func(rng *rand.Rand) func(results.SeriesKey, int) float64
		floor  bool
	}{
		{"a host", blockScaled, false, fromHost, true},
		{"a host, on a card that is known", blockScaled, true, fromHost, true},
		{"a host and one small shape, on a card that is known", blockScaled[:1], true, fromHost, true},
		{"a host and one shape, on a card that is not known", blockScaled[:1], false, fromHost, false},
		{"a host and one large shape, on a card that is known", blockScaled[3:4], true, fromHost, false},
		{"memory", blockScaled, false, fromMemory, false},
		{"memory, on a card that is known", blockScaled, true, fromMemory, false},
		{"one shape from memory", blockScaled[4:5], true, fromMemory, false},
		{"shapes of one size from memory", [][2]int{{4096, 7168}, {7168, 4096}, {4096, 8192}}, false, fromMemory, false},
		{"a loop over K", blockScaled, false, fromLoop, false},
		{"a loop over K, on a card that is known", blockScaled, true, fromLoop, false},
		{"a loop over one K", [][2]int{{512, 7168}, {2048, 7168}, {4096, 7168}}, false, fromLoop, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed := range uint64(seeds) {
				rng := rand.New(rand.NewPCG(seed, 7))
				data := hosted(tc.shapes, tc.known, rng, tc.us(rng))
				p := infer.Prepare(data, Default().Basis())
				p.FindFloors(data)
				for _, c := range p.Curves {
					if c.Floor != nil {
						found++
						break
					}
				}
			}
			t.Logf("floors in %d of %d runs", found, seeds)
			if tc.floor && found < seeds*9/10 || !tc.floor && found > seeds/20 {
				t.Errorf("floors were found in %d of %d runs", found, seeds)
			}
		})
	}
}

// fromHost are times of a good kernel with a host that takes 57 to 98 us for any product.
func fromHost(rng *rand.Rand) func(results.SeriesKey, int) float64 {
	return func(k results.SeriesKey, m int) float64 {
		return math.Max(math.Min(98, math.Max(57, 75*math.Exp(0.15*rng.NormFloat64()))), good(k, m))
	}
}

// fromMemory are times of a good kernel that vary by a few percent from row to row.
func fromMemory(rng *rand.Rand) func(results.SeriesKey, int) float64 {
	return func(k results.SeriesKey, m int) float64 { return good(k, m) * math.Exp(0.04*rng.NormFloat64()) }
}

// fromLoop are times of a kernel that does not split K, with tiles of 256 rows.
func fromLoop(rng *rand.Rand) func(results.SeriesKey, int) float64 {
	return func(k results.SeriesKey, m int) float64 {
		return math.Max(2+float64(k.K)/64*0.5, good(k, m)) * math.Exp(0.04*rng.NormFloat64())
	}
}

func TestFloorIsNoFinding(t *testing.T) {
	for _, known := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 7))
		host := fromHost(rng)
		data := hosted(blockScaled, known, rng, func(k results.SeriesKey, m int) float64 {
			if us := host(k, m); m == 2048 {
				return 3 * us
			} else {
				return us
			}
		})
		a, err := RunAudit(context.Background(), data, Default(), nil)
		if err != nil {
			t.Fatal(err)
		}
		dips := 0
		floors := map[results.SeriesKey]*infer.HostFloor{}
		for _, s := range a.Series {
			floors[s.Key] = s.Floor
			if s.Floor == nil {
				t.Errorf("known %v: %v has no floor", known, s.Key)
				continue
			}
			if s.Floor.FromUS < 50 || s.Floor.ToUS > 110 || s.Floor.Rows < 8 {
				t.Errorf("known %v: %v: %+v", known, s.Key, *s.Floor)
			}
			for _, r := range s.Rows {
				if on := r.M <= s.Floor.ToM; on != (r.Cause == cause.HostBound) || on && r.Verdict != Unjudged {
					t.Errorf("known %v: %v m%d is %s by %q", known, s.Key, r.M, r.Verdict, r.Cause)
				}
			}
		}
		for _, f := range a.Findings {
			if floors[f.Series].Holds(f.WorstM) {
				t.Errorf("known %v: a finding on the floor: %s %v m%d: %s", known, f.Rule, f.Series, f.WorstM, f.Explanation)
			}
			if f.FromM <= 2048 && f.ToM >= 2048 && f.Rule == Monotonic {
				dips++
			}
		}
		if dips < len(blockScaled) {
			t.Errorf("known %v: %d of %d dips above the floor were found", known, dips, len(blockScaled))
		}
		data.Meta.Source = ""
		if a, err = RunAudit(context.Background(), data, Default(), nil); err != nil || a.Series[0].Floor != nil {
			t.Errorf("known %v: a floor of %+v in a sweep of our own: %v", known, a.Series[0].Floor, err)
		}
	}
}
