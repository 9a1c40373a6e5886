package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

const groupedPeak, groupedBandwidth = 100e12, 1e12

// efficient is the time of a kernel of grouped products that only the peak and the bandwidth limit, in microseconds.
func efficient(c results.Case) float64 {
	return 1e6 * max(c.FLOPs()/groupedPeak, c.Bytes()/groupedBandwidth)
}

func experts(kernel string, d kernels.Dims) results.SeriesKey {
	k := synthetic.Keyed(kernel, kernels.BF16)
	d.N, d.K = 2048, 1024
	k.Subject = kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: d, Layout: kernels.Transposed}
	return k
}

// groupedRun measures series of grouped products whose ceilings are those of [efficient].
func groupedRun(keys []results.SeriesKey, us func(results.Case) float64, ms []int) (infer.Data, *synthetic.World) {
	data, w := synthetic.Joined(keys, us, ms, 5)
	for i := range data.Series {
		s := &data.Series[i]
		s.Peak.FLOPS = groupedPeak
		s.Bandwidth = kernels.Bandwidth{Rate: groupedBandwidth, Origin: kernels.Measured}
	}
	return data, w
}

var (
	evenRows = kernels.Dims{Groups: 32}
	drawn    = kernels.Dims{Groups: 32, TopK: 2, Skew: 150, Draw: 1}
)

// fewAndMany are Ms where further experts get rows, and Ms where all have some.
func fewAndMany() []int {
	return append(synthetic.Grid(2, 128, 2), synthetic.Grid(256, 4096, 256)...)
}

func groupedAudit(t *testing.T, cfg Config, keys []results.SeriesKey, us func(results.Case) float64) *Audit {
	t.Helper()
	data, w := groupedRun(keys, us, fewAndMany())
	a, err := RunAudit(t.Context(), data, cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The weights of further experts cost time, which is no loss. Without them, monotonic would find that time.
func TestEfficientGroupedProductsHaveNoFinding(t *testing.T) {
	table := kernels.RecordedRouting{Groups: 32, Rows: map[int][]int{}}
	drops := false
	best := 0.0
	for _, m := range fewAndMany() {
		key := experts("lib", drawn)
		rows, err := key.GroupRows(m)
		if err != nil {
			t.Fatal(err)
		}
		if table.Rows[m] = rows; m%4 == 0 { // a few experts get all
			table.Rows[m] = make([]int, 32)
			table.Rows[m][7] = m
		}
		rate := key.FLOPs(m) / efficient(results.Case{SeriesKey: key, M: m})
		drops = drops || rate < 0.9*best
		best = max(best, rate)
	}
	if !drops {
		t.Fatal("the rate of no M drops, so the test shows nothing")
	}
	hash, err := table.Register()
	if err != nil {
		t.Fatal(err)
	}
	a := groupedAudit(t, Default(), []results.SeriesKey{experts("lib", evenRows), experts("lib", drawn),
		experts("lib", kernels.Dims{Groups: 32, Routing: hash})}, efficient)
	for _, f := range a.Findings {
		t.Errorf("%s at %s, M %d to %d: %s", f.Rule, f.Series.Size(), f.FromM, f.ToM, f.Explanation)
	}
	for _, j := range a.Judged {
		if j.Rule == Routing && (j.Decided == 0 || j.Rows != 2*len(fewAndMany())) {
			t.Errorf("%+v, expected rows of two series", j)
		}
	}
}

// A slow size breaks the rules at that size only. At M 64 half of the experts have rows, so even routing is not faster.
func TestDentOfAGroupedProduct(t *testing.T) {
	for m, want := range map[int][]Rule{64: {Monotonic}, 1024: {Routing, Monotonic}} {
		a := groupedAudit(t, Default(), []results.SeriesKey{experts("lib", evenRows), experts("lib", drawn)},
			func(c results.Case) float64 {
				if us := efficient(c); c.Even() || c.M != m {
					return us
				} else {
					return 1.6 * us
				}
			})
		var found []Rule
		for _, f := range a.Findings {
			if found = append(found, f.Rule); f.FromM != m || f.ToM != m || f.Status != Confirmed || f.Series.Even() || f.Loss.Lo > 0.375 {
				t.Errorf("M %d: %s %s of %s from %d to %d loses %v", m, f.Status, f.Rule, f.Series.Size(), f.FromM, f.ToM, f.Loss)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("M %d: findings of %v, expected %v", m, found, want)
		}
	}
}

func TestRouting(t *testing.T) {
	slow := func(c results.Case) float64 {
		us := efficient(c)
		if !c.Even() && c.Kernel == "lib" && c.M >= 512 {
			us *= 1.3
		}
		return us
	}
	a := groupedAudit(t, Default().Only(Routing), []results.SeriesKey{experts("lib", evenRows), experts("lib", drawn),
		experts("other", evenRows), experts("other", drawn)}, slow)
	if len(a.Findings) != 1 {
		t.Fatalf("findings %+v", a.Findings)
	}
	f := a.Findings[0]
	if f.Rule != Routing || f.Series.Kernel != "lib" || f.FromM != 512 || f.ToM != 4096 || f.Status != Confirmed ||
		f.Cause != cause.Implementation || f.Against == nil || !f.Against.Even() {
		t.Errorf("finding %+v", f)
	}
	for text, in := range map[string]string{"skew 150 take 1.3": f.Explanation, "explain 1.00; 32 of 32 experts": f.Explanation,
		"--op grouped --dtype bf16 --shape n2048k1024g32t2s150d1,n2048k1024g32 ": f.Reproduce, "--routing even": f.Reproduce} {
		if !strings.Contains(in, text) {
			t.Errorf("%q lacks %q", in, text)
		}
	}
	// Without even routing in the run, no row is judged.
	a = groupedAudit(t, Default().Only(Routing), []results.SeriesKey{experts("lib", drawn), experts("other", evenRows)}, slow)
	if len(a.Findings) != 0 || a.Judged[0].Decided+a.Judged[0].Undecided != 0 {
		t.Errorf("findings %+v, judged %+v", a.Findings, a.Judged)
	}
}

// Few samples raise a suspicion.
func TestSuspectedRouting(t *testing.T) {
	keys := []results.SeriesKey{experts("lib", evenRows), experts("lib", drawn)}
	data, _ := groupedRun(keys, func(c results.Case) float64 {
		if us := efficient(c); c.Even() {
			return us
		} else {
			return 1.6 * us
		}
	}, synthetic.Grid(256, 4096, 256))
	wantSuspicion(t, data, Routing)
}

// wantSuspicion audits a run of 16 sizes by one rule, with the first sample of each: all are one suspicion.
func wantSuspicion(t *testing.T, data infer.Data, of Rule) {
	t.Helper()
	for i := range data.Series {
		for r := range data.Series[i].Rows {
			row := &data.Series[i].Rows[r]
			row.Samples = row.Samples[:1]
		}
	}
	a, err := RunAudit(t.Context(), data, Default().Only(of), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Findings) != 1 || a.Findings[0].Status != Suspected || a.Findings[0].Rows != 16 {
		t.Errorf("findings %+v", a.Findings)
	}
}
