package problem

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func key(device, kernel string, n int) results.SeriesKey {
	return results.SeriesKey{Device: device, Kernel: kernel, Subject: kernels.Product(kernels.BF16, n, 4096), Regime: results.Engine}
}

var ladder = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 288, 320, 352, 384, 416, 448, 480, 512, 1024, 2048, 4096}

// Two H100s with a library and a kernel of ours, every row at 10 us.
func machine(keys ...results.SeriesKey) (infer.Data, *rules.Audit) {
	var data infer.Data
	for _, id := range []string{"cuda:0", "cuda:1"} {
		data.Meta.Fingerprint.Devices = append(data.Meta.Fingerprint.Devices,
			kernels.Spec{ID: id, Name: "NVIDIA H100", Versions: map[string]string{"driver": "580", "cublas": "13.1"}})
	}
	audit := &rules.Audit{RowRule: rules.Monotonic, Clocks: map[string]float64{"cuda:0": 1700, "cuda:1": 1700}}
	for _, k := range keys {
		s := results.Series{Key: k}
		judged := rules.SeriesAudit{Key: k}
		for _, m := range ladder {
			s.Rows = append(s.Rows, results.Row{Case: results.Case{SeriesKey: k, M: m, Launch: results.Launch{Tile: [3]int{64, m, 64}}},
				Samples: make([]results.Sample, 9)})
			judged.Rows = append(judged.Rows,
				rules.RowVerdict{M: m, Verdict: rules.Clean, US: stats.Interval{Lo: 9.9, Mid: 10, Hi: 10.1}, ClockMHz: 1700})
		}
		data.Series, audit.Series = append(data.Series, s), append(audit.Series, judged)
	}
	return data, audit
}

func finding(rule rules.Rule, k results.SeriesKey, from, to int, loss float64, against *results.Case) rules.Finding {
	return rules.Finding{ID: fmt.Sprintf("%s/%v/%d", rule, k, from), Rule: rule, Series: k, FromM: from, ToM: to, Rows: 1, WorstM: to,
		Loss: stats.Interval{Lo: loss - .01, Mid: loss, Hi: loss + .01}, StakeUS: 10 * loss, Status: rules.Confirmed, Against: against}
}

func padded(k results.SeriesKey, m, to int) *results.Case {
	return &results.Case{SeriesKey: k, M: m, PadTo: to}
}

func on(k results.SeriesKey, kernel string, m int) *results.Case {
	k.Kernel = kernel
	return &results.Case{SeriesKey: k, M: m}
}

func TestFind(t *testing.T) {
	lt, blas, ours := key("cuda:0", "cublaslt", 1024), key("cuda:0", "cublas", 1024), key("cuda:0", "auto", 1024)
	second, other := key("cuda:1", "cublaslt", 1024), key("cuda:0", "cublaslt", 8192)
	pays := func(k results.SeriesKey, m, to int, gain float64) remedy.Row {
		return remedy.Row{Series: k,
			Remedy: rules.Remedy{Kind: rules.RemedyPad, M: m, PadTo: to, DirectUS: 10, Executed: true, Pays: true,
				ExecutedUS: stats.Interval{Mid: 10 / gain}, Gain: stats.Interval{Lo: gain, Mid: gain, Hi: gain}, StakeUS: 10 - 10/gain}}
	}
	tried := func(k results.SeriesKey, to int, least, p float64) remedy.Row {
		return remedy.Row{Series: k, Remedy: rules.Remedy{Kind: rules.RemedyPad, M: 352, PadTo: to, Executed: true, AdjustedP: p,
			Gain: stats.Interval{Lo: least, Mid: least + .2, Hi: least + .4}}}
	}
	cases := []struct {
		name     string
		findings []rules.Finding
		splits   []remedy.Row
		rejected []remedy.Row
		engine   []string
		want     []string
		slow     int
	}{
		{name: "none"},
		{name: "four rules at one size, in two libraries that launch the same",
			findings: []rules.Finding{
				finding(rules.Roofline, lt, 320, 352, .7, nil), finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384)),
				finding(rules.Monotonic, blas, 352, 352, .16, on(blas, "cublas", 320)),
				finding(rules.Alternative, blas, 352, 352, .1, on(blas, "auto", 352)),
			},
			splits: []remedy.Row{pays(lt, 352, 384, 1.4)},
			want:   []string{"1 [cublas cublaslt] [cuda:0] 320-352 pad 384 true"}, slow: 2},
		{name: "two cards of one model",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384)),
				finding(rules.Pad, second, 352, 352, .3, padded(second, 352, 384))},
			want: []string{"1 [cublaslt] [cuda:0 cuda:1] 352-352 pad 384 false"}, slow: 1},
		{name: "two products",
			findings: []rules.Finding{finding(rules.Monotonic, lt, 352, 352, .2, on(lt, "cublaslt", 320)),
				finding(rules.Monotonic, other, 352, 352, .4, on(other, "cublaslt", 320))},
			want: []string{"1 [cublaslt] [cuda:0] 352-352 none", "2 [cublaslt] [cuda:0] 352-352 none"}, slow: 2},
		{name: "a dip in a curve that is slow as a whole",
			findings: []rules.Finding{finding(rules.Roofline, lt, 1, 4096, .1, nil),
				finding(rules.Monotonic, lt, 352, 352, .2, on(lt, "cublaslt", 320))},
			want: []string{"1 [cublaslt] [cuda:0] 352-352 none", "2 [cublaslt] [cuda:0] 1-4096 none ceiling"}, slow: 1},
		{name: "only a kernel of ours is faster: no problem of an engine",
			findings: []rules.Finding{finding(rules.Alternative, lt, 352, 352, .3, on(lt, "auto", 352)),
				finding(rules.Pad, lt, 64, 64, .1, padded(lt, 64, 128))},
			want: []string{"1 [cublaslt] [cuda:0] 64-64 pad 128 false", "2 [cublaslt] [cuda:0] 352-352 none possible auto"}, slow: 1},
		{name: "the engine has our kernel",
			engine:   []string{"cublaslt", "auto"},
			findings: []rules.Finding{finding(rules.Alternative, lt, 352, 352, .3, on(lt, "auto", 352))},
			want:     []string{"1 [cublaslt] [cuda:0] 352-352 kernel auto false"}, slow: 1},
		{name: "our own kernels come last",
			findings: []rules.Finding{finding(rules.Monotonic, ours, 352, 352, .5, on(ours, "auto", 320)),
				finding(rules.Monotonic, lt, 64, 64, .1, on(lt, "cublaslt", 32))},
			want: []string{"1 [cublaslt] [cuda:0] 64-64 none", "2 [auto] [cuda:0] 352-352 none own"}, slow: 1},
		{name: "a remedy without a finding", splits: []remedy.Row{pays(lt, 352, 384, 1.1)},
			want: []string{"1 [cublaslt] [cuda:0] 352-352 pad 384 true"}, slow: 1},
		{name: "a remedy that was tried and does not pay is none",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))},
			rejected: []remedy.Row{{Series: lt, Remedy: rules.Remedy{Kind: rules.RemedyPad, M: 352, PadTo: 384, Executed: true}}},
			want:     []string{"1 [cublaslt] [cuda:0] 352-352 none"}, slow: 1},
		{name: "a remedy that gained in too few rounds is named",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))},
			rejected: []remedy.Row{tried(lt, 384, 1.2, .07)}, want: []string{"1 [cublaslt] [cuda:0] 352-352 tried pad 384"}, slow: 1},
		{name: "a remedy that gained and was rejected for another reason is none",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))},
			rejected: []remedy.Row{tried(lt, 384, 1.2, .01)}, want: []string{"1 [cublaslt] [cuda:0] 352-352 none"}, slow: 1},
		{name: "a remedy that may not gain is none",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))},
			rejected: []remedy.Row{tried(lt, 384, .9, .3)}, want: []string{"1 [cublaslt] [cuda:0] 352-352 none"}, slow: 1},
		{name: "a remedy that other work disturbed is undecided",
			findings: []rules.Finding{finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))},
			rejected: []remedy.Row{{Series: lt,
				Remedy: rules.Remedy{Kind: rules.RemedyPad, M: 352, PadTo: 384, Executed: true, Unsteady: true}}},
			want: []string{"1 [cublaslt] [cuda:0] 352-352 pad 384 false unsteady"}, slow: 1},
		{name: "a long stretch whose remedy was proven at one size",
			findings: []rules.Finding{finding(rules.Pad, lt, 128, 352, .3, padded(lt, 352, 384))},
			splits:   []remedy.Row{pays(lt, 352, 384, 1.4)},
			want:     []string{"1 [cublaslt] [cuda:0] 128-352 pad 384 true"}, slow: 5},
		{name: "a loss that may be none predicts no remedy", findings: []rules.Finding{func() rules.Finding {
			f := finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))
			f.Loss.Lo = -.5
			return f
		}()}, want: []string{"1 [cublaslt] [cuda:0] 352-352 none"}, slow: 1},
		{name: "waived is no problem", findings: []rules.Finding{func() rules.Finding {
			f := finding(rules.Pad, lt, 352, 352, .3, padded(lt, 352, 384))
			f.Status = rules.Waived
			return f
		}()}, splits: []remedy.Row{pays(lt, 352, 384, 1.1)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			data, audit := machine(lt, blas, ours, second, other)
			audit.Findings, audit.FDR = c.findings, .05
			problems, sum := Find(data, audit, &remedy.Result{Splits: c.splits, Rejected: c.rejected}, c.engine)
			var got []string
			for _, p := range problems {
				text := fmt.Sprintf("%d %v %v %d-%d", p.Number, p.Kernels, p.Devices, p.FromM, p.ToM)
				switch r := p.Remedy; {
				case r == nil && p.Tried != nil:
					text += fmt.Sprintf(" tried pad %d", p.Tried.PadTo)
				case r == nil:
					text += " none"
				case r.Kind == rules.RemedyPad:
					text += fmt.Sprintf(" pad %d %v", r.PadTo, r.Pays)
				default:
					text += fmt.Sprintf(" %s %s %v", r.Kind, r.Kernel, r.Pays)
				}
				if p.Remedy != nil && p.Remedy.Unsteady {
					text += " unsteady"
				}
				if (p.Gain.Mid > 0) != (p.Remedy != nil) || (p.BetterUS > 0) != (p.Remedy != nil) {
					t.Errorf("%s: better %g us, gain %g", text, p.BetterUS, p.Gain.Mid)
				}
				if p.OnlyPossible() {
					text += " possible " + p.Possible
				}
				if p.OnlyCeiling() {
					text += " ceiling"
				}
				if p.Own {
					text += " own"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if sum.Slow != c.slow {
				t.Errorf("%d slow sizes, want %d", sum.Slow, c.slow)
			}
			if want := 2 * len(ladder); c.engine == nil && sum.Sizes != want {
				t.Errorf("%d sizes, want %d: each once, whatever kernels ran it", sum.Sizes, want)
			}
		})
	}
}

func TestInvalidRunHasNoProblems(t *testing.T) {
	k := key("cuda:0", "cublaslt", 1024)
	data, audit := machine(k)
	audit.Findings, audit.Invalid = []rules.Finding{finding(rules.Pad, k, 352, 352, .3, padded(k, 352, 384))}, "too noisy"
	if problems, sum := Find(data, audit, nil, nil); len(problems) != 0 || sum.Invalid != "too noisy" {
		t.Errorf("%d problems, reason %q", len(problems), sum.Invalid)
	}
}

// Adjacent slow sizes on one kernel are one problem, up to an octave.
func TestNeighborsAreOneProblem(t *testing.T) {
	blas, lt := key("cuda:0", "cublas", 1024), key("cuda:0", "cublaslt", 1024)
	suspected := finding(rules.Monotonic, blas, 416, 416, .2, nil)
	suspected.Status = rules.Suspected
	at := func(k results.SeriesKey, m int) rules.Finding { return finding(rules.Monotonic, k, m, m, .2, nil) }
	for _, tt := range []struct {
		name     string
		findings []rules.Finding
		want     []string // from-to:sizes
	}{
		{"neighbors", []rules.Finding{at(blas, 320), at(blas, 352), at(blas, 384)}, []string{"320-384:3"}},
		{"a fast size between them is far", []rules.Finding{at(blas, 320), at(blas, 384)}, []string{"320-320:1", "384-384:1"}},
		{"a size that is only suspected", []rules.Finding{at(blas, 384), suspected, at(blas, 448)},
			[]string{"384-384:1", "448-448:1", "416-416:1"}},
		{"another kernel", []rules.Finding{at(blas, 320), at(lt, 352)}, []string{"320-320:1", "352-352:1"}},
		{"more than an octave", []rules.Finding{at(blas, 480), at(blas, 512), at(blas, 1024)}, []string{"480-512:2", "1024-1024:1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, audit := machine(blas, lt)
			audit.Findings = tt.findings
			problems, summary := Find(data, audit, nil, nil)
			var got []string
			sizes := 0
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d-%d:%d", p.FromM, p.ToM, p.Sizes))
				sizes += p.Sizes
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("problems %v, want %v", got, tt.want)
			}
			if sizes != len(tt.findings) || summary.Slow+summary.Suspected != len(tt.findings) {
				t.Errorf("%d slow sizes in problems, %d and %d in the summary, want %d", sizes, summary.Slow, summary.Suspected,
					len(tt.findings))
			}
		})
	}
}

// Each finding that is not waived is evidence of exactly one problem.
func TestEveryFindingHasOneProblem(t *testing.T) {
	keys := []results.SeriesKey{key("cuda:0", "cublaslt", 1024), key("cuda:0", "cublas", 1024), key("cuda:1", "cublas", 1024),
		key("cuda:0", "auto", 1024), key("cuda:0", "cublas", 8192)}
	rapid.Check(t, func(t *rapid.T) {
		data, audit := machine(keys...)
		for i := range rapid.IntRange(0, 30).Draw(t, "findings") {
			at := rapid.IntRange(0, len(ladder)-1).Draw(t, "from")
			to := rapid.IntRange(at, len(ladder)-1).Draw(t, "to")
			f := finding(rapid.SampledFrom(rules.AllRules()).Draw(t, "rule"), rapid.SampledFrom(keys).Draw(t, "series"), ladder[at],
				ladder[to],
				rapid.Float64Range(.02, .9).Draw(t, "loss"), nil)
			f.ID = fmt.Sprint(i)
			f.Status = rapid.SampledFrom([]rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Suspected, rules.Waived}).Draw(t,
				"status")
			audit.Findings = append(audit.Findings, f)
		}
		problems, _ := Find(data, audit, nil, nil)
		seen := map[string]int{}
		for i, p := range problems {
			if p.Number != i+1 {
				t.Fatalf("problem %d has the number %d", i+1, p.Number)
			}
			for _, id := range p.Findings {
				seen[id]++
			}
		}
		for _, f := range audit.Findings {
			want := 1
			if f.Status == rules.Waived {
				want = 0
			}
			if seen[f.ID] != want {
				t.Fatalf("finding %s (%s) is in %d problems, want %d", f.ID, f.Status, seen[f.ID], want)
			}
		}
	})
}

func TestSame(t *testing.T) {
	a := &Problem{Place: Place{Device: "H100", Subject: kernels.Product(kernels.BF16, 1024, 4096)}, Kernels: []string{"cublas", "cublaslt"},
		FromM: 320, ToM: 384}
	for _, c := range []struct {
		name   string
		change func(*Problem)
		want   bool
	}{
		{"overlap", func(p *Problem) { p.FromM, p.ToM = 384, 512 }, true},
		{"apart", func(p *Problem) { p.FromM, p.ToM = 416, 512 }, false},
		{"one kernel of both", func(p *Problem) { p.Kernels = []string{"cublas"} }, true},
		{"another kernel", func(p *Problem) { p.Kernels = []string{"auto"} }, false},
		{"another product", func(p *Problem) { p.N = 2048 }, false},
		{"another model of device", func(p *Problem) { p.Device = "H200" }, false},
	} {
		b := *a
		c.change(&b)
		if a.Same(&b) != c.want || b.Same(a) != c.want {
			t.Errorf("%s: want %v", c.name, c.want)
		}
	}
}

// What no gate fails on is counted, so a pass with slow sizes explains itself.
func TestWaivedAndKnownAreCounted(t *testing.T) {
	lt := key("cuda:0", "cublaslt", 1024)
	data, audit := machine(lt)
	for i, set := range []func(*rules.Finding){func(f *rules.Finding) { f.Status = rules.Waived },
		func(f *rules.Finding) { f.Baseline = rules.BaselineKnown }, func(*rules.Finding) {}} {
		f := finding(rules.Monotonic, lt, 64<<(2*i), 64<<(2*i), .2, on(lt, "cublaslt", 32)) // over an octave apart
		set(&f)
		audit.Findings = append(audit.Findings, f)
	}
	if _, sum := Find(data, audit, nil, nil); sum.Waived != 1 || sum.Known != 1 || sum.Problems != 2 {
		t.Errorf("%d waived, %d known, %d problems, want 1, 1, 2", sum.Waived, sum.Known, sum.Problems)
	}
}

// The summary separates confirmed sizes from the others, gives the reason, and counts by baseline.
func TestSummaryOfUnconfirmedAndBaseline(t *testing.T) {
	k := key("cuda:0", "cublaslt", 1024)
	data, audit := machine(k)
	first, second := finding(rules.Pad, k, 128, 128, .3, padded(k, 128, 256)), finding(rules.Pad, k, 352, 352, .3, padded(k, 352, 384))
	second.Status = rules.Unconfirmed
	first.Baseline, second.Baseline = rules.BaselineKnown, rules.BaselineNew
	audit.Findings, audit.Baseline = []rules.Finding{first, second}, "b.db"
	audit.Warnings = []rules.Warning{{Subject: "run", Text: "other"}, {Subject: "run", Text: "out of time", Unconfirmed: 1}}
	_, sum := Find(data, audit, nil, nil)
	if sum.Slow != 2 || sum.Confirmed != 1 || sum.SlowProblems != 2 || sum.Unconfirmed != "out of time" || sum.Baseline != "b.db" ||
		sum.New != 1 || sum.Grown != 0 || sum.Known != 1 {
		t.Errorf("summary %+v", sum)
	}
}
