package remedy

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Time is linear in M, so no split gains, but the cheapest of hundreds of pairs seems to. False positives
// must stay within the level.
func TestSplitsByChance(t *testing.T) {
	const runs = 20
	ms := synthetic.Grid(4, 8192, 4)
	cfg := rules.Default().Only(rules.SplitRule)
	cfg.Rules.Split.Margin = 0.02
	naive, rows, audited, predicted := 0, 0, 0, 0
	for run := range runs {
		w := synthetic.ByM(func(m int) float64 { return 0.5 * float64(m) }, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(uint64(run), 3)))
		data := w.Sweep(ms, 7)
		one := data
		one.Series = slices.Clone(data.Series)
		one.Series[0].Rows = slices.Clone(data.Series[0].Rows)
		for i := range one.Series[0].Rows {
			one.Series[0].Rows[i].Samples = one.Series[0].Rows[i].Samples[:1]
		}
		plain, err := Find(context.Background(), one, cfg, Options{Method: rules.MethodArticle, Ratio: 0.98, Among: AmongAll}, nil)
		if err != nil {
			t.Fatal(err)
		}
		naive += len(plain.Splits)
		rows += len(ms)
		a, err := rules.RunAudit(context.Background(), data, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Findings) > 0 {
			audited++
		}
		ours, err := Find(context.Background(), data, cfg, Options{Among: AmongAll}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(ours.Splits) > 0 {
			predicted++
		}
	}
	t.Logf("plain: %.0f %% of batches show a split that gains over 2 %%; ours: the rule accuses in %d, the search predicts in %d of %d "+
		"runs", 100*float64(naive)/float64(rows), audited, predicted, runs)
	if float64(naive) < 0.6*float64(rows) {
		t.Error("the trap is not set: the plain rule found few splits")
	}
	if allowed := int(math.Ceil(cfg.FDR*runs + 3*math.Sqrt(cfg.FDR*runs))); audited > allowed || predicted > allowed {
		t.Errorf("more than the %d runs that the level allows", allowed)
	}
}

// cliff is a kernel that is 40 % slower from 513 to 640: a split of 512 and the rest, or padding to 644, are
// remedies.
func cliff(m int) float64 {
	us := 20 + 0.5*float64(m)
	if m > 512 && m <= 640 {
		us *= 1.6
	}
	return us
}

func TestRemediesExecuted(t *testing.T) {
	ms := synthetic.Grid(4, 1024, 4)
	cfg := rules.Default()
	w := synthetic.ByM(cliff, synthetic.Student(0.02), rand.New(rand.NewPCG(2, 3)))
	data := w.Sweep(ms, 9)
	r, err := Find(context.Background(), data, cfg, Options{}, w)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Splits) == 0 || len(r.Stretches) == 0 {
		t.Fatalf("nothing found: %+v", r)
	}
	covered := 0
	for _, s := range r.Stretches {
		if s.FromM <= 512 || s.ToM > 640 {
			t.Errorf("stretch m%d-%d reaches beyond the cliff", s.FromM, s.ToM)
		}
		covered += len(s.Ms)
	}
	if covered < 24 {
		t.Errorf("stretches cover %d of 32 rows: %+v", covered, r.Stretches)
	}
	for _, s := range r.Splits {
		direct := cliff(s.M)
		fix := 0.0
		switch s.Kind {
		case rules.RemedySplit:
			for _, p := range s.Parts {
				fix += cliff(p)
			}
		case rules.RemedyPad:
			fix = cliff(s.PadTo)
		}
		if !s.Executed || !s.Pays || s.Gain.Lo <= 1+cfg.Remedy.Margin {
			t.Errorf("m%d is listed without proof: %+v", s.M, s.Remedy)
		}
		if truth := direct / fix; truth < s.Gain.Lo*0.995 || truth > s.Gain.Hi*1.005 {
			t.Errorf("m%d: gain %.3f in truth, %+v measured", s.M, truth, s.Gain)
		}
	}
	meta := results.Meta{Gemmaudit: "test", Fingerprint: results.Fingerprint{Arch: "amd64", CPUModel: "sim", Governor: "performance",
		Devices: []kernels.Spec{{ID: "sim", Kind: kernels.CPU, Name: "simulated",
			Versions: map[string]string{"onednn": "3.1", "driver": "1", "microcode": "x"}, Features: []string{"avx2", "avx512"}}}}}
	tab, err := BuildTable(meta, r)
	if err != nil {
		t.Fatal(err)
	}
	if v := tab.Validators; v.Device != "simulated" || v.Driver != "1" || v.Libraries["onednn"] != "3.1" || len(v.Libraries) != 1 ||
		v.ClockPolicy != "governor performance" || v.Regime != "engine" {
		t.Errorf("validators %+v", v)
	}
	for _, c := range []struct {
		change func(*table.Validators)
		want   []results.FactorDiff
	}{
		{func(v *table.Validators) { v.Features = []string{"avx512", "avx2"} }, nil},
		{func(v *table.Validators) { v.Features = []string{"avx2"} },
			[]results.FactorDiff{{Name: "features", A: "avx2 avx512", B: "avx2"}}},
		{func(v *table.Validators) { v.Gemmaudit = "newer" }, []results.FactorDiff{{Name: "gemmaudit", A: "test", B: "newer"}}},
	} {
		here := ValidatorsOf(meta, "sim", results.Engine, 0)
		c.change(&here)
		if got := CompareValidators(tab.Validators, here); !slices.Equal(got, c.want) {
			t.Errorf("differences %+v, expected %+v", got, c.want)
		}
		// An empty condition, as in tables of the first version, is not a difference.
		open := tab.Validators
		open.Features, open.Gemmaudit = nil, ""
		if got := CompareValidators(open, here); len(got) > 0 {
			t.Errorf("differences %+v from a table that tells neither", got)
		}
	}
	for m := 1; m <= 1100; m++ {
		a := tab.Lookup(served(synthetic.Key), m)
		sum := 0
		for _, p := range a.Parts(m) {
			sum += p
		}
		if sum < m {
			t.Fatalf("m%d: action %+v computes %d rows", m, a, sum)
		}
		if (m <= 512 || m > 640) && a.Kind != table.Direct {
			t.Errorf("m%d: %+v, want direct", m, a)
		}
	}

	t.Run("verified", func(t *testing.T) {
		checks, err := VerifyTable(context.Background(), tab, "sim", cfg, w)
		if err != nil || len(checks) == 0 {
			t.Fatal(checks, err)
		}
		for _, c := range checks {
			if c.Verdict != Pays {
				t.Errorf("m%d: %s: %s", c.M, c.Verdict, c.Reason)
			}
		}
		if p := PruneTable(tab, checks); len(p.Series[0].Intervals) != len(tab.Series[0].Intervals) {
			t.Error("a good interval was pruned")
		}
	})
	t.Run("regimes", func(t *testing.T) {
		for named, want := range map[results.Regime]results.Regime{"": results.Engine, results.Cold: results.Cold} {
			of := *tab
			of.Validators.Regime = string(named)
			seen := &regimes{World: w}
			if _, err := VerifyTable(context.Background(), &of, "sim", cfg, seen); err != nil {
				t.Fatal(err)
			}
			if len(seen.asked) == 0 || slices.ContainsFunc(seen.asked, func(r results.Regime) bool { return r != want }) {
				t.Errorf("a table of regime %q is verified in %v", named, seen.asked)
			}
		}
	})
	t.Run("outlived", func(t *testing.T) {
		repaired := synthetic.ByM(func(m int) float64 { return 20 + 0.5*float64(m) }, synthetic.Student(0.02), rand.New(rand.NewPCG(9, 9)))
		checks, err := VerifyTable(context.Background(), tab, "sim", cfg, repaired)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.Verdict != Rejected {
				t.Errorf("m%d: %s (%+v), want rejected", c.M, c.Verdict, c.Gain)
			}
		}
		if p := PruneTable(tab, checks); len(p.Series[0].Intervals) != 0 || len(tab.Series[0].Intervals) == 0 {
			t.Error("rejected intervals were not pruned from a copy")
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		other := meta
		other.Fingerprint.CPUModel = "else"
		other.Fingerprint.Devices = slices.Clone(meta.Fingerprint.Devices)
		other.Fingerprint.Devices[0].Versions = map[string]string{"onednn": "3.2", "driver": "1"}
		diff := CompareValidators(tab.Validators, ValidatorsOf(other, "sim", results.Engine, 0))
		var names []string
		for _, d := range diff {
			names = append(names, d.Name)
		}
		if !slices.Equal(names, []string{"onednn", "cpu model"}) {
			t.Errorf("differing validators %v", names)
		}
		if diff := CompareValidators(tab.Validators, tab.Validators); len(diff) != 0 {
			t.Errorf("a table differs from itself: %v", diff)
		}
	})
}

// Each launch of a split costs more than the same launch alone, so the execution must refute the prediction.
func TestRemedyRejected(t *testing.T) {
	w := synthetic.ByM(cliff, synthetic.Student(0.02), rand.New(rand.NewPCG(4, 4)))
	data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
	single := w.Time
	w.Time = func(c results.Case) float64 {
		if len(c.Parts) > 0 || c.PadTo > 0 {
			return 1.7 * single(c)
		}
		return single(c)
	}
	r, err := Find(context.Background(), data, rules.Default(), Options{}, w)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Splits) != 0 || len(r.Stretches) != 0 || len(r.Rejected) == 0 {
		t.Errorf("%d splits, %d stretches, %d rejected", len(r.Splits), len(r.Stretches), len(r.Rejected))
	}
}

func TestKWay(t *testing.T) {
	us := func(m int) float64 {
		if m == 96 {
			return 10
		}
		return 5 + float64(m)
	}
	w := synthetic.ByM(us, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(6, 6)))
	data := w.Sweep(synthetic.Grid(4, 320, 4), 9)
	r, err := Find(context.Background(), data, rules.Default(), Options{Among: AmongAll}, w)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range r.Splits {
		found = found || s.M == 288 && slices.Equal(s.Parts, []int{96, 96, 96})
		if len(s.Parts) > rules.Default().Remedy.MaxParts {
			t.Errorf("m%d in %d parts", s.M, len(s.Parts))
		}
	}
	if !found {
		t.Errorf("m288 = 96+96+96 was not found among %d remedies", len(r.Splits))
	}
}

func TestSplitOptions(t *testing.T) {
	for _, o := range []Options{{Method: "guess"}, {Threshold: 2}, {Ratio: -1}, {Among: "some"}, {MaxParts: 1}} {
		if _, err := Find(context.Background(), infer.Data{}, rules.Default(), o, nil); err == nil || !strings.Contains(err.Error(),
			"expected") {
			t.Errorf("%+v: error %v", o, err)
		}
	}
	r, err := Find(context.Background(), infer.Data{}, rules.Default(), Options{}, nil)
	if err != nil || r.Splits == nil {
		t.Errorf("an empty run: %v, %+v", err, r)
	}
}

func TestTableIntervals(t *testing.T) {
	s := Stretch{Kind: rules.RemedyPad, PadTo: 4096, Ms: []int{8, 12, 16, 18, 20, 512, 1024, 1056, 1088}}
	var got [][3]int
	for _, iv := range intervalsOf(s) {
		got = append(got, [3]int{iv.From, iv.To, iv.Step})
	}
	// 1024 is too far from 512 for the Ms between.
	want := [][3]int{{8, 16, 4}, {17, 20, 2}, {512, 512, 0}, {1024, 1088, 32}}
	if !slices.Equal(got, want) {
		t.Errorf("intervals %v, want %v", got, want)
	}
}

// A machine that has slowed down since the sweep slows both sides of a pair, so the gain's times are the
// pairs'.
func TestGainAgreesWithItsTimes(t *testing.T) {
	w := synthetic.ByM(cliff, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(11, 1)))
	data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
	fast := w.Time
	w.Time = func(c results.Case) float64 { return 1.2 * fast(c) }
	r, err := Find(context.Background(), data, rules.Default(), Options{}, w)
	if err != nil || len(r.Splits) == 0 {
		t.Fatalf("%d splits, %v", len(r.Splits), err)
	}
	for _, s := range r.Splits {
		if ratio := s.DirectUS / s.ExecutedUS.Mid / s.Gain.Mid; math.Abs(ratio-1) > 0.03 {
			t.Errorf("m%d: %.1f us direct, %.1f executed, and a gain of %.3f", s.M, s.DirectUS, s.ExecutedUS.Mid, s.Gain.Mid)
		}
		if off := s.SweepUS / cliff(s.M); math.Abs(off-1) > 0.05 {
			t.Errorf("m%d: %.1f us in the sweep, expected about %.1f", s.M, s.SweepUS, cliff(s.M))
		}
	}
}

// If the row with the best prediction does not pay, ends that pay are kept alone.
func TestEveryRowThatPaysIsServed(t *testing.T) {
	const worst = 576
	us := func(m int) float64 {
		if m == worst {
			return 1.3 * cliff(m)
		}
		return cliff(m)
	}
	w := synthetic.ByM(us, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(12, 1)))
	data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
	good := w.Time
	w.Time = func(c results.Case) float64 {
		if (len(c.Parts) > 0 || c.PadTo > 0) && c.M == worst {
			return 3 * good(c)
		}
		return good(c)
	}
	r, err := Find(context.Background(), data, rules.Default(), Options{}, w)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Splits) == 0 || len(r.Rejected) == 0 {
		t.Fatalf("%d pay and %d don't: the trap is not set", len(r.Splits), len(r.Rejected))
	}
	for _, s := range r.Splits {
		if !slices.ContainsFunc(r.Stretches, func(st Stretch) bool { return st.Series == s.Series && slices.Contains(st.Ms, s.M) }) {
			t.Errorf("m%d pays and no stretch serves it: %+v", s.M, r.Stretches)
		}
	}
	for _, s := range r.Rejected {
		if slices.ContainsFunc(r.Stretches, func(st Stretch) bool { return slices.Contains(st.Ms, s.M) }) {
			t.Errorf("m%d does not pay and a stretch serves it: %+v", s.M, r.Stretches)
		}
	}
	if _, err := BuildTable(results.Meta{}, r); err != nil {
		t.Error(err)
	}
}

func TestUntriedRemedies(t *testing.T) {
	w := synthetic.ByM(cliff, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(13, 1)))
	data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
	cfg := rules.Default()
	cfg.Remedy.MaxCases = 1
	r, err := Find(context.Background(), data, cfg, Options{}, w)
	if err != nil || r.Untried == 0 || len(r.Splits)+len(r.Rejected) > 1 || len(r.Warnings) == 0 {
		t.Errorf("%d untried, %d tried, warnings %v: %v", r.Untried, len(r.Splits)+len(r.Rejected), r.Warnings, err)
	}
	for i := range data.Series[0].Rows {
		data.Series[0].Rows[i].Samples = data.Series[0].Rows[i].Samples[:1]
	}
	r, err = Find(context.Background(), data, cfg, Options{Among: AmongAll}, nil)
	if want := "not searched: 256 rows with fewer than 5 samples"; err != nil || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0].Text, want) {
		t.Errorf("warnings %v, want %q: %v", r.Warnings, want, err)
	}
}

// In an invalid run, rows between two executed ones are not covered.
func TestRemediesOfAnInvalidRun(t *testing.T) {
	for _, c := range []struct {
		drift, bound float64
		invalid      bool
	}{{0, 1, false}, {0.5, 1, false}, {0.5, 0.001, true}} {
		cfg := rules.Default()
		cfg.DriftBound = c.bound
		w := synthetic.ByM(cliff, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(14, 1)))
		w.Drift = func(seq, total float64) float64 { return c.drift * seq / total }
		data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
		w.Drift = nil
		r, err := Find(context.Background(), data, cfg, Options{}, w)
		if err != nil || len(r.Stretches) == 0 {
			t.Fatalf("%d stretches, %v", len(r.Stretches), err)
		}
		rows, proofs := 0, 0
		for _, s := range r.Stretches {
			rows, proofs = rows+len(s.Ms), proofs+len(s.Proofs)
		}
		if warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0].Text, "only executed rows"); warned != c.invalid ||
			(rows == proofs) != c.invalid {
			t.Errorf("drift of %g, bound %g: %d rows on %d proofs, warnings %v", c.drift, c.bound, rows, proofs, r.Warnings)
		}
	}
}

// A product slowed by other work proves nothing; one faster than in the run does.
func TestRemediesOfSlowedProducts(t *testing.T) {
	for _, c := range []struct {
		direct, remedy float64
		unsteady, pays bool
	}{{1, 1, false, true}, {1.1, 1, false, true}, {2, 1.4, true, false}, {3, 3, true, false}, {0.9, 0.8, false, true}} {
		w := synthetic.ByM(cliff, synthetic.Student(0.01), rand.New(rand.NewPCG(4, 4)))
		data := w.Sweep(synthetic.Grid(4, 1024, 4), 9)
		single := w.Time
		w.Time = func(k results.Case) float64 {
			if len(k.Parts) > 0 || k.PadTo > 0 {
				return c.remedy * single(k)
			}
			return c.direct * single(k)
		}
		r, err := Find(context.Background(), data, rules.Default(), Options{}, w)
		if err != nil {
			t.Fatal(err)
		}
		if (len(r.Stretches) > 0) != c.pays {
			t.Errorf("%+v: %d stretches", c, len(r.Stretches))
		}
		if got := slices.ContainsFunc(r.Warnings,
			func(w rules.Warning) bool { return strings.Contains(w.Text, "because of other load") }); got != c.unsteady {
			t.Errorf("%+v: warnings %+v", c, r.Warnings)
		}
		for _, s := range slices.Concat(r.Splits, r.Rejected) {
			if s.Executed && s.Unsteady != c.unsteady {
				t.Errorf("%+v: m%d direct %.1f us, in the run %.1f us", c, s.M, s.DirectUS, s.SweepUS)
			}
		}
	}
}

func TestSerial(t *testing.T) {
	for kind, want := range map[rules.RemedyKind]bool{rules.RemedySplit: false, rules.RemedyPad: false, rules.RemedyOther: true,
		rules.RemedyAlgorithm: true} {
		if got := (rules.Remedy{Kind: kind}).Serial(); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

type regimes struct {
	*synthetic.World
	asked []results.Regime
}

func (r *regimes) Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error) {
	for _, q := range requests {
		r.asked = append(r.asked, q.Case.Regime)
	}
	return r.World.Measure(ctx, requests, rounds)
}
