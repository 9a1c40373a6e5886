package table

import (
	"reflect"
	"testing"
)

func ofCard(driver string, intervals ...Interval) *Table {
	return &Table{Schema: Schema, Created: "2026-01-02T03:04:05Z",
		Validators: Validators{Device: "card", Driver: driver, Kernel: driver + "-os"},
		Series: []Series{{Product: Product{Kernel: "cublas", DType: "bf16", Layout: NK, N: 4096, K: 4096}, FromM: 1, ToM: 4096,
			Default: Action{Kind: Direct}, Intervals: intervals}}}
}

// split192 is an interval with one proof.
func split192(from, to, step, at int, gain float64) Interval {
	return Interval{From: from, To: to, Step: step, Action: Action{Kind: Split, First: []int{192}},
		Proofs: []Proof{{M: at, DirectUS: 10 * gain, RemedyUS: 10, GainLo: gain - 0.01, GainMid: gain, GainHi: gain + 0.01}}}
}

func TestShare(t *testing.T) {
	pad := Interval{From: 3001, To: 3001, Action: Action{Kind: Pad, PadTo: 3072, Pad: InPlace}}
	s := Share([]CardTable{
		{"a", ofCard("1", split192(1000, 1400, 8, 1400, 1.2), pad)},
		{"b", ofCard("1", split192(1200, 1600, 8, 1400, 1.1))},
		{"b", ofCard("1", split192(1200, 1600, 8, 1600, 1.05))},
		{"c", ofCard("2", split192(1000, 1600, 8, 1400, 1.5))},
	})
	if len(s.Left) != 1 || s.Left[0] != "c" {
		t.Errorf("left out: %v", s.Left)
	}
	if err := s.Table.Validate(); err != nil {
		t.Fatal(err)
	}
	if v := s.Table.Validators; v.Device != "card" || v.Driver != "1" {
		t.Errorf("conditions %+v", v)
	}
	intervals := s.Table.Series[0].Intervals
	if len(intervals) != 1 || intervals[0].From != 1200 || intervals[0].To != 1400 || intervals[0].Step != 8 ||
		len(intervals[0].Proofs) != 1 || intervals[0].Proofs[0].GainMid != 1.1 {
		t.Errorf("what pays on both: %+v", intervals)
	}
	want := []struct {
		from, to, cards int
		gain            float64
		only            string
	}{{1000, 1199, 1, 1.2, "a"}, {1200, 1400, 2, 1.05, ""}, {1401, 1600, 1, 1.05, "b"}, {3001, 3001, 1, 0, "a"}}
	if len(s.Entries) != len(want) {
		t.Fatalf("%d entries: %+v", len(s.Entries), s.Entries)
	}
	for i, w := range want {
		e := s.Entries[i]
		only := ""
		if len(e.Only) > 0 {
			only = e.Only[0]
		}
		if e.From != w.from || e.To != w.to || e.Cards != w.cards || e.Of != 2 || e.Gain != w.gain || only != w.only {
			t.Errorf("entry %d: %+v, want %+v", i, e, w)
		}
	}
	if s := Share(nil); s.Table != nil || s.Entries != nil {
		t.Errorf("of no table: %+v", s)
	}
	// A card that did not search a product prevents a common entry.
	other := ofCard("1")
	other.Series = []Series{}
	if s := Share([]CardTable{{"a", ofCard("1", split192(1000, 1400, 8, 1400, 1.2))}, {"b", other}}); len(s.Table.Series) != 0 ||
		len(s.Entries) != 1 || s.Entries[0].Cards != 1 {
		t.Errorf("a card without the product: %+v", s)
	}
	// Grids without a common M give nothing.
	s = Share([]CardTable{{"a", ofCard("1", split192(1000, 1400, 8, 1400, 1.2))}, {"b", ofCard("1", split192(1001, 1401, 8, 1401, 1.2))}})
	if len(s.Table.Series[0].Intervals) != 0 {
		t.Errorf("grids without a common M: %+v", s.Table.Series[0].Intervals)
	}
}

func TestShareOfOneTable(t *testing.T) {
	s := Share([]CardTable{{"a", ofCard("1", split192(1000, 1400, 8, 1400, 1.2))}})
	if err := s.Table.Validate(); err != nil {
		t.Fatal(err)
	}
	if series := s.Table.Series[0]; series.FromM != 1 || series.ToM != 4096 || len(series.Intervals) != 1 ||
		series.Intervals[0].From != 1000 || series.Intervals[0].To != 1400 {
		t.Errorf("the common table says %+v", series)
	}
	if len(s.Entries) != 1 || s.Entries[0].Cards != 1 || s.Entries[0].Of != 1 || s.Entries[0].Only != nil || len(s.Left) != 0 {
		t.Errorf("entries %+v, left out %v", s.Entries, s.Left)
	}
}

// A condition that differs is empty in the result; others stay.
func TestSharedConditions(t *testing.T) {
	full := Validators{Device: "card", Driver: "1", Regime: "cold", Libraries: map[string]string{"cublas": "13.0"}, Kernel: "6.8",
		ClockPolicy: "locked", Arch: "amd64",
		CPUModel: "cpu", Features: []string{"avx2"}, Cores: 8, Threads: 4, Gemmaudit: "v1"}
	for name, differ := range map[string]struct{ other, want func(v *Validators) }{
		"nothing":      {func(v *Validators) {}, func(v *Validators) {}},
		"kernel":       {func(v *Validators) { v.Kernel = "6.9" }, func(v *Validators) { v.Kernel = "" }},
		"clock policy": {func(v *Validators) { v.ClockPolicy = "free" }, func(v *Validators) { v.ClockPolicy = "" }},
		"arch":         {func(v *Validators) { v.Arch = "arm64" }, func(v *Validators) { v.Arch = "" }},
		"CPU model":    {func(v *Validators) { v.CPUModel = "other" }, func(v *Validators) { v.CPUModel = "" }},
		"features":     {func(v *Validators) { v.Features = []string{"avx512f"} }, func(v *Validators) { v.Features = nil }},
		"cores":        {func(v *Validators) { v.Cores = 16 }, func(v *Validators) { v.Cores = 0 }},
		"threads":      {func(v *Validators) { v.Threads = 8 }, func(v *Validators) { v.Threads = 0 }},
		"version":      {func(v *Validators) { v.Gemmaudit = "v2" }, func(v *Validators) { v.Gemmaudit = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, want := ofCard("1"), ofCard("1"), full
			a.Validators, b.Validators = full, full
			differ.other(&b.Validators)
			differ.want(&want)
			if got := Share([]CardTable{{"a", a}, {"b", b}}).Table.Validators; !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
