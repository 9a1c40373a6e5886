package trial

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// Rates count verdicts on simulated fleets.
type Rates struct {
	// Planted counts cards with a fault, Found those of them that are named, Kinds those that are named with their kind.
	Planted, Found, Kinds int
	// Named counts all cards that are named, Innocent those without a fault.
	Named, Innocent int
	// Fleets counts fleets, Clear those in which no innocent card is named, Drifting those that are said to drift.
	Fleets, Clear, Drifting int
	// Modes counts fleets that are said to fall into two groups, Confounds those in which another driver is told to make a difference.
	Modes, Confounds int
	// Drained counts cards with a fault whose verdict is to drain them.
	Drained int
}

// Count judges fleets, each of its own configuration.
func Count(fleets int, config func(i int) Config) Rates {
	var r Rates
	for i := range fleets {
		f := New(config(i))
		r.add(f, f.Judge(fleet.Default(), nil))
	}
	return r
}

// add counts the verdicts on one fleet.
func (r *Rates) add(f *Fleet, result *fleet.Result) {
	r.Fleets++
	r.Planted += len(f.Faults)
	innocent := 0
	for _, c := range result.Cards {
		fault, planted := f.Faults[CardOf(c.Card)]
		// The slower mode of a fleet is a fact of its cards, and not a name for one of them.
		if c.Verdict != fleet.Drain && c.Verdict != fleet.Watch || c.Kind == fleet.Mode {
			continue
		}
		r.Named++
		if !planted {
			innocent++
			continue
		}
		r.Found++
		if c.Kind == fault.Kind {
			r.Kinds++
		}
		if c.Verdict == fleet.Drain {
			r.Drained++
		}
	}
	r.Innocent += innocent
	if innocent == 0 {
		r.Clear++
	}
	for _, g := range result.Groups {
		if len(g.Drift) > 0 {
			r.Drifting++
			break
		}
	}
	for _, g := range result.Groups {
		if g.Modes != nil {
			r.Modes++
			break
		}
	}
	for _, c := range result.Confounds {
		if c.P < 0.05 {
			r.Confounds++
			break
		}
	}
}

// Share is hits over trials, 0 for no trial.
func Share(hits, trials int) float64 {
	if trials == 0 {
		return 0
	}
	return float64(hits) / float64(trials)
}

// String is the counts in a line.
func (r Rates) String() string {
	words := []string{fmt.Sprintf("%d fleets", r.Fleets)}
	if r.Planted > 0 {
		words = append(words, fmt.Sprintf("found %d of %d, %d with their kind, %d drained", r.Found, r.Planted, r.Kinds, r.Drained))
	}
	words = append(words, fmt.Sprintf("innocent %d of %d named", r.Innocent, r.Named), fmt.Sprintf("drifting %d, modes %d, confounds %d", r.Drifting, r.Modes, r.Confounds))
	return strings.Join(words, "; ")
}
