package fleet_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet/trial"
)

func Judged(c trial.Config, b *fleet.Baseline) *fleet.Result {
	f, collector := trial.New(c), fleet.NewCollector(fleet.Default(), b)
	for card := range f.Cards {
		for process := range f.Processes {
			collector.Add(f.Run(card, process))
		}
	}
	return collector.Result()
}

func TestReadBaseline(t *testing.T) {
	var written bytes.Buffer
	if err := Judged(trial.Default(4, 1), nil).Baseline().Write(&written); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, err string }{
		{"", "", ""},
		{"\n}\n", "\n}\n \n", ""},
		{"\n}\n", "\n}\n{}", "trailing data"},
		{"\n}\n", "\n}\n]", "trailing data"},
		{`"cards": 4`, `"cards": -4`, "-4 cards"},
		{`"processes": 12`, `"processes": -1`, "-1 processes"},
		{`"sustained_of": "sweep"`, `"sustained_of": "warm-up"`, `sustained_of is "warm-up"`},
		{`"sustained_of": "sweep"`, `"sustained_of": "sustained"`, ""},
		{`"card": 0.`, `"card": -0.`, "expected 0 to 10"},
		{`"us": `, `"us": -`, "takes -"},
		{`"beta": 0.`, `"beta": 1e300, "x": 0.`, "beta is 1e+300"},
	} {
		text := strings.Replace(written.String(), c.from, c.to, 1)
		if c.from != "" && text == written.String() {
			t.Errorf("the baseline has no %q", c.from)
		}
		_, err := fleet.ReadBaseline(strings.NewReader(text))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q for %q: %v, want %q", c.to, c.from, err, c.err)
		}
	}
}

func TestOtherBaseline(t *testing.T) {
	b := Judged(trial.Default(4, 1), nil).Baseline()
	for _, c := range []struct {
		name    string
		change  func()
		warning string
	}{
		{"its own", func() {}, ""},
		{"one card is missing", func() { b.Groups[0].Members = b.Groups[0].Members[1:] }, "it has 3 of the 4 cards"},
		{"no case", func() { b.Groups[0].Cases = nil }, "it has 0 of the 4 cards"},
		{"another model", func() { b.Groups[0].Model = "another" }, "it has 0 of the 4 cards"},
	} {
		c.change()
		got := ""
		r := Judged(trial.Default(4, 1), b)
		if none := strings.Contains(c.warning, "has 0"); r.Compared() == none {
			t.Errorf("%s: compared %v", c.name, r.Compared())
		}
		for _, w := range r.Warnings {
			if w.Subject == "baseline" {
				got += w.Text
			}
		}
		if (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: %q, want %q", c.name, got, c.warning)
		}
	}
}

// A card's runs come from two hosts: it was moved, or its number is not unique.
func TestCardOnTwoHosts(t *testing.T) {
	for _, moved := range []bool{false, true} {
		f, collector := trial.New(trial.Default(4, 1)), fleet.NewCollector(fleet.Default(), nil)
		for card := range f.Cards {
			for process := range f.Processes {
				run := f.Run(card, process)
				if moved && card == 2 && process == 1 {
					run.Host = "elsewhere"
				}
				collector.Add(run)
			}
		}
		r := collector.Result()
		var got []string
		for _, w := range r.Warnings {
			got = append(got, w.Subject+": "+w.Text)
		}
		want := ""
		if moved {
			want = "GPU-00000002: the card is on 2 hosts, such as elsewhere and node0002: it is judged as one"
		}
		if s := strings.Join(got, "\n"); len(r.Cards) != 4 || s != want {
			t.Errorf("moved %v: %d cards, warnings %q, want %q", moved, len(r.Cards), s, want)
		}
	}
}

// A run twice as slow as the card's others does not affect the verdict.
func TestStrayRun(t *testing.T) {
	f, collector := trial.New(trial.Default(8, 1)), fleet.NewCollector(fleet.Default(), nil)
	for card := range f.Cards {
		for process := range f.Processes {
			run := f.Run(card, process)
			if card == 3 && process == 1 {
				run.Path = "slow.db"
				for _, s := range run.Series {
					for _, row := range s.Rows {
						for i := range row.Samples {
							row.Samples[i].US *= 2
						}
					}
				}
			}
			collector.Add(run)
		}
	}
	r := collector.Result()
	var got []string
	for _, w := range r.Warnings {
		got = append(got, w.Subject+": "+w.Text)
	}
	s := strings.Join(got, "\n")
	if len(got) != 1 || !strings.HasPrefix(s, "slow.db: cuda:0 takes 2.0") && !strings.HasPrefix(s, "slow.db: cuda:0 takes 1.99x") {
		t.Errorf("warnings %q, want one of slow.db", s)
	}
	for _, c := range r.Cards {
		if c.Verdict != fleet.Fine {
			t.Errorf("%s is %s: %s", c.Card, c.Verdict, c.Reason)
		}
	}
}

// A baseline of cards with one run each has no verdict on a slow card; with three runs it drains.
func TestThinBaseline(t *testing.T) {
	slow := trial.Default(8, 2)
	slow.Processes, slow.Drift, slow.Wander, slow.Faults = 1, 0, 0, map[int]trial.Fault{0: {Kind: fleet.AllCases, Depth: 0.2}}
	run := trial.New(slow).Run(0, 0)
	for processes, want := range map[int]fleet.Verdict{1: fleet.Undecided, 3: fleet.Drain} {
		c := trial.Default(8, 1)
		c.Processes = processes
		b := Judged(c, nil).Baseline()
		if thin := len(b.Thin()) > 0; thin != (processes == 1) {
			t.Errorf("%d runs a card: thin %v", processes, thin)
		}
		checks := b.Judge(run, fleet.Default())
		if len(checks) != 1 || checks[0].Verdict != want || strings.Contains(checks[0].Reason, "not drained") != (processes == 1) {
			t.Errorf("%d runs a card: %+v, want %s", processes, checks, want)
		}
	}
}

// A card far slower than a baseline of other software is not judged: the software may be the reason.
func TestOtherSoftware(t *testing.T) {
	b := Judged(trial.Default(8, 1), nil).Baseline()
	slow := trial.Default(8, 2)
	slow.Processes, slow.Drift, slow.Wander, slow.Faults = 1, 0, 0, map[int]trial.Fault{0: {Kind: fleet.AllCases, Depth: 0.2}}
	run := trial.New(slow).Run(0, 0)
	run.Meta.Fingerprint.Devices[0].Versions["driver"] = "575.2"
	checks := b.Judge(run, fleet.Default())
	if len(checks) != 1 || checks[0].Verdict != fleet.Undecided || !strings.Contains(checks[0].Reason, "driver") {
		t.Errorf("%+v, want undecided because of the driver", checks)
	}
}

// Two runs of a card without a common case do not give its variation between runs.
func TestDisjointPlans(t *testing.T) {
	for _, c := range []struct {
		name     string
		disjoint func(process, m int) bool // reports whether a process lacks the rows of an M
		thin     bool
	}{
		{"the same plan", func(int, int) bool { return false }, false},
		{"halves", func(p, m int) bool { return (m < 1000) == (p == 0) }, true},
		{"one row against the others", func(p, m int) bool { return (m == 1) == (p == 0) }, true},
		{"halves that share a row", func(p, m int) bool { return m != 64 && (m < 1000) == (p == 0) }, false},
	} {
		config := trial.Default(1, 1)
		config.Processes = 2
		f, collector := trial.New(config), fleet.NewCollector(fleet.Default(), nil)
		for process := range 2 {
			run := f.Run(0, process)
			for i := range run.Series {
				s := &run.Series[i]
				s.Rows = slices.DeleteFunc(slices.Clone(s.Rows), func(r results.Row) bool { return c.disjoint(process, r.Case.M) })
			}
			run.Series = slices.DeleteFunc(run.Series, func(s results.Series) bool { return len(s.Rows) == 0 })
			collector.Add(run)
		}
		var written bytes.Buffer
		if err := collector.Result().Baseline().Write(&written); err != nil {
			t.Fatal(err)
		}
		b, err := fleet.ReadBaseline(&written)
		if err != nil {
			t.Fatal(err)
		}
		if thin := b.Groups[0].Common.Process == nil && len(b.Thin()) > 0; thin != c.thin {
			t.Errorf("%s: thin %v, want %v: %+v", c.name, thin, c.thin, b.Groups[0].Common)
		}
		for _, k := range b.Groups[0].Cases {
			if k.Card != nil || c.thin && k.Process != nil {
				t.Errorf("%s: m%d of one card scatters by %v between cards and %v between runs", c.name, k.M, k.Card, k.Process)
			}
		}
		slow := trial.Default(1, 1)
		slow.Faults = map[int]trial.Fault{0: {Kind: fleet.AllCases, Depth: 0.22}}
		for _, x := range b.Judge(trial.New(slow).Run(0, 2), fleet.Default()) {
			if x.Verdict == fleet.Drain && c.thin {
				t.Errorf("%s: %s: %s", c.name, x.Verdict, x.Reason)
			}
		}
	}
}

// A stored deviation of 0 between runs counts as unknown.
func TestScatterOfNothing(t *testing.T) {
	var written bytes.Buffer
	if err := Judged(trial.Default(4, 1), nil).Baseline().Write(&written); err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`"process": [0-9.e-]+`).ReplaceAllString(written.String(), `"process": 0`)
	b, err := fleet.ReadBaseline(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Thin()) != 1 || b.Groups[0].Cases[0].Process != nil {
		t.Errorf("%v thin, process %v", b.Thin(), b.Groups[0].Cases[0].Process)
	}
	slow := trial.Default(4, 2)
	slow.Faults = map[int]trial.Fault{0: {Kind: fleet.AllCases, Depth: 0.22}}
	for _, x := range b.Judge(trial.New(slow).Run(0, 0), fleet.Default()) {
		if x.Verdict != fleet.Undecided {
			t.Errorf("%s: %s", x.Verdict, x.Reason)
		}
	}
}
