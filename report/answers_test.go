package report

import (
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/history"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type sentencesCase struct {
	name     string
	notes    []Note
	has, not []string
	tone     Tone
}

func checkSentences(t *testing.T, cases []sentencesCase) {
	t.Helper()
	for _, c := range cases {
		var b strings.Builder
		for _, n := range c.notes {
			b.WriteString(n.Text + "\n")
			if !strings.HasSuffix(n.Text, ".") {
				t.Errorf("%s: no sentence: %q", c.name, n.Text)
			}
		}
		for _, want := range c.has {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: %q is missing in:\n%s", c.name, want, &b)
			}
		}
		for _, not := range c.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s: %q in:\n%s", c.name, not, &b)
			}
		}
		if c.notes[0].Tone != c.tone {
			t.Errorf("%s: tone %v, want %v", c.name, c.notes[0].Tone, c.tone)
		}
	}
}

func TestSplitsSentences(t *testing.T) {
	row := func(executed, pays bool) remedy.Row {
		return remedy.Row{Series: fixtureKey,
			Remedy: rules.Remedy{Kind: rules.RemedyPad, M: 352, PadTo: 384, DirectUS: 15.4, Executed: executed, Pays: pays,
				ExecutedUS: stats.Interval{Mid: 10.7}, Gain: stats.Interval{Mid: 1.44}}}
	}
	saving := func(device, kernel string, share float64) remedy.Saving {
		return remedy.Saving{Device: device, Kernel: kernel, DirectUS: 1000, SavedUS: 1000 * share}
	}
	weighed := saving("cuda:0", "cublas", .03)
	weighed.Weighed = true
	s := func(r remedy.Result) []Note { return splitsSentences(&r) }
	checkSentences(t, []sentencesCase{
		{"nothing", s(remedy.Result{}), []string{"No remedy"}, []string{"Best", "saves"}, Neutral},
		{"predicted", s(remedy.Result{Splits: []remedy.Row{row(false, false)}, Untried: 2}),
			[]string{"3 remedies are", "--execute"}, []string{"Best"}, Neutral},
		{"left out", s(remedy.Result{LeftOut: 1}), []string{"1 remedy is skipped"}, []string{"--execute"}, Neutral},
		{"pays", s(remedy.Result{Splits: []remedy.Row{row(true, true)}, Rejected: []remedy.Row{row(true, false)}, Untried: 1}),
			[]string{"1 of 2 measured", "1 more is predicted", "M 352", "15.4 us, and 10.7 us when padded to 384 (1.44x)"}, nil, Good},
		{"none pays", s(remedy.Result{Rejected: []remedy.Row{row(true, false)}}), []string{"0 of 1"}, []string{"Best"}, Neutral},
		{"saves",
			s(remedy.Result{Savings: []remedy.Saving{saving("cuda:0", "cublas", .014), saving("cuda:0", "cublaslt", .02),
				saving("cuda:0", "x", 0)}}),
			[]string{"1.4 % on cublas and 2 % on cublaslt", "a pass over"}, []string{"traffic", " x"}, Neutral},
		{"of traffic", s(remedy.Result{Savings: []remedy.Saving{weighed}, TrafficUncovered: .0625}),
			[]string{"the traffic, 3 % on cublas", "6.2 % of the traffic"}, nil, Neutral},
		{"two devices", s(remedy.Result{Savings: []remedy.Saving{saving("cuda:0", "cublas", .01), saving("cuda:1", "cublas", .03)}}),
			[]string{"1 to 3 %"}, []string{"on cublas"}, Neutral},
		{"suspected", s(remedy.Result{Suspected: make([]rules.Finding, 2)}), []string{"2 suspected", "--rounds"}, nil, Neutral},
	})
}

func TestHistorySentences(t *testing.T) {
	of := func(ratios ...float64) *history.Result {
		r := &history.Result{Settings: history.Default(),
			Runs: []history.Run{{Path: "1.db"}, {Path: "2.db", Taken: time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)}}}
		for i, ratio := range ratios {
			c := history.Case{Identity: "card", M: 64 << i}
			if ratio != 1 {
				c.Changes = []history.Change{{Run: 1, FromUS: 100, ToUS: 100 * ratio, Ratio: stats.Interval{Mid: ratio}}}
			}
			r.Cases = append(r.Cases, c)
		}
		return r
	}
	short := of(1, 1.05)
	short.Short = 1
	none := of(1, 1)
	none.Short = 2
	noisy := of(1, 1)
	noisy.Shows = 0.12
	checkSentences(t, []sentencesCase{
		{"noise", historySentences(noisy), []string{"None of 2 cases in 2 runs", "known to have changed", "below 12 %"}, []string{"1.0 %"},
			Good},
		{"no change", historySentences(of(1, 1)), []string{"None of 2 cases in 2 runs", "1.0 %"}, []string{"Most", "fewer"}, Good},
		{"slower", historySentences(of(1, 1.05, 1.2)), []string{"2 of 3 cases in 2 runs", "became slower", "M 256 of card",
			"100 to 120 us (1.20x)", "2.db, 2025-01-02"}, []string{"faster"}, Bad},
		{"faster", historySentences(of(.8, 1)), []string{"1 of 2", "became faster", "(0.800x)"}, []string{"slower"}, Good},
		{"both", historySentences(of(.5, 1.05)), []string{"1 slower and 1 faster", "(1.05x)"}, nil, Bad},
		{"one is short", historySentences(short), []string{"1 of 1 case", "1 more case is in fewer than 10 runs"}, nil, Bad},
		{"all are short", historySentences(none), []string{"no case of 2 cases", "More runs"}, []string{"changed", "None"}, Open},
		{"nothing", historySentences(&history.Result{}), []string{"no case of 0 cases"}, []string{"changed"}, Open},
	})
}

func TestFleetSentences(t *testing.T) {
	of := func(verdicts ...fleet.Verdict) *fleet.Result {
		r := &fleet.Result{Runs: 3}
		for i, v := range verdicts {
			r.Cards = append(r.Cards, fleet.Card{Host: "node" + itoa(i), Device: "cuda:0", Verdict: v, Reason: "why " + itoa(i)})
		}
		return r
	}
	modes := of(fleet.Fine)
	modes.Groups = []fleet.Group{{Model: "Card X", Modes: &fleet.Modes{Of: "sustained", Faster: 2, Slower: 1, Ratio: 1.02, With: "rack=7"}}}
	checkSentences(t, []sentencesCase{
		{"all fine", fleetSentences(of(fleet.Fine, fleet.Fine)), []string{"2 cards on 2 hosts", "2 fine"}, []string{"why", "nothing"},
			Good},
		{"drain", fleetSentences(of(fleet.Drain, fleet.Watch, fleet.Fine)), []string{"1 to drain, 1 to watch", "cuda:0 of node0: why 0"},
			[]string{"why 1"}, Bad},
		{"watch", fleetSentences(of(fleet.Watch, fleet.Fine)), []string{"node0: why 0"}, []string{"rain"}, Open},
		{"unjudged", fleetSentences(of(fleet.Unjudged)), []string{"1 card has no peers"}, nil, Open},
		{"modes", fleetSentences(modes), []string{"two groups: 1 takes 2.0 % longer than the other 2 in sustained time", "rack=7"}, nil,
			Good},
		{"none", fleetSentences(of()), []string{"No card"}, []string{"0 cards"}, Open},
	})
}

func TestNodeCheckSentences(t *testing.T) {
	of := func(fit bool, verdicts ...fleet.Verdict) []Note {
		c := &NodeCheck{Baseline: "fleet.json", Host: "node7", Fit: fit, Reason: "why"}
		for _, v := range verdicts {
			c.Devices = append(c.Devices, fleet.Check{Verdict: v, Cases: 10})
		}
		return c.sentences()
	}
	checkSentences(t, []sentencesCase{
		{"fit", of(true, fleet.Fine, fleet.Fine),
			[]string{"node7 is fit", "no card of 2 devices", "20 cases compared with fleet.json", "why"}, []string{"watch"}, Good},
		{"not fit", of(false, fleet.Drain, fleet.Fine), []string{"not fit: 1 of 2 devices"}, nil, Bad},
		{"watch", of(true, fleet.Watch, fleet.Fine), []string{"is fit", "1 to watch"}, nil, Open},
		{"one without", of(true, fleet.Unjudged, fleet.Fine), []string{"is fit", "1 without a verdict"}, nil, Open},
		{"no verdict", of(true, fleet.Unjudged), []string{"no verdict: why"}, []string{"is fit", "Found"}, Open},
		{"disturbed", of(true, fleet.Undecided, fleet.Undecided), []string{"no verdict: why"}, []string{"is fit"}, Open},
		{"one disturbed", of(true, fleet.Undecided, fleet.Fine), []string{"is fit", "1 without a verdict", "Found: why"}, nil, Open},
	})
}

func TestAdviceSentences(t *testing.T) {
	of := func(change func(*advice.Advice)) []Note {
		a := &advice.Advice{Subject: advice.Subject{Model: "tiny", Device: "cuda:0", Card: "H100", Kernel: "cublas", DType: "bf16"},
			Coverage: advice.Products, Missing: []string{"attention"},
			Passes: []advice.Pass{{M: 16}, {M: 512}}, Sizes: advice.Sizes{Captured: []int{48, 512}},
			Chunk: advice.Chunk{M: 448, OverM: 512, TokensPerSecond: stats.Interval{Mid: 42315}, Gain: stats.Interval{Mid: 1.02},
				Gains: advice.GainsSurely}}
		change(a)
		return adviceSentences(a)
	}
	checkSentences(t, []sentencesCase{
		{"gains", of(func(*advice.Advice) {}), []string{"tiny (bf16, cublas) on H100 (cuda:0)", "448 tokens", "42315 tokens/s",
			"1.02x the usual 512", "2 batch sizes: 48, 512", "M 16 to 512", "not in them: attention"}, []string{"slower"}, Neutral},
		{"not surely", of(func(a *advice.Advice) { a.Chunk.Gains = advice.GainsUnsure }), []string{"not surely faster"}, []string{"1.02x"},
			Neutral},
		{"nothing", of(func(a *advice.Advice) { a.Chunk.Gains = advice.GainsNothing }), []string{"no faster"}, nil, Neutral},
		{"usual", of(func(a *advice.Advice) { a.Chunk.OverM = 448 }), []string{"a usual size"}, []string{"512,"}, Neutral},
		{"alone", of(func(a *advice.Advice) { a.Chunk.OverM = 0 }), []string{"tokens/s."}, []string{"usual"}, Neutral},
		{"within", of(func(a *advice.Advice) { a.Chunk.LatencySeconds = .005 }), []string{"within 5.00 ms"}, nil, Neutral},
		{"none within", of(func(a *advice.Advice) { a.Chunk.LatencySeconds, a.Chunk.M = .005, 0 }), []string{"no chunk"}, nil, Neutral},
		{"skips", of(func(a *advice.Advice) {
			a.Skips = []advice.Skip{{M: 112, RunM: 144, Seconds: .004, Run: .003441, Gain: stats.Interval{Mid: 1.16}},
				{M: 128, RunM: 144, Seconds: .004584, Run: .003441, Gain: stats.Interval{Mid: 1.33}}}
		}), []string{"2 sizes are slower", "128 takes 4.58 ms, 144 takes 3.44 ms"}, nil, Neutral},
		{"whole", of(func(a *advice.Advice) { a.Coverage, a.TP = advice.WholePass, 4 }), []string{"whole passes", "one of 4 ranks"},
			[]string{"attention"}, Neutral},
	})
}

// The first sentence claims no more than was measured twice, and the reason follows.
func TestAnswerSentencesOfUnconfirmed(t *testing.T) {
	of := func(slow, confirmed, problems int, why string) []Note {
		a := &Answer{Summary: problem.Summary{Sizes: 184, Products: 4, Slow: slow, Confirmed: confirmed, SlowProblems: problems,
			Unconfirmed: why}}
		if slow > confirmed {
			a.Problems = []*problem.Problem{{Status: rules.Unconfirmed}}
		}
		if why != "" {
			a.Baseline, a.New, a.Grown, a.Known = "b.db", 0, 2, 6
		}
		var notes []Note
		for _, s := range a.Sentences() {
			notes = append(notes, Note{Text: s})
		}
		return notes
	}
	checkSentences(t, []sentencesCase{
		{"all confirmed", of(6, 6, 2, ""), []string{"6 of 184 sizes of 4 products are slower than they need to be, in 2 problems."},
			[]string{"may be", "measured again", "baseline"}, Neutral},
		{"one", of(1, 1, 1, ""), []string{"1 of 184 sizes of 4 products is slower than it needs to be, in 1 problem."}, nil, Neutral},
		{"none confirmed", of(6, 0, 2, "the time limit was reached"), []string{"6 of 184 sizes of 4 products may be slower than they",
			"The time limit was reached.", "baseline b.db: 0 new, 2 grown, 6 known"}, []string{"are slower"}, Neutral},
		{"some confirmed", of(6, 2, 3, ""),
			[]string{"2 of 184 sizes of 4 products are slower than they need to be, and 4 more may be, in 3 problems.",
				"not measured again"}, nil, Neutral},
	})
	if got := timesSentence(&problem.Problem{M: 16, US: 1142, ExpectedUS: 239, Rules: []rules.Rule{rules.Roofline}}, false,
		false); strings.Contains(got, "x)") || !strings.Contains(got, "limit of the device is 239 us") {
		t.Errorf("a ceiling reads as a gain: %q", got)
	}
}

// The terminal gets the first lines of long lists, and the number of the rest.
func TestLongSplitsAreCut(t *testing.T) {
	all := make([]remedy.Row, mostLines+5)
	for i := range all {
		all[i] = remedy.Row{Series: fixtureKey,
			Remedy: rules.Remedy{Kind: rules.RemedyPad, M: 1000 + i, PadTo: 2000, DirectUS: 2, PredictedUS: 1}}
	}
	for f, want := range map[Format]int{Table: mostLines, Wide: len(all)} {
		var b strings.Builder
		if err := WriteSplits(&b, f, results.Meta{}, &remedy.Result{Splits: all}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "pad to 2000"); got != want || strings.Contains(b.String(), "5 more lines") != (f == Table) ||
			!strings.Contains(b.String(), "marks a predicted gain") {
			t.Errorf("%s: %d lines, want %d:\n%s", f, got, want, &b)
		}
	}
}
