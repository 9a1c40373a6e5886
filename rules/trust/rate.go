package trust

import (
	"gonum.org/v1/gonum/mathext"
)

// The bounds of the rates, as shares. A rate keeps its bound when its upper 95 % limit
// does.
const (
	// MostFalse bounds the share of the rows called anomalous, and of the confirmed
	// findings, that are truly within the rule's bound.
	MostFalse = 0.05
	// MostMissed bounds the share of slow rows that are called clean; slow is a row that
	// loses more than the bound by SlowBeyond.
	MostMissed = 0.05
	SlowBeyond = 0.005
	// MostOpenQuiet and MostOpen bound the share of marginal and undecided rows, at
	// noise up to 1 % and under any other.
	MostOpenQuiet = 0.10
	MostOpen      = 0.20
	// MostUnfound bounds the share of slow intervals of [PromisedDepth] that are not
	// found at noise up to 1 %.
	MostUnfound = 0.05
	// StatedLevel is the rate that a comparison itself states for differences where there
	// are none. It is not kept when the lower limit is above it.
	StatedLevel = 0.05
	// PaysBeyond is by how much more than the margin of remedies a true gain must be for
	// a table to have to know it.
	PaysBeyond = 0.01
	// FarBeyond is how far off, as a share, the time of an inferred row may not be.
	FarBeyond = 0.01
	// MostFar bounds the share of inferred rows that are farther off.
	MostFar = 0.02
	// MostContradicted bounds the share of rows, of those that a sweep that was stopped
	// and the full one both decide, on which they contradict each other.
	MostContradicted = 0.001
)

// Measure is something that is counted.
type Measure string

// The measures. Rows are those of the monotonic rule.
const (
	FalseRows       Measure = "false-rows"        // of rows called anomalous, those within the bound
	FalseFindings   Measure = "false-findings"    // of confirmed findings of all rules, those that keep their rule
	MissedRows      Measure = "missed-rows"       // of slow rows, those called clean
	OpenRows        Measure = "open-rows"         // of all rows, those marginal or undecided
	MarginalRows    Measure = "marginal-rows"     // of all rows
	ModesMissed     Measure = "modes-missed"      // of rows with two levels, those not told apart
	ModesFalse      Measure = "modes-false"       // of rows with one level, those told to have two
	UnfoundPromised Measure = "unfound-intervals" // of slow intervals of PromisedDepth, those with no confirmed finding
	InvalidRuns     Measure = "invalid-runs"      // of runs, those that the audit refuses to judge

	PairDisagree        Measure = "pair-disagree"         // of rows anomalous in either of two audits, those not in both
	PairDisagreeLenient Measure = "pair-disagree-lenient" // the same, marginal agreeing with anomalous
	PairContradict      Measure = "pair-contradict"       // of rows decided in both, those anomalous in one and clean in the other
	DiffChanged         Measure = "diff-changed"          // of cases of two runs of one machine, those called slower or faster
	DiffAlarms          Measure = "diff-alarms"           // of comparisons of such runs, those with any such case
	DiffMarginal        Measure = "diff-marginal"         // of cases, those that the comparison finds at its threshold
	DiffOpen            Measure = "diff-open"             // of cases, those that the comparison leaves undecided
	NoiseFlagged        Measure = "a-a-flagged"           // of A/A pairs, those called different

	UncoveredTime  Measure = "uncovered-time"  // of row times, those outside of their interval
	UncoveredLoss  Measure = "uncovered-loss"  // of confirmed monotonic findings, those whose loss lies outside of its interval
	UncoveredGain  Measure = "uncovered-gain"  // of executed remedies, those whose gain lies outside of its interval
	UncoveredRatio Measure = "uncovered-ratio" // of cases of two runs of one machine, those whose interval excludes 1

	RemediesUnpaid Measure = "remedies-unpaid"  // of executed rows, those whose remedy is not emitted
	FalseRemedies  Measure = "false-remedies"   // of emitted remedies, those that truly gain nothing
	FalseTableRows Measure = "false-table-rows" // of rows that the table serves, proven or not, those that gain nothing by it
	MissedRemedies Measure = "missed-remedies"  // of rows that a remedy would serve by PaysBeyond more than the margin, those that the table does not serve

	// Of rows that were not measured. Those that are slow by themselves are counted apart: nothing
	// foretells them.
	InferredRows      Measure = "inferred-rows"      // of all rows
	UnknownRows       Measure = "unknown-rows"       // of all rows asked for, those neither measured nor inferred
	UncoveredInferred Measure = "uncovered-inferred" // of inferred rows, those whose time lies outside of its interval
	FarInferred       Measure = "far-inferred"       // of inferred rows, those whose time is off by more than FarBeyond
	ChecksOutside     Measure = "checks-outside"     // of check rows, those outside of the interval inferred
	MissedInferred    Measure = "missed-inferred"    // of slow rows that were inferred, those called clean
	MissedIsolated    Measure = "missed-isolated"    // of rows that are slow by themselves, those called clean

	PrefixContradict   Measure = "prefix-contradict"   // of rows decided by part of a run's samples and by all, those that contradict
	DeadlineContradict Measure = "deadline-contradict" // the same of a sweep with a deadline and one without
)

// Measures lists them in the order in which they are printed.
func Measures() []Measure {
	return []Measure{
		FalseRows, FalseFindings, MissedRows, OpenRows, MarginalRows, ModesMissed, ModesFalse, UnfoundPromised, InvalidRuns,
		PairDisagree, PairDisagreeLenient, PairContradict, DiffChanged, DiffAlarms, DiffMarginal, DiffOpen, NoiseFlagged,
		UncoveredTime, UncoveredLoss, UncoveredGain, UncoveredRatio, RemediesUnpaid, FalseRemedies, FalseTableRows, MissedRemedies,
		InferredRows, UnknownRows, UncoveredInferred, FarInferred, ChecksOutside, MissedInferred, MissedIsolated,
		PrefixContradict, DeadlineContradict,
	}
}

// bound is the most that a measure may be under a kind of noise; 0 is no bound.
func (k Kind) bound(m Measure) float64 {
	switch m {
	case FalseRows, FalseFindings:
		return MostFalse
	case MissedRows:
		return MostMissed
	case OpenRows:
		return k.mostOpen
	case UnfoundPromised:
		if k.finds {
			return MostUnfound
		}
	case FarInferred:
		if k.infers && !k.untold {
			return MostFar
		}
	case PrefixContradict, DeadlineContradict:
		return MostContradicted
	case NoiseFlagged, DiffAlarms:
		return StatedLevel
	}
	return 0
}

// stated says that a bound is the level of a test, which its rate comes up to when all is
// well.
func (m Measure) stated() bool { return m == NoiseFlagged || m == DiffAlarms }

// Count is how many of a total.
type Count struct {
	Hits int `json:"hits"`
	Of   int `json:"of"`
}

func (c *Count) add(hit bool) {
	c.Of++
	if hit {
		c.Hits++
	}
}

// Share is hits ÷ total, 0 of nothing.
func (c Count) Share() float64 {
	if c.Of == 0 {
		return 0
	}
	return float64(c.Hits) / float64(c.Of)
}

// limitLevel is the confidence of limits, to one side.
const limitLevel = 0.95

// statedLevel is the confidence with which a test must be past its own level to be called
// broken: it runs at that level by design, under each of some fourteen kinds of noise, so that one of
// them is past it by chance at 95 % every second time.
const statedLevel = 1 - (1-limitLevel)/14

// Upper is the upper 95 % limit of the rate (Clopper and Pearson), 1 of nothing.
func (c Count) Upper() float64 {
	if c.Hits >= c.Of {
		return 1
	}
	return mathext.InvRegIncBeta(float64(c.Hits)+1, float64(c.Of-c.Hits), limitLevel)
}

// Lower is the lower 95 % limit, 0 of nothing.
func (c Count) Lower() float64 { return c.lowerAt(limitLevel) }

func (c Count) lowerAt(level float64) float64 {
	if c.Hits == 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(c.Hits), float64(c.Of-c.Hits)+1, 1-level)
}

// Rate is a count of one measure under one kind of noise.
type Rate struct {
	Kind    string  `json:"kind"`
	Measure Measure `json:"measure"`
	Count
	Share float64 `json:"share"`
	// Lower and Upper are 95 % limits, each to one side.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Bound is what Upper may not exceed; where it is the level of a test, the lower limit that pays
	// for all kinds of noise may not. 0 for none. Broken says that it does. A rate is
	// Thin when it would exceed the bound without a single hit: the total is too small.
	Bound  float64 `json:"bound,omitempty"`
	Broken bool    `json:"broken,omitempty"`
	Thin   bool    `json:"thin,omitempty"`
}

func newRate(kind string, m Measure, c Count, bound float64) Rate {
	r := Rate{Kind: kind, Measure: m, Count: c, Share: c.Share(), Lower: c.Lower(), Upper: c.Upper(), Bound: bound}
	switch {
	case bound == 0 || c.Of == 0:
	case m.stated():
		r.Broken = c.lowerAt(statedLevel) > bound
	case r.Upper > bound:
		r.Thin = r.Lower <= bound && Count{Of: c.Of}.Upper() > bound
		r.Broken = !r.Thin
	}
	return r
}
