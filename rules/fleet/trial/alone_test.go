package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func judgeWith(f *Fleet, shift func(card, process int) time.Duration) *fleet.Result {
	c := fleet.NewCollector(fleet.Default(), nil)
	for card := range f.Cards {
		for process := range f.Processes {
			run := f.Run(card, process)
			by := shift(card, process)
			run.Meta.Created = run.Meta.Created.Add(by)
			for i := range run.Series {
				for k := range run.Series[i].Rows {
					move(run.Series[i].Rows[k].Samples, by)
				}
			}
			c.Add(run)
		}
	}
	return c.Result()
}

func move(samples []results.Sample, by time.Duration) {
	for i := range samples {
		samples[i].StartedUnixMicro += by.Microseconds()
	}
}

// A slow card measured when no other was is never fine: one host can't determine the fleet's drift.
func TestAloneInTime(t *testing.T) {
	to1970 := time.Unix(3600, 0).Sub(began)
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name    string
		cards   int
		perHost int
		depth   float64
		shift   time.Duration
	}{
		{"2x, its clock at 1970", 8, 1, 1, to1970},
		{"5 %, a week later", 8, 1, 0.05, week},
		{"1.5x of 24, its clock at 1970", 24, 1, 0.5, to1970},
		{"1.5x of 24, a week later", 24, 1, 0.5, week},
		{"2x of three", 3, 1, 1, to1970},
		{"a host of four cards", 16, 4, 0.5, to1970},
		{"as fast as the others", 8, 1, 0, week},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(5) {
				config := Default(c.cards, seed+1)
				config.PerHost, config.Faults = c.perHost, map[int]Fault{}
				away := func(card int) bool { return card/c.perHost == 1 }
				for card := range c.cards {
					if away(card) {
						config.Faults[card] = Fault{Kind: fleet.AllCases, Depth: c.depth}
					}
				}
				r := judgeWith(New(config), func(card, _ int) time.Duration {
					if away(card) {
						return c.shift
					}
					return 0
				})
				for _, card := range r.Cards {
					switch alone := away(CardOf(card.Card)); {
					case alone && (card.Verdict != fleet.Unjudged || !strings.Contains(card.Reason, "no peer was measured")):
						t.Errorf("seed %d: the card that is alone is %s: %s", seed, card.Verdict, card.Reason)
					case !alone && card.Verdict != fleet.Fine && card.Verdict != fleet.Watch:
						t.Errorf("seed %d: %s is %s: %s", seed, card.Card, card.Verdict, card.Reason)
					}
				}
				warned := 0
				for _, w := range r.Warnings {
					if strings.Contains(w.Text, "while no other host") {
						warned++
					}
				}
				if want := c.perHost * 3; warned != want {
					t.Errorf("seed %d: %d runs are named, expected %d", seed, warned, want)
				}
			}
		})
	}
}

// Hosts measured one after the other: a slow last host does not count as drift.
func TestLastInTurnIsNotTheDrift(t *testing.T) {
	for seed := range uint64(10) {
		config := Default(8, seed+1)
		config.InTurn, config.Drift, config.Wander = true, 0, 0
		config.Faults = map[int]Fault{7: {Kind: fleet.AllCases, Depth: 0.5}}
		for _, card := range New(config).Judge(fleet.Default(), nil).Cards {
			if CardOf(card.Card) == 7 && card.Verdict != fleet.Drain {
				t.Errorf("seed %d: the last card, 1.5x, is %s: %s", seed, card.Verdict, card.Reason)
			}
		}
	}
}

// Nights that all hosts share are comparable, however far apart.
func TestNightsFarApart(t *testing.T) {
	config := Default(8, 1)
	config.Faults = map[int]Fault{3: {Kind: fleet.AllCases, Depth: 0.05}}
	r := judgeWith(New(config), func(_, process int) time.Duration { return time.Duration(process) * 30 * 24 * time.Hour })
	if n := r.Count(fleet.Unjudged); n != 0 || r.Count(fleet.Drain) != 1 {
		t.Errorf("%d cards are unjudged, %d to be drained, expected 0 and 1", n, r.Count(fleet.Drain))
	}
}
