package rules

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/published"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func publishedSweep(t testing.TB, name string, key results.SeriesKey, peak float64) infer.Data {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(published.Read(t, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := results.Series{Key: key, Peak: kernels.Peak{DType: key.DType, FLOPS: peak, Origin: kernels.DataSheet}}
	for i, r := range rows[1:] {
		m, err1 := strconv.Atoi(r[0])
		us, err2 := strconv.ParseFloat(r[1], 64)
		utils, err3 := strconv.ParseFloat(r[3], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		c := results.Case{ID: int64(i + 1), SeriesKey: key, M: m}
		c.Label, c.Launch = kernels.ReadLabel(r[4])
		s.Rows = append(s.Rows, results.Row{Case: c,
			Samples: []results.Sample{{CaseID: c.ID, Phase: results.PhaseSweep, Seq: int64(i), US: us, Utils: utils}}})
	}
	slices.SortFunc(s.Rows, func(a, b results.Row) int { return a.Case.M - b.Case.M })
	return infer.Data{Name: name, Series: []results.Series{s}, Meta: results.Meta{Source: name}}
}

func rtx4090(t testing.TB) infer.Data {
	return publishedSweep(t, published.RTX4090,
		results.SeriesKey{Device: "NVIDIA GeForce RTX 4090", Kernel: "torch", Subject: kernels.Product(kernels.FP16, 14336, 4096),
			Regime: results.Hot}, 166e12)
}

func a800(t testing.TB) infer.Data {
	return publishedSweep(t, published.A800,
		results.SeriesKey{Device: "NVIDIA A800 80GB PCIe", Kernel: "torch", Subject: kernels.Product(kernels.BF16, 4096, 4096),
			Regime: results.Hot}, 312e12)
}

func articleConfig(threshold float64) Config {
	c := Default().Only(Monotonic)
	c.Method, c.Threshold = MethodArticle, threshold
	return c
}

func TestPublishedCounts(t *testing.T) {
	for _, tc := range []struct {
		name      string
		data      func(testing.TB) infer.Data
		cases     int
		at90      int
		at85      int
		splitFlag int
		splitAll  int
	}{
		{"rtx4090", rtx4090, 8197, 3021, 2882, 2881, 2890},
		{"a800", a800, 517, 322, 287, 192, 192},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := tc.data(t)
			for threshold, want := range map[float64]int{0.9: tc.at90, 0.85: tc.at85} {
				a, err := RunAudit(context.Background(), data, articleConfig(threshold), nil)
				if err != nil {
					t.Fatal(err)
				}
				if a.Cases != tc.cases || len(a.Flagged) != want {
					t.Errorf("threshold %v: %d cases, %d flagged; want %d, %d", threshold, a.Cases, len(a.Flagged), tc.cases, want)
				}
				if !slices.IsSorted(a.Flagged) {
					t.Error("flagged is not ascending")
				}
				rows := 0
				for _, f := range a.Findings {
					rows += f.Rows
				}
				if rows != want {
					t.Errorf("threshold %v: findings hold %d rows, want %d", threshold, rows, want)
				}
			}
			for among, want := range map[string]int{AmongFlagged: tc.splitFlag, AmongAll: tc.splitAll} {
				r, err := FindSplits(context.Background(), data, Default(),
					SplitOptions{Method: MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: among}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Splits) != want {
					t.Errorf("splits among %s: %d, want %d", among, len(r.Splits), want)
				}
			}
		})
	}
}

func TestPublishedRows(t *testing.T) {
	r, err := FindSplits(context.Background(), rtx4090(t), Default(),
		SplitOptions{Method: MethodArticle, Threshold: 0.85, Ratio: 0.9, Among: AmongFlagged}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byM := map[int]SplitRow{}
	for _, s := range r.Splits {
		byM[s.M] = s
	}
	for m, parts := range map[int][]int{2180: {192, 1988}, 3076: {384, 2692}, 4228: {172, 4056}} {
		if !slices.Equal(byM[m].Parts, parts) {
			t.Errorf("m%d: parts %v, want %v", m, byM[m].Parts, parts)
		}
	}
	if s := byM[2180]; math.Abs(s.PredictedUS-1716.7) > 0.005 || s.DirectUS != 2106.16 {
		t.Errorf("m2180: predicted %v, direct %v; want 1716.7, 2106.16", s.PredictedUS, s.DirectUS)
	}
	text, err := json.Marshal(byM[2180])
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]any
	if err := json.Unmarshal(text, &flat); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"series", "m", "parts", "predicted_us", "direct_us"} {
		if flat[key] == nil {
			t.Errorf("no key %q at the top of %s", key, text)
		}
	}
}

// At most one finding in twenty of the published sweep has no cause, and each of these has exclusions.
func TestCausesWithoutLabels(t *testing.T) {
	data := rtx4090(t)
	for i := range data.Series[0].Rows {
		data.Series[0].Rows[i].Case.Label = ""
		data.Series[0].Rows[i].Case.Launch = results.Launch{}
	}
	a, err := RunAudit(context.Background(), data, articleConfig(0.85), nil)
	if err != nil {
		t.Fatal(err)
	}
	unknown := 0
	for _, f := range a.Findings {
		if f.Cause != Unknown {
			continue
		}
		unknown++
		if len(f.Excluded) == 0 {
			t.Errorf("%s: nothing is excluded", f.ID)
		}
	}
	t.Logf("%d findings, %d without a cause", len(a.Findings), unknown)
	if len(a.Findings) < 90 || 20*unknown > len(a.Findings) {
		t.Errorf("%d of %d findings have no cause", unknown, len(a.Findings))
	}
}

// On the published RTX 4090 sweep the library chooses a slow kernel; on the A800 the cliffs are waves of
// tiles on 108 SMs.
func TestPublishedCauses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		data  func(testing.TB) infer.Data
		cause Cause
		share float64
		least int
	}{
		{"rtx4090", rtx4090, HeuristicChoice, 0.95, 90},
		{"a800", a800, WaveQuantization, 0.9, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := RunAudit(context.Background(), tc.data(t), articleConfig(0.85), nil)
			if err != nil {
				t.Fatal(err)
			}
			rows, of := 0, 0
			causes := map[Cause]int{}
			for _, f := range a.Findings {
				causes[f.Cause] += f.Rows
				rows += f.Rows
				if f.Cause == tc.cause {
					of += f.Rows
				}
			}
			t.Logf("%d findings, rows by cause %v; first: %s", len(a.Findings), causes, a.Findings[0].Explanation)
			for _, f := range a.Findings {
				if f.Cause != tc.cause {
					t.Logf("m%d-%d: %s: %s", f.FromM, f.ToM, f.Cause, f.Explanation)
				}
			}
			if len(a.Findings) < tc.least {
				t.Errorf("%d findings, want at least %d", len(a.Findings), tc.least)
			}
			if float64(of) < tc.share*float64(rows) {
				t.Errorf("%d of %d rows have the cause %s", of, rows, tc.cause)
			}
		})
	}
}
