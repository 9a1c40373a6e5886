package change

import "github.com/gemmaudit/gemmaudit/rules/stats"

// Kind is a change between two runs, of a case or of a finding.
type Kind string

// The changes of cases: Slower and Faster by surely more than the threshold; Same, surely within it;
// SuspectedSlower and SuspectedFaster, by more than the threshold if times scatter like other rows'. The
// changes of findings: New and Fixed if the other run is clean there. Open is undecided, for both.
const (
	Slower Kind = "slower"
	Faster Kind = "faster"
	Same   Kind = "same"
	New    Kind = "new"
	Fixed  Kind = "fixed"
	Open   Kind = "undecided"
)

// Within is the change that a ratio of times, new over old, shows at a threshold: 0.03 is 3 %.
func Within(ratio stats.Interval, threshold float64) Kind {
	up, down := 1+threshold, 1/(1+threshold)
	switch {
	case ratio.Lo > up:
		return Slower
	case ratio.Hi < down:
		return Faster
	case ratio.Lo >= down && ratio.Hi <= up:
		return Same
	}
	return Open
}

// The changes of cases and series that rest on borrowed or assumed scatter: see [infer.ScatterOrigin].
const (
	SuspectedSlower Kind = "suspected slower"
	SuspectedFaster Kind = "suspected faster"
)

// Changed reports whether a case is slower or faster, surely or suspected.
func (c Kind) Changed() bool {
	return c == Slower || c == Faster || c == SuspectedSlower || c == SuspectedFaster
}

// AtThreshold is the change of a case that is known precisely and lies at the threshold, like a [rules.Marginal]
// row.
const AtThreshold Kind = "marginal"
