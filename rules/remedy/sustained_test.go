package remedy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func sustainedRow(c results.Case, runs ...[3]float64) results.Row {
	r := results.Row{Case: c}
	for i, v := range runs {
		r.Samples = append(r.Samples,
			results.Sample{Phase: results.PhaseSustained, Round: i, Launches: 100, US: v[0], ClockMHz: v[1], EnergyMJ: v[2]})
	}
	return r
}

func syntheticCase(m int) results.Case { return results.Case{SeriesKey: synthetic.Key, M: m} }

func TestSustainedFindings(t *testing.T) {
	fp8 := synthetic.Key
	fp8.DType = kernels.FP8
	other := syntheticCase(64)
	other.Kernel = "other"
	split, padded := syntheticCase(64), syntheticCase(64)
	split.Parts, padded.PadTo = []int{16, 48}, 80
	cfg := rules.Default()
	cfg.Threshold = 0.95
	cfg.Rules.Split.Margin, cfg.Rules.Pad.Margin, cfg.Rules.Alternative.Margin, cfg.Rules.Roofline.Fraction = 0.05, 0.05, 0.05, 0.5
	cfg.Rules.Parity.Pairs = []rules.ParityPair{{DType: fp8.DType, Than: kernels.BF16, Ratio: 0.8}}
	small := syntheticCase(32)
	bf16 := syntheticCase(64)
	for _, tc := range []struct {
		name    string
		finding rules.Finding
		loss    float64
		rows    []results.Row
		want    *rules.Sustained
	}{
		{"monotonic: per FLOP", rules.Finding{Rule: rules.Monotonic, Status: rules.Confirmed, Against: &small}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{108, 1545, 60}), sustainedRow(small, [3]float64{50, 1490, 31})},
			&rules.Sustained{US: 108, AgainstUS: 50, Loss: 8.0 / 108, ClockMHz: 1545, AgainstClockMHz: 1490, EnergyMJ: 60,
				AgainstEnergyMJ: 31,
				SeenIn:          rules.SeenInBoth}},
		{"monotonic: vanishes", rules.Finding{Rule: rules.Monotonic, Status: rules.Confirmed, Against: &small}, 0.06,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{104, 1545, 0}), sustainedRow(small, [3]float64{50, 1490, 0})},
			&rules.Sustained{US: 104, AgainstUS: 50, Loss: 4.0 / 104, ClockMHz: 1545, AgainstClockMHz: 1490, SeenIn: rules.SeenAtClock}},
		{"unconfirmed and appears", rules.Finding{Rule: rules.Monotonic, Status: rules.Unconfirmed, Against: &small}, 0.04,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{110}), sustainedRow(small, [3]float64{50})},
			&rules.Sustained{US: 110, AgainstUS: 50, Loss: 10.0 / 110, SeenIn: rules.SeenSustained}},
		{"unconfirmed in neither", rules.Finding{Rule: rules.Monotonic, Status: rules.Unconfirmed, Against: &small}, 0.04,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{101}), sustainedRow(small, [3]float64{50})},
			&rules.Sustained{US: 101, AgainstUS: 50, Loss: 1.0 / 101, SeenIn: rules.SeenInNeither}},
		{"split, median of three runs", rules.Finding{Rule: rules.SplitRule, Status: rules.Confirmed, Against: &split}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}, [3]float64{300}, [3]float64{110}),
				sustainedRow(split, [3]float64{99})},
			&rules.Sustained{US: 110, AgainstUS: 99, Loss: 0.1, SeenIn: rules.SeenInBoth}},
		{"split below its margin", rules.Finding{Rule: rules.SplitRule, Status: rules.Confirmed, Against: &split}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}), sustainedRow(split, [3]float64{96})},
			&rules.Sustained{US: 100, AgainstUS: 96, Loss: 0.04, SeenIn: rules.SeenAtClock}},
		{"pad", rules.Finding{Rule: rules.Pad, Status: rules.Confirmed, Against: &padded}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}), sustainedRow(padded, [3]float64{90}),
				sustainedRow(split, [3]float64{10})},
			&rules.Sustained{US: 100, AgainstUS: 90, Loss: 0.1, SeenIn: rules.SeenInBoth}},
		{"another kernel", rules.Finding{Rule: rules.Alternative, Status: rules.Confirmed, Against: &other}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}), sustainedRow(other, [3]float64{80})},
			&rules.Sustained{US: 100, AgainstUS: 80, Loss: 0.2, SeenIn: rules.SeenInBoth}},
		{"parity: 0.9 where 0.8 may be", rules.Finding{Rule: rules.Parity, Status: rules.Confirmed, Series: fp8, Against: &bf16}, 0.1,
			[]results.Row{sustainedRow(results.Case{SeriesKey: fp8, M: 64}, [3]float64{90}), sustainedRow(bf16, [3]float64{100})},
			&rules.Sustained{US: 90, AgainstUS: 100, Loss: 1 - 100.0/90, SeenIn: rules.SeenInBoth}},
		{"parity kept", rules.Finding{Rule: rules.Parity, Status: rules.Confirmed, Series: fp8, Against: &bf16}, 0.1,
			[]results.Row{sustainedRow(results.Case{SeriesKey: fp8, M: 64}, [3]float64{79}), sustainedRow(bf16, [3]float64{100})},
			&rules.Sustained{US: 79, AgainstUS: 100, Loss: 1 - 100.0/79, SeenIn: rules.SeenAtClock}},
		// 2·64·4096² FLOPs at 1 TFLOP/s.
		{"ceiling", rules.Finding{Rule: rules.Roofline, Status: rules.Confirmed}, 0.6,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{4000, 1500, 9})},
			&rules.Sustained{US: 4000, AgainstUS: 2147.483648, Loss: 1 - 2147.483648/4000, ClockMHz: 1500, EnergyMJ: 9,
				SeenIn: rules.SeenAtClock}},
		{"faster than can be", rules.Finding{Rule: rules.Roofline, Status: rules.Confirmed, Cause: cause.MeasurementError}, -1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{10})}, nil},
		{"without the reference", rules.Finding{Rule: rules.Pad, Status: rules.Confirmed, Against: &padded}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100})}, nil},
		{"a launch that failed", rules.Finding{Rule: rules.Pad, Status: rules.Confirmed, Against: &padded}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}), sustainedRow(padded, [3]float64{0})}, nil},
		{"kept without its reference", rules.Finding{Rule: rules.Pad, Status: rules.Confirmed, ReferenceM: 64}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100})}, nil},
		{"of a rule that there is not", rules.Finding{Rule: "beauty", Status: rules.Confirmed, Against: &padded}, 0.1,
			[]results.Row{sustainedRow(syntheticCase(64), [3]float64{100}), sustainedRow(padded, [3]float64{90})}, nil},
	} {
		f := tc.finding
		if f.Series == (results.SeriesKey{}) {
			f.Series = synthetic.Key
		}
		f.WorstM, f.Loss, f.Sustained = 64, stats.Exactly(tc.loss), &rules.Sustained{US: 1} // stale
		a := &rules.Audit{Findings: []rules.Finding{f}}
		a.AddSustained(infer.Data{Sustained: tc.rows,
			Series: []results.Series{{Key: synthetic.Key, Peak: kernels.Peak{FLOPS: 1e12}, Bandwidth: kernels.Bandwidth{Rate: 1e12}}}}, cfg)
		got := a.Findings[0].Sustained
		if got != nil && tc.want != nil && math.Abs(got.Loss-tc.want.Loss) < 1e-12 && math.Abs(got.AgainstUS/tc.want.AgainstUS-1) < 1e-12 {
			got.Loss, got.AgainstUS = tc.want.Loss, tc.want.AgainstUS
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, expected %+v", tc.name, got, tc.want)
		}
	}
}

func TestSustainedRemedies(t *testing.T) {
	cfg := rules.Default()
	cfg.Remedy.Margin = 0.05
	fix := rules.Remedy{Kind: rules.RemedySplit, M: 64, Parts: []int{16, 48}, Executed: true, Pays: true}
	other := rules.Remedy{Kind: rules.RemedyOther, M: 64, Kernel: "other", Executed: true}
	split, elsewhere := fix.Case(syntheticCase(64)), other.Case(syntheticCase(64))
	data := infer.Data{Sustained: []results.Row{
		sustainedRow(syntheticCase(64), [3]float64{100, 1500, 60}), sustainedRow(split, [3]float64{96.875, 1480, 62}),
		sustainedRow(elsewhere, [3]float64{80, 1400, 50}),
	}}
	r := &Result{Splits: []Row{{synthetic.Key, fix}}, Rejected: []Row{{synthetic.Key, other}},
		Stretches: []Stretch{{Series: synthetic.Key, Proofs: []rules.Remedy{fix}}}}
	r.AddSustained(data, cfg)
	paid := rules.Sustained{US: 100, AgainstUS: 96.875, Loss: 0.03125, ClockMHz: 1500, AgainstClockMHz: 1480, EnergyMJ: 60,
		AgainstEnergyMJ: 62,
		SeenIn:          rules.SeenAtClock}
	for name, s := range map[string]*rules.Sustained{"split": r.Splits[0].Sustained, "proof": r.Stretches[0].Proofs[0].Sustained} {
		if s == nil || *s != paid {
			t.Errorf("%s: %+v, expected %+v", name, s, paid)
		}
	}
	if s := r.Rejected[0].Sustained; s == nil || s.SeenIn != rules.SeenSustained || s.AgainstEnergyMJ != 50 {
		t.Errorf("rejected: %+v", s)
	}
	r.AddSustained(infer.Data{}, cfg)
	if r.Splits[0].Sustained != nil || r.Stretches[0].Proofs[0].Sustained != nil {
		t.Error("what no sample says any more stays")
	}
}

func TestToSustain(t *testing.T) {
	small, wide := syntheticCase(32), syntheticCase(64)
	wide.Parts = []int{16, 48}
	split := rules.Remedy{Kind: rules.RemedySplit, M: 64, Parts: []int{16, 48}, Executed: true, Pays: true, StakeUS: 30}
	found := func(f rules.Finding, m int, stake float64) rules.Finding {
		f.Series, f.WorstM, f.StakeUS = synthetic.Key, m, stake
		return f
	}
	a := &rules.Audit{Findings: []rules.Finding{
		found(rules.Finding{Rule: rules.SplitRule, Status: rules.Confirmed, Against: &wide}, 64, 10),
		found(rules.Finding{Rule: rules.Monotonic, Status: rules.Confirmed, Against: &small}, 64, 50),
		found(rules.Finding{Rule: rules.Roofline, Status: rules.Confirmed}, 96, 20),
		found(rules.Finding{Rule: rules.Roofline, Status: rules.Confirmed, Cause: cause.MeasurementError}, 97, 99),
		found(rules.Finding{Rule: rules.Monotonic, Status: rules.Unconfirmed, Against: &small}, 128, 99),
		found(rules.Finding{Rule: rules.Monotonic, Status: rules.Waived, Against: &small}, 160, 99),
	}}
	rejected := split
	rejected.M, rejected.Pays = 80, false
	r := &Result{Splits: []Row{{synthetic.Key, split}}, Rejected: []Row{{synthetic.Key, rejected}},
		Stretches: []Stretch{{Series: synthetic.Key, Proofs: []rules.Remedy{split}}}}
	want := [][]results.Case{{syntheticCase(64), small}, {syntheticCase(64), wide}, {syntheticCase(96)}}
	if got := ToSustain(a, r); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, expected %+v", got, want)
	}
	if got := ToSustain(nil, nil); got != nil {
		t.Errorf("nothing gives %+v", got)
	}
}

// A wasteful kernel gets a higher clock. Sustained results come from samples and are not kept as proof.
func TestSustainedOfAnAudit(t *testing.T) {
	const m = 512
	us := func(at int) float64 {
		base := 5 + float64(at)
		if at == m {
			base *= 1.15
		}
		return base
	}
	w := synthetic.ByM(us, synthetic.Gaussian(0.003), rand.New(rand.NewPCG(4, 2)))
	cfg := rules.Default().Only(rules.Monotonic)
	data := w.Sweep(synthetic.Grid(64, 1024, 64), 12)
	a, err := rules.RunAudit(t.Context(), data, cfg, w)
	if err != nil || len(a.Findings) != 1 || a.Findings[0].Against == nil || a.Findings[0].Sustained != nil {
		t.Fatalf("%+v, %v", a.Findings, err)
	}
	pairs := ToSustain(a, nil)
	if len(pairs) != 1 || len(pairs[0]) != 2 || pairs[0][0].M != m || pairs[0][1].M != a.Findings[0].ReferenceM {
		t.Fatalf("to run by themselves: %+v", pairs)
	}
	for i, c := range pairs[0] {
		faster := []float64{1.04, 1}[i]
		data.Sustained = append(data.Sustained, sustainedRow(c, [3]float64{us(c.M) / faster, 1500 * faster, 40}))
	}
	if a, err = rules.RunAudit(t.Context(), data, cfg, w); err != nil {
		t.Fatal(err)
	}
	f := a.Findings[0]
	against := pairs[0][1].M
	want := 1 - us(against)*m/float64(against)/(us(m)/1.04)
	if s := f.Sustained; s == nil || math.Abs(s.Loss-want) > 1e-12 || s.SeenIn != rules.SeenInBoth || s.Loss > f.Loss.Lo {
		t.Fatalf("sustained %+v of %+v, expected a loss of %v", f.Sustained, f.Loss, want)
	}
	text, err := json.Marshal(rules.NewProof(a, cfg, data.Samples()))
	if err != nil {
		t.Fatal(err)
	}
	var kept rules.Proof
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(kept.Rules[0].Findings, func(f rules.Finding) bool { return f.Sustained != nil }) {
		t.Error("what follows from samples is kept as proof")
	}
	again, err := rules.RunAudit(t.Context(), data, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Accept(&kept, cfg, data.Samples())
	again.AddSustained(data, cfg)
	if !reflect.DeepEqual(again.Findings[0], f) {
		t.Errorf("%+v of kept proof, expected %+v", again.Findings[0], f)
	}
}
