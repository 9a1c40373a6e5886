package trial

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// Rates count verdicts on simulated fleets.
type Rates struct {
	// Planted counts cards with a fault, Found the flagged ones among them, Kinds those flagged with the
	// correct kind.
	Planted, Found, Kinds int
	// Named counts all flagged cards, Innocent those without a fault.
	Named, Innocent int
	// Fleets counts fleets, Clear those without false positives, Drifting those reported as drifting.
	Fleets, Clear, Drifting int
	// Modes counts fleets reported as bimodal, Confounds those with a reported difference between drivers.
	Modes, Confounds int
	// Drained counts cards with a fault and the verdict drain.
	Drained int
}

// Count judges fleets, each with its own configuration.
func Count(fleets int, config func(i int) Config) Rates {
	var r Rates
	for i := range fleets {
		f := New(config(i))
		r.add(f, f.Judge(fleet.Default(), nil))
	}
	return r
}

func (r *Rates) add(f *Fleet, result *fleet.Result) {
	r.Fleets++
	r.Planted += len(f.Faults)
	innocent := 0
	for _, c := range result.Cards {
		fault, planted := f.Faults[CardOf(c.Card)]
		// The slower mode is a property of the fleet, not a flag on one card.
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

// String formats the counts in one line.
func (r Rates) String() string {
	words := []string{fmt.Sprintf("%d fleets", r.Fleets)}
	if r.Planted > 0 {
		words = append(words, fmt.Sprintf("found %d of %d, %d with their kind, %d drained", r.Found, r.Planted, r.Kinds, r.Drained))
	}
	words = append(words, fmt.Sprintf("innocent %d of %d named", r.Innocent, r.Named),
		fmt.Sprintf("drifting %d, modes %d, confounds %d", r.Drifting, r.Modes, r.Confounds))
	return strings.Join(words, "; ")
}
