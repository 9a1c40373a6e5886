package trial

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// One card in 32, at least one, has a fault.
func slow(cards int, kind fleet.Kind, depth float64) func(i int) Config {
	return func(i int) Config {
		c := Default(cards, uint64(i)+1)
		c.Faults = map[int]Fault{}
		for k := range max(1, cards/32) {
			c.Faults[(i+31*k)%cards] = Fault{Kind: kind, Depth: depth}
		}
		return c
	}
}

func well(cards int, change func(*Config)) func(i int) Config {
	return func(i int) Config {
		c := Default(cards, uint64(i)+1)
		if change != nil {
			change(&c)
		}
		return c
	}
}

func TestFound(t *testing.T) {
	innocent, named := 0, 0
	for _, c := range []struct {
		kind   fleet.Kind
		depth  float64
		fleets int
		least  float64 // minimum share found with its kind
	}{
		{fleet.AllCases, 0.02, 150, 0.95},
		{fleet.Memory, 0.04, 30, 0.95},
		{fleet.Kernel, 0.04, 30, 0.95},
		{fleet.Thermal, 0.1, 30, 0.9},
		{fleet.Power, 0.1, 30, 0.9},
		{fleet.Clock, 0.1, 30, 0.9},
		{fleet.Link, 1, 30, 0.9},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			r := Count(c.fleets, slow(8, c.kind, c.depth))
			t.Log(r)
			if Share(r.Kinds, r.Planted) < c.least {
				t.Errorf("%d of %d found with their kind, want a share of %v", r.Kinds, r.Planted, c.least)
			}
			innocent, named = innocent+r.Innocent, named+r.Named
		})
	}
	if Share(innocent, named) > 0.05 {
		t.Errorf("%d of %d named cards are innocent", innocent, named)
	}
	r := Count(60, slow(8, fleet.AllCases, 0.01))
	t.Logf("a card 1 %% slow among 8: %v", r)
	if r.Found < 6 {
		t.Errorf("of cards 1 %% slow %d of %d are found", r.Found, r.Planted)
	}
}

func TestInnocent(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		fleets int
		check  func(Rates) error
	}{
		{"drift", func(c *Config) { c.Drift, c.Wander = 0.03, 0.01 }, 30, func(r Rates) error {
			if r.Drifting < r.Fleets {
				return fmt.Errorf("%d of %d fleets are said to drift", r.Drifting, r.Fleets)
			}
			return nil
		}},
		{"drift, measured one after the other", func(c *Config) { c.Drift, c.Wander, c.InTurn = 0.03, 0, true }, 30, nil},
		{"one process each", func(c *Config) { c.Processes = 1 }, 30, nil},
		{"another driver on half of them", func(c *Config) { c.OtherDriver, c.OtherBy = 4, 0.03 }, 30, func(r Rates) error {
			if r.Confounds < r.Fleets {
				return fmt.Errorf("in %d of %d fleets the driver is told", r.Confounds, r.Fleets)
			}
			return nil
		}},
		{"another driver on two", func(c *Config) { c.OtherDriver, c.OtherBy = 2, 0.03 }, 30, nil},
		{"hosts that differ", func(c *Config) { c.Cards, c.PerHost, c.Host = 16, 4, 0.003 }, 15, nil},
		{"two modes", func(c *Config) { c.Cards, c.Modes = 24, 0.03 }, 10, func(r Rates) error {
			if r.Modes < r.Fleets {
				return fmt.Errorf("%d of %d fleets are said to have two modes", r.Modes, r.Fleets)
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Count(c.fleets, well(8, c.change))
			t.Log(r)
			if r.Clear < r.Fleets-2 {
				t.Errorf("%d of %d fleets name nobody", r.Clear, r.Fleets)
			}
			if c.name != "two modes" && r.Modes > 0 {
				t.Errorf("%d fleets are said to have two modes", r.Modes)
			}
			if c.check != nil {
				if err := c.check(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A single card with another driver is not reported as surely slow.
func TestConfounded(t *testing.T) {
	c := Default(8, 5)
	c.OtherDriver, c.OtherBy = 1, 0.05
	for _, x := range New(c).Judge(fleet.Default(), nil).Cards {
		if x.Verdict == fleet.Drain {
			t.Errorf("%s is drained: %s", x.Card, x.Reason)
		}
		if CardOf(x.Card) == 7 &&
			(x.Verdict != fleet.Watch || len(x.Confounds) != 1 || x.Confounds[0].Name != "driver" || x.Confounds[0].A != "580.1" ||
				x.Confounds[0].B != "575.2") {
			t.Errorf("the card with another driver: %s, %s, %v", x.Verdict, x.Reason, x.Confounds)
		}
	}
}

// One card with a lower power limit is drained, several are watched, and no other card is flagged.
func TestLimits(t *testing.T) {
	for _, limited := range []int{1, 3} {
		c := Default(12, 8)
		c.LowerLimit, c.LowerBy = limited, 0.12
		want := fleet.Drain
		if limited > 1 {
			want = fleet.Watch
		}
		for _, x := range New(c).Judge(fleet.Default(), nil).Cards {
			if CardOf(x.Card) >= limited {
				if x.Verdict != fleet.Fine {
					t.Errorf("%d limited: %s is %s: %s", limited, x.Card, x.Verdict, x.Reason)
				}
				continue
			}
			if x.Verdict != want || x.Kind != fleet.Power || len(x.Confounds) != 1 || x.Confounds[0].B != "500 W" ||
				!strings.Contains(x.Reason, "power limit 500 W, theirs 700 W") &&
					!strings.Contains(x.Reason, "power limit is 500 W, theirs 700 W") {
				t.Errorf("%d limited: %s is %s, %s: %s", limited, x.Card, x.Verdict, x.Kind, x.Reason)
			}
		}
	}
}

func TestSince(t *testing.T) {
	c := Default(8, 6)
	c.Processes = 6
	c.Faults = map[int]Fault{2: {Kind: fleet.AllCases, Depth: 0.04, From: 4}}
	r := New(c).Judge(fleet.Default(), nil)
	x := r.Cards[0]
	if CardOf(x.Card) != 2 || x.Verdict != fleet.Drain || x.Since == nil || x.Since.Runs != 2 || x.Since.Run != "node0002/gpu0-4.db" {
		t.Fatalf("%s: %s, %s, since %+v", x.Card, x.Verdict, x.Reason, x.Since)
	}
	if x.Since.Ratio.Lo > 1.04 || x.Since.Ratio.Hi < 1.04 || x.Loss.Lo > 1.04 || x.Loss.Hi < 1.03 {
		t.Errorf("it became slower by %v and loses %v: want 1.04", x.Since.Ratio, x.Loss)
	}
	for _, other := range r.Cards[1:] {
		if other.Since != nil {
			t.Errorf("%s changed: %+v", other.Card, other.Since)
		}
	}
}

func TestBaseline(t *testing.T) {
	earlier := New(Default(8, 7)).Judge(fleet.Default(), nil).Baseline()
	if len(earlier.Groups) != 1 || len(earlier.Groups[0].Members) != 8 || len(earlier.Groups[0].Cases) != 12 {
		t.Fatalf("baseline of %d groups", len(earlier.Groups))
	}
	// Two of the eight cards are too few to be compared with each other.
	two := Default(8, 7)
	two.Faults = map[int]Fault{1: {Kind: fleet.AllCases, Depth: 0.03}}
	f := New(two)
	c := fleet.NewCollector(fleet.Default(), earlier)
	for card := range 2 {
		for process := range 2 {
			run := f.Run(card, process+100)
			c.Add(run)
			for _, check := range earlier.Judge(run, fleet.Default()) {
				want := fleet.Fine
				if card == 1 {
					want = fleet.Drain
				}
				if check.Verdict != want {
					t.Errorf("check of card %d: %s, %s", card, check.Verdict, check.Reason)
				}
			}
		}
	}
	r := c.Result()
	if x := r.Cards[0]; CardOf(x.Card) != 1 || x.Verdict != fleet.Drain || x.Earlier == nil || x.Earlier.Lo > 1.03 || x.Earlier.Hi < 1.03 {
		t.Errorf("%s: %s, %s, over itself %v", x.Card, x.Verdict, x.Reason, x.Earlier)
	}
	if x := r.Cards[1]; x.Verdict != fleet.Fine {
		t.Errorf("%s: %s, %s", x.Card, x.Verdict, x.Reason)
	}
}

// BenchmarkVerdicts judges fleets with known faults and reports the documented rates:
//
//	go test ./rules/fleet/trial -run '^$' -bench Verdicts -benchtime 500x
//
// An iteration is a fleet of eight cards; larger fleets take one iteration for as many cards.
func BenchmarkVerdicts(b *testing.B) {
	for _, cards := range []int{8, 64, 512} {
		for _, depth := range []float64{0, 0.01, 0.02} {
			b.Run(fmt.Sprintf("cards=%d/slow=%v", cards, depth), func(b *testing.B) {
				config := slow(cards, fleet.AllCases, depth)
				if depth == 0 {
					config = well(cards, nil)
				}
				r := Count(max(1, b.N*8/cards), config)
				if r.Planted > 0 {
					b.ReportMetric(100*Share(r.Found, r.Planted), "%found")
				}
				b.ReportMetric(100*Share(r.Innocent, r.Named), "%innocent")
				b.ReportMetric(100*Share(r.Fleets-r.Clear, r.Fleets), "%fleets-blamed")
			})
		}
	}
}
