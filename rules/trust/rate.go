package trust

import (
	"gonum.org/v1/gonum/mathext"
)

// The bounds of the rates, as shares. A rate keeps its bound if its upper 95 % limit does.
const (
	// MostFalse limits the share of the rows called anomalous, and of the confirmed findings, that are truly
	// within the rule's bound.
	MostFalse = 0.05
	// MostMissed limits the share of slow rows that are called clean; a slow row loses more than the bound by
	// SlowBeyond.
	MostMissed = 0.05
	SlowBeyond = 0.005
	// MostOpenQuiet and MostOpen limit the share of marginal and undecided rows, at noise up to 1 % and under
	// any other.
	MostOpenQuiet = 0.10
	MostOpen      = 0.20
	// MostUnfound limits the share of slow intervals of [PromisedDepth] that are not found at noise up to 1
	// %.
	MostUnfound = 0.05
	// StatedLevel is a comparison's nominal rate of false differences. It is exceeded if the lower limit is
	// above it.
	StatedLevel = 0.05
	// PaysBeyond is how far a true gain must exceed the remedies' margin for a table to be required to serve
	// it.
	PaysBeyond = 0.01
	// FarBeyond is the maximum error of an inferred row's time, as a share.
	FarBeyond = 0.01
	// MostFar limits the share of inferred rows with a larger error.
	MostFar = 0.02
	// MostContradicted limits the share of contradictions among the rows that a stopped sweep and the full
	// one both decide.
	MostContradicted = 0.001
)

// Measure is a counted quantity.
type Measure string

// The measures. Rows are those of the monotonic rule.
const (
	FalseRows       Measure = "false-rows"        // of rows called anomalous, those within the bound
	FalseFindings   Measure = "false-findings"    // of confirmed findings of all rules, those that keep their rule
	MissedRows      Measure = "missed-rows"       // of slow rows, those called clean
	OpenRows        Measure = "open-rows"         // of all rows, those marginal or undecided
	MarginalRows    Measure = "marginal-rows"     // of all rows
	ModesMissed     Measure = "modes-missed"      // of bimodal rows, those reported as unimodal
	ModesFalse      Measure = "modes-false"       // of unimodal rows, those reported as bimodal
	UnfoundPromised Measure = "unfound-intervals" // of slow intervals of PromisedDepth, those without a confirmed finding
	InvalidRuns     Measure = "invalid-runs"      // of runs, those that the audit rejects as invalid

	PairDisagree        Measure = "pair-disagree"         // of rows anomalous in either of two audits, those not in both
	PairDisagreeLenient Measure = "pair-disagree-lenient" // the same, marginal agreeing with anomalous
	PairContradict      Measure = "pair-contradict"       // of rows decided in both, those anomalous in one and clean in the other
	DiffChanged         Measure = "diff-changed"          // of cases of two runs of one machine, those called slower or faster
	DiffAlarms          Measure = "diff-alarms"           // of comparisons of such runs, those with any such case
	DiffMarginal        Measure = "diff-marginal"         // of cases, those at the comparison's threshold
	DiffOpen            Measure = "diff-open"             // of cases, those that the comparison leaves undecided
	NoiseFlagged        Measure = "a-a-flagged"           // of A/A pairs, those called different

	UncoveredTime  Measure = "uncovered-time"  // of row times, those outside of their interval
	UncoveredLoss  Measure = "uncovered-loss"  // of confirmed monotonic findings, those with a loss outside of its interval
	UncoveredGain  Measure = "uncovered-gain"  // of executed remedies, those with a gain outside of its interval
	UncoveredRatio Measure = "uncovered-ratio" // of cases of two runs of one machine, those whose interval excludes 1

	RemediesUnpaid Measure = "remedies-unpaid"  // of executed rows, those without an emitted remedy
	FalseRemedies  Measure = "false-remedies"   // of emitted remedies, those without a true gain
	FalseTableRows Measure = "false-table-rows" // of rows that the table serves, proven or not, those without a gain
	MissedRemedies Measure = "missed-remedies"  // of rows with a true gain of PaysBeyond above the margin, those that the table lacks

	// Of rows that were not measured. Isolated slow rows are counted separately: they are unpredictable.
	InferredRows      Measure = "inferred-rows"      // of all rows
	UnknownRows       Measure = "unknown-rows"       // of all rows requested, those neither measured nor inferred
	UncoveredInferred Measure = "uncovered-inferred" // of inferred rows, those with a time outside of its interval
	FarInferred       Measure = "far-inferred"       // of inferred rows, those with an error above FarBeyond
	ChecksOutside     Measure = "checks-outside"     // of check rows, those outside of the interval inferred
	MissedInferred    Measure = "missed-inferred"    // of slow rows that were inferred, those called clean
	MissedIsolated    Measure = "missed-isolated"    // of isolated slow rows, those called clean

	// Of data sets without slow rows, those in which a command calls something slow: see [Verdicts].
	AuditFalse Measure = "audit-false"
	DiffFalse  Measure = "diff-false"
	FleetFalse Measure = "fleet-false"
	CheckFalse Measure = "check-false"

	PrefixContradict   Measure = "prefix-contradict"   // of rows decided by part of a run's samples and by all, those that contradict
	DeadlineContradict Measure = "deadline-contradict" // the same of a sweep with a deadline and one without
)

// Measures lists the measures in print order.
func Measures() []Measure {
	return []Measure{
		FalseRows, FalseFindings, MissedRows, OpenRows, MarginalRows, ModesMissed, ModesFalse, UnfoundPromised, InvalidRuns,
		PairDisagree, PairDisagreeLenient, PairContradict, DiffChanged, DiffAlarms, DiffMarginal, DiffOpen, NoiseFlagged,
		UncoveredTime, UncoveredLoss, UncoveredGain, UncoveredRatio, RemediesUnpaid, FalseRemedies, FalseTableRows, MissedRemedies,
		InferredRows, UnknownRows, UncoveredInferred, FarInferred, ChecksOutside, MissedInferred, MissedIsolated,
		PrefixContradict, DeadlineContradict,
	}
}

// 0 means no limit.
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

// stated reports whether a bound is the nominal level of a test, which a correct test reaches.
func (m Measure) stated() bool {
	switch m {
	case NoiseFlagged, DiffAlarms, AuditFalse, DiffFalse, FleetFalse, CheckFalse:
		return true
	}
	return false
}

// Count is a number of hits out of a total.
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

func (c *Count) merge(o Count) { c.Hits, c.Of = c.Hits+o.Hits, c.Of+o.Of }

// Share is hits ÷ total, 0 if the total is 0.
func (c Count) Share() float64 {
	if c.Of == 0 {
		return 0
	}
	return float64(c.Hits) / float64(c.Of)
}

// limitLevel is the confidence of one-sided limits.
const limitLevel = 0.95

// statedLevel is the confidence required to call a test's own level exceeded. At 95 %, one of about fourteen
// kinds of noise would exceed it by chance every second time.
const statedLevel = 1 - (1-limitLevel)/14

// Upper is the upper 95 % limit of the rate (Clopper and Pearson), 1 if the total is 0.
func (c Count) Upper() float64 {
	if c.Hits >= c.Of {
		return 1
	}
	return mathext.InvRegIncBeta(float64(c.Hits)+1, float64(c.Of-c.Hits), limitLevel)
}

// Lower is the lower 95 % limit, 0 if the total is 0.
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
	// Lower and Upper are one-sided 95 % limits.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
	// Bound is the maximum of Upper, or for a test's nominal level of the lower limit, corrected for the
	// number of kinds of noise; 0 for none. Broken is true if it is exceeded. Thin is true if the total is
	// too small to keep it even without a hit.
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
