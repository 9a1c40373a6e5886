package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report/golden"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureFleet(fine int) *fleet.Result {
	at := func(hour int) time.Time { return time.Date(2026, 3, 1, 20+hour, 0, 0, 0, time.UTC) }
	around := func(mid, half float64) stats.Interval {
		return stats.Interval{Lo: mid - half, Mid: mid, Hi: mid + half}
	}
	card, process := 0.003, 0.002
	parts := fleet.Components{Card: &card, Process: &process, Hosts: fine + 3, Cards: fine + 1, Processes: 3*fine + 3}
	key := results.SeriesKey{Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 4096, 14336), Regime: results.Engine}
	group := fleet.Group{Model: "Card X", Factors: []results.Factor{{Name: "driver", Value: "580.1"}}, Cards: fine + 2, Hosts: fine + 2,
		Processes: 3*fine + 6, Cases: 3,
		ClockMHz: 1700, SustainedOf: results.PhaseSweep, Common: parts, Sustained: parts,
		Drift: []fleet.DriftPoint{{Hours: 0.1, Ratio: 0.995}, {Hours: 9.9, Ratio: 1.004}},
		Modes: &fleet.Modes{Of: "common", Faster: fine, Slower: 1, Ratio: 1.02, With: "rack=7"}}
	other := group
	other.Factors, other.Cards, other.Modes = []results.Factor{{Name: "driver", Value: "575.2"}}, 1, nil
	r := &fleet.Result{Schema: fleet.Schema, Settings: fleet.Default(), Runs: 3*fine + 9, Processes: 3*fine + 9, From: at(0), To: at(10),
		Groups: []fleet.Group{group, other},
		Confounds: []fleet.Confound{{Group: 1, Against: 0, Factors: []results.FactorDiff{{Name: "driver", A: "580.1", B: "575.2"}},
			Ratio: around(1.03, 0.005), Sustained: around(1.031, 0.006), P: 1e-6}},
		Warnings: []rules.Warning{{Subject: "b.db", Text: "holds the run that a.db holds too, and is left out"}},
		Unread:   []fleet.Unread{{Path: "c.db", Reason: "the run is truncated"}},
		Remedies: []table.SharedEntry{{Product: table.Product{Kernel: "cublas", DType: "bf16", Layout: table.NK, N: 4096, K: 4096},
			From: 1040, To: 1100,
			Action: table.Action{Kind: table.Split, First: []int{1024}}, Cards: 2, Of: fine + 3, Gain: 1.08,
			Only: []string{"GPU-1", "GPU-2"}}}}
	add := func(c fleet.Card) {
		c.Card, c.Device, c.Model, c.Cases, c.Labels = fmt.Sprintf("GPU-%d", len(r.Cards)), "cuda:0", "Card X", 3,
			map[string]string{"rack": "7"}
		c.Runs, c.Host = []string{"1.db", "2.db", "3.db"}, fmt.Sprintf("node%d", len(r.Cards))
		if c.Loss == (stats.Interval{}) {
			c.Loss = c.Common
		}
		r.Cards = append(r.Cards, c)
	}
	hot := fleet.Conditions{ClockMHz: 1560, PowerW: 610, TempC: 88, Throttled: 0.9,
		Reasons: map[kernels.ThrottleReason]float64{kernels.TooHotDriver: 0.9}}
	add(fleet.Card{Verdict: fleet.Drain, Kind: fleet.Thermal, Common: around(1.001, 0.003), Sustained: around(1.05, 0.004),
		Loss: around(1.05, 0.004), Of: "all cases in sustained time",
		Reason: "5.0 % [4.6, 5.4] slower than 9 peers in sustained time: its clock is 1560 MHz, theirs 1700; too hot in 90 % of its " +
			"samples", P: 1e-7, AdjustedP: 1e-6, SlowCases: 2,
		Since: &fleet.Change{Run: "2.db", Time: at(4), Runs: 2, Ratio: around(1.05, 0.005), Sustained: true},
		Worst: []fleet.CaseRatio{{Series: key, M: 64, Ratio: 1.06, AdjustedP: 0.001},
			{Series: key, M: 4096, Ratio: 1.05, AdjustedP: 0.01}},
		Conditions: hot, PeerConditions: fleet.Conditions{ClockMHz: 1700, PowerW: 690, TempC: 65}})
	before := around(1.012, 0.004)
	add(fleet.Card{Verdict: fleet.Watch, Kind: fleet.AllCases, Group: 1, Earlier: &before, Common: around(1.03, 0.005),
		Sustained: around(1.031, 0.006), P: 1e-5, AdjustedP: 1e-4,
		Reason:    "3.0 % [2.5, 3.5] slower than 9 peers at the common clock, in all cases alike; confounded: driver 575.2, theirs 580.1",
		Confounds: r.Confounds[0].Factors})
	add(fleet.Card{Verdict: fleet.Unjudged, Reason: "there is no other card of its model to compare it with", AdjustedP: 1})
	for range fine {
		add(fleet.Card{Verdict: fleet.Fine, Common: around(0.999, 0.003), Sustained: around(1, 0.004), AdjustedP: 0.7,
			Reason: "like its 9 peers"})
	}
	h := fleet.Heat{Model: "Card X"}
	other2 := key
	other2.Kernel = "ours"
	h.Cases = []fleet.HeatCase{{Series: key, M: 64, US: 30.1}, {Series: key, M: 4096, US: 680}, {Series: other2, M: 64, US: 29}}
	for i := range r.Cards {
		h.Cards = append(h.Cards, i)
		x := float32(0.001 * float64(i%3))
		if i == 0 {
			x = 0.06
		}
		h.Common = append(h.Common, []float32{x, float32(math.NaN()), -x})
		h.Sustained = append(h.Sustained, []float32{2 * x, x, -x})
	}
	r.Heat = []fleet.Heat{h}
	return r
}

func TestFleetInEveryFormat(t *testing.T) {
	for _, f := range TextFormats() {
		var b bytes.Buffer
		if err := WriteFleet(&b, f, fixtureFleet(2)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		golden.Compare(t, "fleet."+string(f), b.String())
	}
	// A large fleet only counts the cards that match their peers.
	var b bytes.Buffer
	if err := WriteFleet(&b, Table, fixtureFleet(100)); err != nil || strings.Contains(b.String(), "like its 9 peers") ||
		!strings.Contains(b.String(), "\n100 cards are like their peers: -o wide lists them\n") {
		t.Errorf("%v: %s", err, b.String())
	}
	for _, f := range TextFormats() {
		if err := WriteFleet(&b, f, &fleet.Result{}); err != nil {
			t.Errorf("%s of nothing: %v", f, err)
		}
	}
	b.Reset()
	unread := &fleet.Result{Unread: []fleet.Unread{{Path: "c.db", Reason: "the run is truncated"}}}
	if err := WriteFleet(&b, Table, unread); err != nil || strings.Contains(b.String(), "0 cards") ||
		!strings.HasPrefix(b.String(), "No card was judged: ") {
		t.Errorf("%v: %s", err, b.String())
	}
}

func TestFleetPageBounds(t *testing.T) {
	r := fixtureFleet(20)
	h := &r.Heat[0]
	for len(h.Cases) < mostCells/10 {
		h.Cases = append(h.Cases, h.Cases[0])
	}
	for i := range h.Common {
		h.Common[i], h.Sustained[i] = make([]float32, len(h.Cases)), make([]float32, len(h.Cases))
	}
	h.Common[0][0], h.Common[0][1] = 100, -100
	d := newFleetData(r)
	if m := d.Models[0]; len(m.Cards) != 10 || m.All != 23 || m.Cards[0].Verdict != "drain" || len(d.cells[0].common) != 10*len(h.Cases) {
		t.Errorf("%d of %d cards in the page", len(m.Cards), m.All)
	}
	if c := d.cells[0].common; c[0] != math.MaxInt16 || c[1] != noCell+1 {
		t.Errorf("cells out of bounds: %v", c[:2])
	}
}

func hostileFleet() *fleet.Result {
	r := fixtureFleet(5)
	name := "</script><script>alert(1)</script><img src=x onerror=alert(2)>" + hostile
	r.Groups[0].Model, r.Heat[0].Model = name, name
	for i := range r.Cards {
		c := &r.Cards[i]
		c.Card, c.Host, c.Device, c.Reason, c.Model, c.Labels = name+c.Card, name+c.Host, name, name+c.Reason, name,
			map[string]string{name: name}
	}
	for i := range r.Heat[0].Cases {
		r.Heat[0].Cases[i].Series.Kernel = name
	}
	r.Warnings[0].Subject, r.Unread[0].Path, r.Unread[0].Reason, r.Groups[0].Modes.With = name, name, name, name
	return r
}
