package query

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func finding() (*rules.Audit, rules.Finding) {
	key := results.SeriesKey{Device: "cuda:0", Kernel: "cublas",
		Subject: kernels.Subject{DType: kernels.BF16, Dims: kernels.Dims{N: 4096, K: 1024}, Layout: kernels.Transposed},
		Regime:  results.Engine}
	f := rules.Finding{Rule: rules.Monotonic, Series: key, FromM: 96, ToM: 128, Rows: 5, WorstM: 104, Status: rules.Confirmed,
		Cause: cause.WaveQuantization, Loss: stats.Interval{Lo: 0.1, Mid: 0.2, Hi: 0.3}, StakeUS: 40}
	a := &rules.Audit{Findings: []rules.Finding{f}, Series: []rules.SeriesAudit{{Key: key, Rows: []rules.RowVerdict{
		{M: 96}, {M: 104, US: stats.Interval{Mid: 12.5}, MFU: stats.Interval{Mid: 0.4}, Verdict: rules.Anomalous,
			Label: "nvjet_128x64_splitK"}}}}}
	return a, f
}

func TestExpressions(t *testing.T) {
	a, f := finding()
	for where, want := range map[string]bool{
		"kernel=cublas && loss>0.1":                               true,
		"kernel = cublas&&loss>.1":                                true,
		"kernel==cublaslt":                                        false,
		"kernel == 'cublas'":                                      true,
		"kernel!=cublas":                                          false,
		"device=cuda:0":                                           true,
		"cause=wave-quantization":                                 true,
		"cause in [tile-quantization, wave-quantization]":         true,
		"cause not in [tile-quantization, wave-quantization]":     false,
		"m in [104, 112] and not (n < 4096)":                      true,
		"m % 8 == 0 && n>=4096 && k<=1024":                        true,
		"loss*stake > 7.9 and loss*stake<8.1":                     true,
		`label contains "splitK" and label startsWith 'nvjet'`:    true,
		"label matches '_[0-9]+x64'":                              true,
		"us=12.5 && mfu<0.5 && verdict=anomalous":                 true,
		"dtype=bf16 && layout=nk && operation=gemm":               true,
		"gain > 0 or gain <= 0":                                   false, // it has no remedy
		"remedy=''":                                               true,
		"!pays":                                                   true,
		"rule=split || rule=monotonic":                            true,
		"status=confirmed && from_m=96 && to_m==128 && rows == 5": true,
		"regime = engine and threads=0 and weights==\"\"":         true,
	} {
		q, err := Parse(where, "", 0, Findings)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if got, err := q.Match(OfFindings(a)(f)); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", where, got, err, want)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for where, want := range map[string]string{
		"kernl=cublas":                           `unknown name "kernl": expected one of device, kernel, `,
		"power > 100":                            "power is a name of samples and not of findings; these have device, ",
		"m = 'a'":                                "mismatched types",
		"kernel":                                 "expected bool",
		"loss >":                                 "unexpected token",
		"kernel = 'cub":                          "literal not terminated",
		"m in 1..1000000000":                     "operator ..: expected comparisons",
		"all(1..1000000, # > 0)":                 "expected comparisons",
		"let x = 1; x > 0":                       "unexpected token",
		"len(kernel) > 3":                        "len(): expected comparisons",
		"now() > 1":                              "expected comparisons",
		"kernel.x == 1":                          "expected comparisons",
		"m ** 1000 > 1":                          "operator **: expected comparisons",
		strings.Repeat("(", 400) + "m=1":         "unexpected token",
		strings.Repeat("m=1 or ", 200) + "m = 1": "1405 bytes, expected 1000 at most",
		strings.Repeat("!", 990) + "pays":        "exceeds maximum allowed nodes",
		"kernel = \x00\xff":                      "unrecognized character",
		"label matches '('":                      "error parsing regexp",
	} {
		_, err := Parse(where, "", 0, Findings)
		var part *ErrorOf
		if !errors.As(err, &part) || part.Part != "where" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %s", where, err, want)
		}
	}
	if _, err := Parse("", "-loss,kernl", 0, Findings); err == nil || !strings.HasPrefix(err.Error(), `sort: unknown name "kernl"`) {
		t.Errorf("sort: %v", err)
	}
	if _, err := Parse("", "", -1, Findings); err == nil || !strings.HasPrefix(err.Error(), "top: -1") {
		t.Errorf("top: %v", err)
	}
	a, f := finding()
	q, err := Parse("m % threads == 0", "", 0, Findings)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Match(OfFindings(a)(f)); err == nil || !strings.Contains(err.Error(), "divide by zero") {
		t.Errorf("a division by zero: %v", err)
	}
}

func TestSelect(t *testing.T) {
	type item struct {
		kernel string
		us     any
	}
	items := []item{{"b", 2.0}, {"a", nil}, {"c", 3.0}, {"a", 2.0}, {"d", math.NaN()}}
	record := func(i item) Record {
		return func(name string) any {
			if name == "us" {
				return i.us
			}
			return i.kernel
		}
	}
	for _, tc := range []struct {
		sort string
		top  int
		want string
	}{{"", 0, "bacad"}, {"us", 0, "bacad"}, {"-us", 0, "cbaad"}, {"-us,kernel", 0, "cabad"}, {"kernel,us", 2, "aa"}, {"", 1, "b"}} {
		q, err := Parse("", tc.sort, tc.top, Samples)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Select(q, items, record)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, i := range got {
			text += i.kernel
		}
		if text != tc.want {
			t.Errorf("%q, %d: %s, want %s", tc.sort, tc.top, text, tc.want)
		}
	}
}

func TestNamesHaveValues(t *testing.T) {
	a, f := finding()
	f.Remedy = &rules.Remedy{Kind: rules.RemedyPad, Executed: true, Pays: true, Gain: stats.Interval{Mid: 1.2}}
	f.ID, f.Baseline = "monotonic-1", rules.BaselineNew
	f.Series.Weights = kernels.WeightFormat{Bits: 4}
	f.Series.Threads = 2
	a.Series[0].Key = f.Series
	a.Series[0].Rows[1].ClockMHz = 1500
	one, ms := 1.0, stats.Interval{Mid: 1}
	for of, records := range map[Set][]Record{
		Findings: {OfFindings(a)(f)},
		Remedies: {OfRemedy(remedy.Row{Series: f.Series,
			Remedy: rules.Remedy{Kind: rules.RemedyPad, DirectUS: 3, PredictedUS: 2, AdjustedP: 0.1}})},
		Rows: {OfMedian(report.Median{Series: f.Series, M: 1, Samples: 3, US: ms, AtClock: ms, MFU: 0.5, MFUAtClock: 0.5, Elasticity: 1,
			ClockMHz: 1500})},
		Samples: {OfSample(&export.Line{Utils: &one, ClockMHz: &one, PowerW: &one, TempC: &one, EnergyMJ: &one, HostUS: &one})},
		Changes: {
			OfCase(diff.Case{Series: f.Series, B: ms, Ratio: ms, Paired: 7, LabelB: "x"}),
			OfFindingDiff(diff.Finding{B: &f})},
	} {
		for _, n := range Names(of) {
			var v any
			for _, r := range records {
				if v == nil {
					v = r(n.Name)
				}
			}
			if reflect.TypeOf(v) != reflect.TypeOf(n.absent()) {
				t.Errorf("%s of %s is %T, want %s", n.Name, of, v, n.Type)
			}
		}
	}
	types := map[string]Name{}
	for _, n := range names {
		if before, ok := types[n.Name]; ok && before.Type != n.Type {
			t.Errorf("%s is %s of %s and %s of %s", n.Name, before.Type, before.Of, n.Type, n.Of)
		}
		types[n.Name] = n
		if n.Of == 0 || n.Meaning == "" {
			t.Errorf("%s means %q of %s", n.Name, n.Meaning, n.Of)
		}
	}
	for _, n := range declare(Remedies, report.StretchFields) {
		if _, err := lookup(n.Name, Remedies); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"kernel=cublas && loss>0.1", "m in [1,2]", "cause in [a-b", "`", "m % 0 == 1", "kernel='\\",
		"not not pays"} {
		f.Add(s)
	}
	a, one := finding()
	f.Fuzz(func(t *testing.T, where string) {
		q, err := Parse(where, "", 0, Findings)
		if err != nil {
			return
		}
		_, _ = q.Match(OfFindings(a)(one))
	})
}
