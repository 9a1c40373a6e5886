package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/history"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureHistory() *history.Result {
	key := results.SeriesKey{Device: "cuda:0", Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 4096, 4096), Regime: results.Engine}
	r := &history.Result{Schema: history.Schema, Settings: history.Default(), Short: 1, Clocks: map[string]float64{"Card X": 1500},
		Warnings: []rules.Warning{{Subject: "3.db", Text: "cuda:0 ran at 900 MHz"}},
		Events: []history.Event{{Run: 2, Before: 1, Slower: 1, Ratio: 1.04,
			Factors: []results.FactorDiff{{Name: "cuda:0 driver", A: "550", B: "560"}, {Name: "turbo", A: "on"}}}}}
	us := func(v float64) *float64 { return &v }
	for i, path := range []string{"1.db", "2.db", "3.db", "4.db"} {
		r.Runs = append(r.Runs, history.Run{Path: path, Taken: time.Date(2025, 1, i+1, 0, 0, 0, 0, time.UTC)})
	}
	r.Cases = []history.Case{
		{Identity: "Card X/cublas/bf16/n4096 k4096", Series: key, M: 64, US: []*float64{us(100), us(101), us(104), us(104)},
			Changes: []history.Change{{Run: 2, Before: 1, Ratio: stats.Interval{Lo: 1.03, Mid: 1.04, Hi: 1.05}, FromUS: 100, ToUS: 104,
				P: 1e-6}}},
		{Identity: "Card X/cublas/bf16/n4096 k4096", Series: key, M: 128, US: []*float64{us(200), nil, nil, us(200)},
			Changes: []history.Change{}},
	}
	return r
}

func TestHistoryInEveryFormat(t *testing.T) {
	for _, f := range TextFormats() {
		var b bytes.Buffer
		if err := WriteHistory(&b, f, fixtureHistory()); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		golden.Compare(t, "history."+string(f), b.String())
	}
}

// Names must appear in the plot even without data to draw.
func TestHistoryPlot(t *testing.T) {
	for _, r := range []*history.Result{fixtureHistory(), {}} {
		var b bytes.Buffer
		if err := PlotHistory(r).Write(&b, SVG); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Cases {
			if !strings.Contains(b.String(), c.Series.Text()) {
				t.Errorf("the plot does not name %s", c.Series.Text())
			}
		}
	}
}
