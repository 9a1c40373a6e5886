package calibrate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting"
)

// Result is what came of a calibration.
type Result struct {
	On   candidates.Card
	Near *calibration.Card // the card that ships at whose constants the fit began
	// Before are the constants in force; BeforeMeasured says that they were measured on such a card
	// here, and do not ship.
	Before         *calibration.Card
	BeforeMeasured bool
	Fitted         *calibration.Card // the new constants, whatever was found of them
	After          *calibration.Card // those to keep, where [Result.Kept]
	Direct         Direct
	Models         []fitting.Outcome
	Cases, Times   int // that were fitted to
	Checks         []Check
	All            []candidates.Time // what was timed, of checks as well
	Parts          []Part
	Seconds        float64 // that it took
}

// Check is a case that was held out: what auto picks by the constants before and after, and the best of what was timed.
type Check struct {
	Case          candidates.Case
	Before, After Timed
	Best          Timed
}

// Timed is a plan and the seconds of a launch.
type Timed struct {
	Family, Label string
	Seconds       float64
}

// Part is models that are judged, and kept, together: those of one kind of operation.
type Part struct {
	Name   string // "products"
	Models []string
	// Cases were checked; Changed are those for which another plan is picked.
	Cases, Changed int
	// Before and After are how much slower than the best of what was timed the picks are, on average; WorstBefore and
	// WorstAfter at worst. Lost is the most that a case became slower by, 0 for none.
	Before, After, WorstBefore, WorstAfter, Lost float64
	Verdict                                      Verdict
}

// Verdict is what became of a part's new constants.
type Verdict string

// The verdicts.
const (
	Better    Verdict = "better"    // picks are faster on average, or as fast
	Worse     Verdict = "worse"     // picks are slower on average, or one lost much: the constants stay as they were
	Unchecked Verdict = "unchecked" // there was no time to check: likewise
)

// MostLost is what a single case may become slower by where the average gains.
const MostLost = 0.08

// partOf says to which part a case belongs.
func partOf(o kernels.Operation) string {
	if o == kernels.GEMM {
		return "products"
	}
	return "attention"
}

// parts are the names of the parts with their models.
var parts = []struct {
	name   string
	models []string
}{
	{"products", []string{"common", "gemv", "hopper", "hopper_narrow", "mma"}},
	{"attention", []string{"attention", "attention_decode", "flash", "flash_hopper"}},
}

// take makes the constants of a fit those to keep.
func (r *Result) take(f *fitting.Result, program string) {
	f.Describe(r.On)
	r.Fitted, r.After, r.Models = f.Card.Clone(), f.Card, f.Models
	r.After.Program, r.After.From = program, r.Near.Card
	r.After.Measured = map[string]calibration.Quantity{}
	for name, q := range map[string]calibration.Quantity{
		"clock": {Value: r.Direct.ClockMHz, Unit: "MHz"}, "launch": {Value: r.Direct.Launch, Unit: "s"},
		"memory": {Value: r.Direct.Bandwidth, Unit: "B/s"}, "l2": {Value: r.Direct.L2, Unit: "B/cycle"},
	} {
		if q.Value > 0 {
			r.After.Measured[name] = q
		}
	}
}

// decide judges the parts and puts back what is not better.
func (r *Result) decide() {
	for _, p := range parts {
		part := Part{Name: p.name, Models: p.models, Verdict: Unchecked}
		gained := 0. // sum of logarithms
		for _, c := range r.Checks {
			if partOf(c.Case.Operation) != p.name {
				continue
			}
			part.Cases++
			before, after := c.Before.Seconds/c.Best.Seconds-1, c.After.Seconds/c.Best.Seconds-1
			part.Before, part.After = part.Before+before, part.After+after
			part.WorstBefore, part.WorstAfter = max(part.WorstBefore, before), max(part.WorstAfter, after)
			if c.Before.Family != c.After.Family || c.Before.Label != c.After.Label {
				part.Changed++
				gained += math.Log(c.Before.Seconds / c.After.Seconds)
				part.Lost = max(part.Lost, c.After.Seconds/c.Before.Seconds-1)
			}
		}
		if part.Cases > 0 {
			part.Before, part.After = part.Before/float64(part.Cases), part.After/float64(part.Cases)
			part.Verdict = Better
			if gained < 0 || part.Lost > MostLost {
				part.Verdict = Worse
			}
		}
		if part.Verdict != Better {
			for _, name := range part.Models {
				m := r.Before.Clone().Models[name]
				if r.Before.Card != r.On.Card {
					m.FittedTo = fmt.Sprintf("not fitted on this card, as on %s: %s", r.Before.Card, m.FittedTo)
				}
				r.After.Models[name] = m
			}
		}
		r.Parts = append(r.Parts, part)
	}
}

// Kept says whether there is anything to keep: whether a part is better.
func (r *Result) Kept() bool {
	return slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Verdict == Better })
}
