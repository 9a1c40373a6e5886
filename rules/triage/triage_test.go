package triage

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Shares are of calls × time. Confirmed findings and proven remedies are lost; other open products are
// undecided, with a reason.
func TestTriageSums(t *testing.T) {
	key := results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.FP32, 64, 64)}
	product := func(m int, calls, us float64) results.RecordedProduct {
		return results.RecordedProduct{RecordedKey: results.RecordedKey{DType: kernels.FP32, N: 64, K: 64, M: m}, Calls: calls,
			ExpectedUS: us}
	}
	recorded := results.Recorded{product(1, 1, 5), product(16, 10, 5), product(32, 10, 5), product(64, 10, 5), product(96, 10, 10)}
	other := product(8, 10, 5)
	other.N, other.NoKernel = 128, true
	recorded = append(recorded, other)
	recorded.Sort()
	plan, err := json.Marshal(results.Planned{Series: []results.PlannedSeries{{SeriesKey: key, Ms: results.Ms{1, 16, 32, 64, 96}}}})
	if err != nil {
		t.Fatal(err)
	}
	row := func(m int, us float64) results.Row {
		r := results.Row{Case: results.Case{SeriesKey: key, M: m}}
		if us > 0 {
			r.Samples = []results.Sample{{US: us, Launches: 1, Phase: results.PhaseSweep}}
		} else {
			r.Failed = "illegal address"
		}
		return r
	}
	data := infer.Data{Recorded: recorded, Meta: results.Meta{Plan: plan},
		Series: []results.Series{{Key: key, Rows: []results.Row{row(1, 10), row(16, 10), row(32, 10), row(64, 10), row(96, 0)}}}}
	audit := &rules.Audit{
		Series: []rules.SeriesAudit{{Key: key,
			Rows: []rules.RowVerdict{{M: 1, Verdict: rules.Unjudged}, {M: 16, Verdict: rules.Clean}, {M: 32, Verdict: rules.Undecided},
				{M: 64, Verdict: rules.Anomalous}}}},
		Findings: []rules.Finding{{ID: "f", Rule: rules.Monotonic, Series: key, FromM: 64, ToM: 64, Status: rules.Confirmed}},
		Losses:   map[string]map[int]stats.Interval{"f": {64: {Lo: 0.3, Mid: 0.4, Hi: 0.5}}},
	}
	got, err := New(data, audit, &remedy.Result{})
	if err != nil {
		t.Fatal(err)
	}
	// Measured times are twice the expected ones, so products not measured take 20 us (m96) and 10 us (n128).
	total := 10. + 100 + 100 + 100 + 200 + 100
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, expected %v", what, got, want)
		}
	}
	near("the total", got.TotalUS, total)
	near("what is lost", got.Lost.Mid, 0.4*100/total)
	near("its lower bound", got.Lost.Lo, 0.3*100/total)
	near("what is undecided", got.Undecided, (100+200+100)/total)
	reasons := map[Code]int{}
	for _, r := range got.Reasons {
		reasons[r.Reason] = r.Products
	}
	if reasons[TriageNoise] != 1 || reasons[TriageFailed] != 1 || reasons[TriageNoKernel] != 1 || len(reasons) != 3 {
		t.Errorf("the reasons are %+v", got.Reasons)
	}
	if len(got.Losses) != 1 || got.Losses[0].M != 64 || got.Losses[0].Finding != "f" || got.Losses[0].Remedy != nil {
		t.Errorf("the losses are %+v", got.Losses)
	}

	// A remedy that pays counts as lost; a finding that was not measured again is undecided.
	pays := rules.Remedy{Kind: rules.RemedyPad, M: 64, PadTo: 80, Executed: true, Pays: true, Gain: stats.Interval{Lo: 1.25, Mid: 2, Hi: 4},
		DirectUS: 10}
	got, err = New(data, audit, &remedy.Result{Splits: []remedy.Row{{Series: key, Remedy: pays}}})
	if err != nil || len(got.Losses) != 1 || got.Losses[0].Remedy == nil {
		t.Fatalf("%v, %+v", err, got)
	}
	near("the loss by a remedy", got.Losses[0].Lost.Mid, 0.5)
	audit.Findings[0].Status = rules.Unconfirmed
	got, err = New(data, audit, &remedy.Result{})
	if err != nil || len(got.Losses) != 0 || got.Lost.Mid != 0 {
		t.Errorf("%v, %+v", err, got)
	}
	near("what is undecided", got.Undecided, (100+200+100+100)/total)

	audit.Invalid = "noise"
	if got, err = New(data, audit, &remedy.Result{}); err != nil || len(got.Losses) != 0 {
		t.Errorf("%v, %+v", err, got)
	}
	near("what is undecided", got.Undecided, 1)
}
