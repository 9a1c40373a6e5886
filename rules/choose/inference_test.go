package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// workshop is a library with a kernel of large tiles for many rows and one of small tiles for few. Between
// m1000 and m1200 it chooses wrongly.
func workshop(m int) (us float64, kind results.LaunchKind) {
	kind = results.LaunchKind{Label: "small", Tile: [3]int{64, 64, 32}, Split: 1, Slots: 132}
	each := 3.0
	if m > 512 && (m < 1000 || m >= 1200) {
		kind, each = results.LaunchKind{Label: "large", Tile: [3]int{128, 256, 32}, Split: 1, Slots: 132}, 20.0
	}
	return 4 + each*math.Ceil(kind.Waves(m, 4096)) + 0.004*float64(kind.Tiles(m, 4096)), kind
}

func workshopRun(t testing.TB, seed uint64, extra map[int]float64) infer.Data {
	t.Helper()
	w := synthetic.ByM(func(m int) float64 {
		us, _ := workshop(m)
		return us * math.Exp(extra[m])
	}, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(seed, 2)))
	data := w.Sweep(synthetic.Grid(8, 4096, 8), 14)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Name: "sim", Units: 132}}
	for i := range data.Series[0].Rows {
		r := &data.Series[0].Rows[i]
		_, kind := workshop(r.Case.M)
		r.Case.Label = kind.Label
		r.Case.Launch = results.Launch{Tile: kind.Tile, Split: 1, Waves: kind.Waves(r.Case.M, 4096)}
	}
	return data
}

func inferWorkshop(t testing.TB, dense infer.Data, told bool) (sparse infer.Data, audit *rules.Audit) {
	t.Helper()
	choices := map[results.SeriesKey]results.Choices{}
	if told {
		choices[synthetic.Key] = toldBy(dense.Series[0])
	}
	cfg := rules.Default().Only(rules.Monotonic)
	sparse, _, err := designed(dense, cfg, 7, choices)
	if err != nil {
		t.Fatal(err)
	}
	if audit, err = rules.RunAudit(t.Context(), sparse, cfg, nil); err != nil {
		t.Fatal(err)
	}
	return sparse, audit
}

func TestInferred(t *testing.T) {
	for _, told := range []bool{true, false} {
		dense := workshopRun(t, 1, nil)
		full, err := rules.RunAudit(t.Context(), dense, rules.Default().Only(rules.Monotonic), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, got := inferWorkshop(t, dense, told)
		i := got.Inference
		if i == nil || i.Asked != 512 || i.Measured+i.Inferred != 512 || i.Open != 0 || i.Measured > 220 || got.Cases != 512 {
			t.Fatalf("told %v: %+v of %d cases", told, i, got.Cases)
		}
		if !i.Kept() || i.Checked == 0 || i.Failed != 0 {
			t.Errorf("told %v: check rows %+v", told, i)
		}
		inside, inferred := 0, 0
		for k, r := range got.Series[0].Rows {
			want := full.Series[0].Rows[k]
			if r.M != want.M || r.Inferred != (r.Samples == 0) {
				t.Fatalf("told %v: row %+v, want m%d", told, r, want.M)
			}
			decided := func(v rules.Verdict) bool { return v == rules.Anomalous || v == rules.Clean }
			if decided(r.Verdict) && decided(want.Verdict) && r.Verdict != want.Verdict {
				t.Errorf("told %v: m%d is %s, %s when all rows are measured", told, r.M, r.Verdict, want.Verdict)
			}
			if !r.Inferred {
				continue
			}
			us, kind := workshop(r.M)
			inferred++
			if r.US.Lo <= us && us <= r.US.Hi {
				inside++
			}
			if off := math.Abs(math.Log(r.US.Mid / us)); off > 0.01 {
				t.Errorf("told %v: m%d takes %.3f us, inferred were %.3f", told, r.M, us, r.US.Mid)
			}
			if r.Label != kind.Label || r.MFU.Mid <= 0 {
				t.Errorf("told %v: inferred row %+v", told, r)
			}
		}
		if share := float64(inside) / float64(inferred); share < 0.93 {
			t.Errorf("told %v: %d of %d true times lie inside their interval", told, inside, inferred)
		}
	}
}

// A single slow row without a predictor is found only if measured, and does not affect its neighbors.
func TestIsolatedRow(t *testing.T) {
	dense := workshopRun(t, 3, nil)
	d := Designer{Config: rules.Default(), Devices: dense.Meta.Fingerprint.Devices, Seed: 7}
	ms := synthetic.Grid(8, 4096, 8)
	seeds := seedsOf(t, d, ms, toldBy(dense.Series[0]))
	at := seeds[len(seeds)/2]
	if i, _ := slices.BinarySearch(ms, at); i == 0 || i == len(ms)-1 {
		t.Fatalf("m%d is an end", at)
	}
	_, audit := inferWorkshop(t, workshopRun(t, 3, map[int]float64{at: 0.15}), true)
	for _, r := range audit.Series[0].Rows {
		us, _ := workshop(r.M)
		switch off := math.Log(r.US.Mid / us); {
		case r.M == at && (r.Verdict != rules.Anomalous || off < 0.13):
			t.Errorf("m%d, which is slow by itself, is %s and %.3f off", at, r.Verdict, off)
		case r.M != at && math.Abs(off) > 0.01:
			t.Errorf("m%d beside it is %.3f off", r.M, off)
		}
	}
}

// A family whose check rows are off its line infers no row, and the designer measures all of its rows.
func TestFailedFamily(t *testing.T) {
	check := infer.DrawChecks(synthetic.Key, 7, true)
	slow := map[int]float64{}
	for m := 1208; m <= 4096; m += 8 {
		if check(m) {
			slow[m] = 0.06
		}
	}
	if len(slow) < 3 {
		t.Fatalf("%d check rows", len(slow))
	}
	dense := workshopRun(t, 5, slow)
	sparse, audit := inferWorkshop(t, dense, true)
	have := map[int]bool{}
	for _, r := range sparse.Series[0].Rows {
		have[r.Case.M] = true
	}
	for m := 1208; m <= 4096; m += 8 {
		if !have[m] {
			t.Fatalf("m%d of the family was not measured", m)
		}
	}
	if audit.Inference.Failed != 1 || audit.Inference.Kept() {
		t.Errorf("%+v", audit.Inference)
	}
	if !slices.ContainsFunc(audit.Warnings, func(w rules.Warning) bool { return strings.Contains(w.Text, "check rows differ") }) ||
		!slices.ContainsFunc(audit.Warnings, func(w rules.Warning) bool { return strings.Contains(w.Text, "rows are unreliable") }) {
		t.Errorf("warnings %v", audit.Warnings)
	}
	kept := sparse
	kept.Series = slices.Clone(sparse.Series)
	kept.Series[0].Rows = slices.DeleteFunc(slices.Clone(sparse.Series[0].Rows), func(r results.Row) bool {
		return r.Case.M > 1208 && r.Case.M < 4096 && !check(r.Case.M) && r.Case.M%64 != 0
	})
	part, err := rules.RunAudit(t.Context(), kept, rules.Default().Only(rules.Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range part.Series[0].Rows {
		if r.Inferred && r.Label == "large" {
			t.Fatalf("m%d is inferred from a family that failed", r.M)
		}
	}
	if open := fmt.Sprintf("%d rows neither measured nor inferred", part.Inference.Open); part.Inference.Open == 0 ||
		!slices.ContainsFunc(part.Warnings, func(w rules.Warning) bool { return w.Text == open }) {
		t.Errorf("%+v, warnings %v", part.Inference, part.Warnings)
	}
}

func TestOneCheckRowFarOff(t *testing.T) {
	check := infer.DrawChecks(synthetic.Key, 7, true)
	at := 2000
	for !check(at) {
		at += 8
	}
	for off, failed := range map[float64]int{0.06: 1, 0.008: 0} {
		_, audit := inferWorkshop(t, workshopRun(t, 5, map[int]float64{at: off}), true)
		if i := audit.Inference; i.Failed != failed || i.Checked-i.Inside > 3 {
			t.Errorf("m%d off by %g: %+v, want %d families that failed", at, off, i, failed)
		}
	}
}

// A row that ran another kernel than reported is its own family. If kernels are guessed, such a check row
// stays in its neighbors' family but does not affect it.
func TestOtherLaunch(t *testing.T) {
	dense := workshopRun(t, 1, nil)
	dense.Series[0].Rows[200].Case.Label = "another" // m1608
	c := infer.Prepare(dense, rules.Default().Basis()).Curves[0]
	a := infer.Asking{Key: synthetic.Key, Ms: synthetic.Grid(8, 4096, 8), Check: func(m int) bool { return m == 1608 }, Units: 132}
	for name, tc := range map[string]struct {
		choices results.Choices
		ownM    int
		other   bool
	}{
		"told":    {toldBy(workshopRun(t, 1, nil).Series[0]), 1608, false},
		"guessed": {nil, 0, true},
	} {
		a.Choices = tc.choices
		families, unknown := a.Families(c.Points)
		if len(unknown) != 0 {
			t.Fatalf("%s: %d unknown", name, len(unknown))
		}
		for _, f := range families {
			for _, r := range f.Rows {
				switch {
				case r.M == 1608 && (f.Kind.OwnM != tc.ownM || r.Other != tc.other || tc.ownM > 0 && len(f.Rows) > 1):
					t.Errorf("%s: m1608 is of %+v with %d rows, another kernel's: %v", name, f.Kind, len(f.Rows), r.Other)
				case r.M != 1608 && (f.Kind.OwnM != 0 || r.Other):
					t.Errorf("%s: m%d is of %+v, another kernel's: %v", name, r.M, f.Kind, r.Other)
				}
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	dense := workshopRun(t, 1, nil)
	ms, choices := synthetic.Grid(8, 4096, 8), toldBy(dense.Series[0])
	choices = append(slices.Clone(choices[:len(choices)-1]),
		results.Stretch{From: choices[len(choices)-1].From, To: 4072, Kind: choices[len(choices)-1].Kind},
		results.Stretch{From: 4080, To: 4096, Kind: results.LaunchKind{Label: "few"}})
	d := Designer{Config: rules.Default(), Devices: dense.Meta.Fingerprint.Devices, Seed: 7}
	seeds := seedsOf(t, d, ms, choices)
	if !slices.IsSorted(seeds) || !reflect.DeepEqual(seeds, seedsOf(t, d, ms, choices)) {
		t.Fatalf("seeds %v", seeds)
	}
	for _, m := range []int{8, 1192, 520, 4072, 4080, 4088, 4096} {
		if !slices.Contains(seeds, m) {
			t.Errorf("m%d is no seed of %v", m, seeds)
		}
	}
	check := infer.DrawChecks(synthetic.Key, 7, true)
	drawn, between := 0, 0
	for _, m := range ms {
		if !check(m) && m > 1208 && m < 4072 && slices.Contains(seeds, m) {
			between++
		}
		if check(m) {
			drawn++
			if !slices.Contains(seeds, m) {
				t.Errorf("check row m%d is no seed", m)
			}
		}
	}
	if drawn < 4 || drawn > 25 || len(seeds) > 2*5+3+drawn {
		t.Errorf("%d check rows of %d, %d seeds", drawn, len(ms), len(seeds))
	}
	if between == 0 {
		t.Errorf("the large kernel's line rests on its ends and check rows alone: %v", seeds)
	}
	if other := seedsOf(t, Designer{Config: rules.Default(), Seed: 8}, ms, choices); reflect.DeepEqual(other, seeds) {
		t.Error("another seed draws the same check rows")
	}
	for n, step := range map[int]int{1000: 8, 8192: 16, 32768: 32} {
		untold := seedsOf(t, d, synthetic.Grid(1, n, 1), nil)
		for i := 1; i < len(untold); i++ {
			if untold[i]-untold[i-1] > step {
				t.Fatalf("of %d rows nothing is measured between m%d and m%d", n, untold[i-1], untold[i])
			}
		}
		if len(untold) > n/step+n/12+2 || untold[0] != 1 || untold[len(untold)-1] != n {
			t.Errorf("%d seeds of %d rows", len(untold), n)
		}
	}
}

func TestLookRepeats(t *testing.T) {
	dense := workshopRun(t, 9, nil)
	ms, choices := synthetic.Grid(8, 4096, 8), map[results.SeriesKey]results.Choices{synthetic.Key: toldBy(dense.Series[0])}
	series := []results.PlannedSeries{{SeriesKey: synthetic.Key, Ms: ms, Infer: true}}
	d := Designer{Config: rules.Default(), Devices: dense.Meta.Fingerprint.Devices, Seed: 7}
	var cases []results.Case
	var samples []results.Sample
	for _, m := range seedsOf(t, d, ms, choices[synthetic.Key]) {
		r := dense.Series[0].Rows[m/8-1]
		cases, samples = append(cases, r.Case), append(samples, r.Samples...)
	}
	first, inferred, err := d.More(series, choices, cases, samples)
	if err != nil || len(first) == 0 || inferred == 0 {
		t.Fatalf("%d cases, %d inferred, %v", len(first), inferred, err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	again, _, err := d.More(series, choices, cases, samples)
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("%d cases, then %d: %v", len(first), len(again), err)
	}
	for _, c := range first {
		if slices.ContainsFunc(cases, func(o results.Case) bool { return o.M == c.M }) || !slices.Contains(ms, c.M) {
			t.Errorf("%v is asked for again, or was not asked", c)
		}
	}
	d.Config.FDR = 2
	if _, _, err := d.More(series, choices, cases, samples); err == nil {
		t.Error("a false discovery rate of 2 is accepted")
	}
}

func TestConfirmedInferred(t *testing.T) {
	dense := workshopRun(t, 11, nil)
	sparse, _ := inferWorkshop(t, dense, true)
	w := synthetic.ByM(func(m int) float64 { us, _ := workshop(m); return us }, synthetic.Gaussian(0.002), rand.New(rand.NewPCG(12, 2)))
	audit, err := rules.RunAudit(t.Context(), sparse, rules.Default().Only(rules.Monotonic), w)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range audit.Findings {
		if f.Status != rules.Confirmed {
			t.Errorf("%s is %s", f.ID, f.Status)
		}
		if f.Inferred > f.Rows {
			t.Errorf("%s: %d of %d rows are inferred", f.ID, f.Inferred, f.Rows)
		}
		found = found || f.Inferred > 0
		if us, _ := workshop(f.WorstM); f.Against != nil {
			best, _ := workshop(f.ReferenceM)
			if loss := 1 - float64(f.WorstM)/us/(float64(f.ReferenceM)/best); math.Abs(loss-f.Loss.Mid) > 0.01 {
				t.Errorf("m%d loses %.3f, the finding says %.3f", f.WorstM, loss, f.Loss.Mid)
			}
		}
	}
	if !found {
		t.Errorf("none of %d findings rests on an inferred row", len(audit.Findings))
	}
	splits, err := remedy.Find(t.Context(), sparse, rules.Default(), remedy.Options{Among: remedy.AmongAll}, w)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[int]bool{}
	for _, r := range sparse.Series[0].Rows {
		measured[r.Case.M] = true
	}
	served := 0
	for _, s := range splits.Stretches {
		for _, p := range s.Proofs {
			if !p.Executed || !p.Pays {
				t.Errorf("stretch m%d-%d rests on %+v", s.FromM, s.ToM, p)
			}
		}
		for _, m := range s.Ms {
			if !measured[m] {
				served++
			}
		}
	}
	if served == 0 {
		t.Error("no inferred row is served by a remedy")
	}
}
