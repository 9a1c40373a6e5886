package rules

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestWordsOfExplanations(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{phrase.Percent(0), "0.00 %"},
		{phrase.Percent(0.00871), "0.87 %"},
		{phrase.Percent(0.1224), "12.2 %"},
		{phrase.Percent(1.5), "150.0 %"},
		{phrase.Count(1, "wave"), "1 wave"},
		{phrase.Count(0, "row"), "0 rows"},
		{phrase.Rates(9.098e10, 4.666e11), "90.98 of 466.6 GFLOP/s"},
		{phrase.Rates(1e13, 1e14), "10.00 of 100.0 TFLOP/s"},
		{phrase.Rates(9.9e11, 1e12), "0.9900 of 1.000 TFLOP/s"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func worstOf(t *testing.T, units int, ms []int, us func(m int) float64, label func(m int) string) Finding {
	t.Helper()
	data := synthetic.ByM(us, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(5, 1))).Sweep(ms, 7)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: units}}
	for i := range data.Series[0].Rows {
		c := &data.Series[0].Rows[i].Case
		c.Label, c.Launch = kernels.ReadLabel(label(c.M))
	}
	a, err := RunAudit(context.Background(), data, Default().Only(Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Findings) == 0 {
		t.Fatal("no finding")
	}
	return slices.MaxFunc(a.Findings, func(a, b Finding) int { return int(math.Copysign(1, a.Loss.Mid-b.Loss.Mid)) })
}

func TestCausesOfLabelledRows(t *testing.T) {
	const wide = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT" // 128 rows by 256 columns
	named := func(label string) func(int) string { return func(int) string { return label } }
	smooth := func(m int) float64 { return 10 + 0.05*float64(m) }
	waves := func(m int) float64 {
		return 5 + 50*float64(infer.Tiling{M: 128, N: 256, Across: 16, Units: 132, Columns: 4096}.Fill(m).Waves)
	}
	for name, tc := range map[string]struct {
		units    int // default 132
		ms       []int
		us       func(m int) float64
		label    func(m int) string
		cause    cause.Kind
		says     string
		excluded string
	}{
		"waves where they are predicted": {
			ms: synthetic.Grid(64, 2000, 16), us: waves, label: named(wide), cause: cause.WaveQuantization,
			says: "its tiles of 128x256 start wave 2 on 132 units after m1024, where the time",
		},
		"a cliff where no wave begins": {
			ms: synthetic.Grid(64, 1536, 16), label: named(wide), cause: cause.Unknown, says: "does not show why",
			us: func(m int) float64 {
				us := smooth(min(m, 1008)) * math.Max(1, 1.01*float64(m)/1008)
				if m > 1200 {
					return 1.25 * us
				}
				return us
			},
			excluded: "start wave 2 on 132 units after m1024, where the rate falls",
		},
		"tiles cut along K make no waves": {
			ms: synthetic.Grid(64, 1536, 16), label: named("lib_128x256 splitk 4"), cause: cause.Unknown, says: "does not show why",
			us: func(m int) float64 {
				if m > 1024 {
					return 1.25 * smooth(m)
				}
				return smooth(m)
			},
			excluded: "cuts tiles along K",
		},
		"one tile more along M": {
			units: 8, ms: synthetic.Grid(64, 1000, 16), label: named("hopper 192x512"), cause: cause.TileQuantization,
			us:   func(m int) float64 { return 5 + 100*math.Ceil(float64(m)/192) },
			says: "its tiles of 192x512 start another row",
		},
		"a smaller tile than that of the reference computes none of its rows": {
			units: 8, ms: synthetic.Grid(64, 384, 16), cause: cause.Unknown,
			us: func(m int) float64 { return 5 + 100*math.Ceil(float64(m)/192) },
			label: func(m int) string {
				return map[bool]string{true: "hopper 16x512", false: "hopper 192x512"}[m > 192]
			},
			says: "m208",
		},
		"another kernel at a larger M": {
			ms: synthetic.Grid(64, 1536, 16), cause: cause.HeuristicChoice,
			us: func(m int) float64 {
				if m == 832 {
					return 1.3 * smooth(m)
				}
				return smooth(m)
			},
			label: func(m int) string { return map[bool]string{true: "slow", false: "fast"}[m == 832] },
			says:  "m848, which is 16 rows larger, takes only 52.4",
		},
		"a row off the line of its kernel": {
			ms: synthetic.Grid(64, 1536, 16), label: named("only"), cause: cause.Implementation,
			us: func(m int) float64 {
				if m == 832 {
					return 1.3 * smooth(m)
				}
				return smooth(m)
			},
			says: "but 51.61 us according to the fit of 31 rows from m512 to m1008",
		},
		"another kernel by its line": {
			ms: synthetic.Grid(128, 1536, 128), cause: cause.HeuristicChoice,
			us: func(m int) float64 {
				us := 5 + 10*math.Ceil(float64(m)/128)
				if m > 640 && m < 1200 {
					return 1.25 * us
				}
				return us
			},
			label: func(m int) string {
				if m > 640 && m < 1200 {
					return "lib_256x64"
				}
				return "lib_64x64"
			},
			says: "has lib_64x64, which would take at most",
		},
		"the same kernel at a larger M": {
			ms: synthetic.Grid(800, 864, 16), label: named("only"), cause: cause.Implementation,
			us: func(m int) float64 {
				if m == 832 {
					return 1.3 * smooth(m)
				}
				return smooth(m)
			},
			says: "the same kernel, only, computes the larger m848 in 52.4",
		},
		"a kernel given up too early": {
			ms: synthetic.Grid(64, 1024, 16), cause: cause.HeuristicChoice,
			us: func(m int) float64 {
				if m > 600 {
					return 70
				}
				return 50
			},
			label: func(m int) string { return map[bool]string{true: "nvjet_64x64", false: wide}[m > 600] },
			says:  "in 1 wave of 128x256 tiles; m608 needs no more waves",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := worstOf(t, cmp.Or(tc.units, 132), tc.ms, tc.us, tc.label)
			if f.Cause != tc.cause || !strings.Contains(f.Explanation, tc.says) {
				t.Errorf("%s: %s; want %s: %s", f.Cause, f.Explanation, tc.cause, tc.says)
			}
			var causes []cause.Kind
			for _, e := range f.Excluded {
				causes = append(causes, e.Cause)
				if e.Why == "" || e.Cause == f.Cause {
					t.Errorf("excluded %+v", e)
				}
				if strings.Contains(e.Why+f.Explanation, "the library") { // auto and user-supplied kernels are not libraries
					t.Errorf("of kernel %s: %s; %s", f.Series.Kernel, f.Explanation, e.Why)
				}
				if e.Cause == cause.WaveQuantization && !strings.Contains(e.Why, tc.excluded) {
					t.Errorf("waves are excluded since %q, want %q", e.Why, tc.excluded)
				}
			}
			if f.Cause == cause.Unknown {
				for _, want := range []cause.Kind{cause.HeuristicChoice, cause.MemoryBound, cause.Alignment, cause.WaveQuantization,
					cause.TileQuantization, cause.Implementation} {
					if !slices.Contains(causes, want) {
						t.Errorf("%s was not looked at: %v", want, causes)
					}
				}
			}
		})
	}
}

func TestTilesOfLaunches(t *testing.T) {
	c := &infer.Curve{Spec: kernels.Spec{Units: 132}}
	c.Series.Key.N = 4096
	tall := results.Launch{Tile: [3]int{128, 256, 64}, Split: 1}
	for _, tc := range []struct {
		p    infer.Point
		want [2]int
	}{
		{infer.Point{Launch: tall}, [2]int{128, 256}},
		{infer.Point{Launch: results.Launch{Tile: [3]int{128, 256, 64}}}, [2]int{128, 256}},
		{infer.Point{Label: "nvjet_256x128", Launch: results.Launch{Tile: [3]int{64, 192, 64}, Split: 1}}, [2]int{64, 192}},
		{infer.Point{Launch: results.Launch{Tile: [3]int{64, 192, 64}, Split: 1, Orientation: kernels.OrientationTransposed}},
			[2]int{64, 192}},
		{infer.Point{Launch: results.Launch{Tile: [3]int{64, 192, 64}, Split: 2}}, [2]int{}},
		{infer.Point{Launch: results.Launch{Tile: [3]int{64}, Split: 1}}, [2]int{}},
		{infer.Point{Label: "nvjet_256x128"}, [2]int{}},
		{infer.Point{Label: "algo 66 tile 128x256x64 stages 4 splitk 1", Launch: results.Launch{Split: 1}}, [2]int{}},
		{infer.Point{Label: "hopper 192x128 split 60 of 120", Launch: tall}, [2]int{128, 256}},
		{infer.Point{}, [2]int{}},
	} {
		got, ok := c.TileOf(tc.p)
		if ok != (tc.want[0] > 0) || ok && [2]int{got.M, got.N} != tc.want {
			t.Errorf("%+v: %dx%d %v, want %v", tc.p, got.M, got.N, ok, tc.want)
		}
	}
	if w, ok := c.TileOf(infer.Point{Launch: tall}); !ok || w.LastOf(1) != 1024 || w.LastOf(4) != 4224 {
		t.Errorf("waves of %+v end at m%d and m%d", w, w.LastOf(1), w.LastOf(4))
	}
}

// If a launch does not give its tile's orientation, the times of all rows with that label decide.
func TestTilesByTheTimes(t *testing.T) {
	for _, tall := range []bool{true, false} {
		tm, tn := 64, 256
		if tall {
			tm, tn = tn, tm
		}
		us := func(m int) float64 {
			return 20 * float64(infer.Tiling{M: tm, N: tn, Units: 132, Columns: 4096}.Fill(m).Waves)
		}
		data := synthetic.ByM(us, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(64, 4096, 64), 7)
		data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
		for i := range data.Series[0].Rows {
			c := &data.Series[0].Rows[i].Case
			c.Label, c.Launch = "theirs", results.Launch{Tile: [3]int{64, 256}, Orientation: kernels.OrientationUnknown}
		}
		c := infer.Prepare(data, Default().Basis()).Curves[0]
		if got, ok := c.TileOf(c.Points[0]); !ok || got.M != tm || got.N != tn {
			t.Errorf("tiles of %dx%d by the times, want %dx%d", got.M, got.N, tm, tn)
		}
	}
}

func TestParityCause(t *testing.T) {
	data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("lib", kernels.BF16), synthetic.Keyed("lib", kernels.INT8)},
		func(c results.Case) float64 {
			us := 10 + float64(c.M)
			if c.DType == kernels.INT8 && c.M > 256 {
				us *= 1.3
			}
			return us
		}, synthetic.Grid(16, 512, 16), 3)
	f := only(t, Parity, data, w)
	if len(f) != 1 || f[0].Cause != cause.Implementation || !strings.Contains(f[0].Explanation, "1 byte instead of 2 bytes") ||
		len(f[0].Excluded) == 0 {
		t.Errorf("%+v", f)
	}
}

// h100 reads the samples of a real sweep; skips the test if they are not next to the repository.
func h100(t testing.TB) infer.Data {
	t.Helper()
	path := filepath.Join("..", "..", "shared", "data", "h100_bf16", "sweep.csv.xz")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the samples of a real sweep are not here: %v", err)
	}
	text, err := exec.Command("xz", "-dc", path).Output()
	if err != nil {
		t.Skipf("xz can't be run: %v", err)
	}
	rows := csv.NewReader(strings.NewReader(string(text)))
	if _, err := rows.Read(); err != nil {
		t.Fatal(err)
	}
	data := infer.Data{Name: "h100", Meta: results.Meta{Source: path}}
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "cuda:0", Name: "NVIDIA H100 80GB HBM3", Units: 132}}
	byKey := map[results.SeriesKey]map[int][]results.Sample{}
	for seq := int64(0); ; seq++ {
		r, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		number := func(i int) float64 {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		key := results.SeriesKey{Device: r[0], Kernel: r[1], Subject: kernels.Product(kernels.DType(r[2]), int(number(4)), int(number(5))),
			Regime: results.Engine}
		if byKey[key] == nil {
			byKey[key] = map[int][]results.Sample{}
		}
		m := int(number(3))
		byKey[key][m] = append(byKey[key][m],
			results.Sample{Phase: results.PhaseSweep, Seq: seq, Round: int(number(6)), Launches: 1, US: number(7), ClockMHz: number(8)})
	}
	id := int64(0)
	for key, ms := range byKey {
		s := results.Series{Key: key}
		for m, samples := range ms {
			id++
			for i := range samples {
				samples[i].CaseID = id
			}
			s.Rows = append(s.Rows, results.Row{Case: results.Case{ID: id, SeriesKey: key, M: m}, Samples: samples})
		}
		slices.SortFunc(s.Rows, func(a, b results.Row) int { return a.Case.M - b.Case.M })
		data.Series = append(data.Series, s)
	}
	slices.SortFunc(data.Series, func(a, b results.Series) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return data
}

// At most one finding in twenty of a cuBLAS sweep without labels has no cause, and each of these has
// exclusions.
func TestCausesOfARealSweep(t *testing.T) {
	a, err := RunAudit(context.Background(), h100(t), Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	causes := map[cause.Kind]int{}
	for _, f := range a.Findings {
		causes[f.Cause]++
		if f.Cause == cause.Unknown && len(f.Excluded) < 6 {
			t.Errorf("%s: excluded %+v", f.ID, f.Excluded)
		}
	}
	t.Logf("%d findings: %v", len(a.Findings), causes)
	if len(a.Findings) < 400 || 20*causes[cause.Unknown] > len(a.Findings) {
		t.Errorf("%d of %d findings have no cause", causes[cause.Unknown], len(a.Findings))
	}
}

func TestMajority(t *testing.T) {
	waves := func(m int) float64 {
		return 5 + 50*float64(infer.Tiling{M: 128, N: 256, Across: 16, Units: 132, Columns: 4096}.Fill(m).Waves)
	}
	data := synthetic.ByM(waves, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(64, 2000, 16), 7)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
	for i := range data.Series[0].Rows {
		c := &data.Series[0].Rows[i].Case
		c.Label, c.Launch = kernels.ReadLabel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT")
	}
	c := infer.Prepare(data, Default().Basis()).Curves[0]
	full, _ := c.At(1024)
	// Behind the start of a wave, a loss of 0.4 has a cause, and a loss of 0.99 has none.
	rows := func(losses ...float64) *Candidate {
		out := &Candidate{Rule: Monotonic}
		for i, loss := range losses {
			out.Rows = append(out.Rows, &Judgement{Curve: c, Point: full + 1 + i, Loss: stats.Interval{Mid: loss}, Against: c.CaseOf(full)})
		}
		out.Worst = out.Rows[len(losses)-1]
		return out
	}
	for _, tc := range []struct {
		rows  *Candidate
		cause cause.Kind
		says  string
	}{
		{rows(0.4, 0.4, 0.4, 0.99), cause.WaveQuantization, "at 3 of 4 sizes: m10"},
		{rows(0.4, 0.4, 0.99, 0.99), "", ""},
		{rows(0.99, 0.99, 0.99), "", ""},
	} {
		cause, why := tc.rows.majority()
		if cause != tc.cause || !strings.HasPrefix(why, tc.says) || (why == "") != (tc.says == "") {
			t.Errorf("%q: %s, want %q: %s", cause, why, tc.cause, tc.says)
		}
	}
}
