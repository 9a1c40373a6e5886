package remedy

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Schema is the value of SplitsResult.Schema.
const Schema = "gemmaudit.splits/1"

// Result is the outcome of the search for remedies.
type Result struct {
	Schema string `json:"schema"`
	Run    string `json:"run"`
	Method string `json:"method"`
	Splits []Row  `json:"splits"` // as [Rank] sorts them, Rejected too
	// Rejected are remedies that were executed and did not pay.
	Rejected []Row `json:"rejected,omitempty"`
	// Untried counts the rows whose predicted remedy was not executed, because of the budget, the deadline or
	// a failure.
	Untried int `json:"untried,omitempty"`
	// LeftOut counts the rows that have predicted remedies but none with the required result: the direct
	// product's bits, or batch-invariant.
	LeftOut int `json:"left_out,omitempty"`
	// Scope counts the searched rows; nil if unknown, and with the article's method.
	Scope *Scope `json:"scope,omitempty"`
	// Stretches are intervals of M for one remedy each, proven at both ends and at the row with the largest
	// gain. Only the interval method finds them.
	Stretches []Stretch `json:"stretches,omitempty"`
	// Searched are the searched series, with or without remedies.
	Searched []results.SeriesKey `json:"searched,omitempty"`
	// Ranges are the first and the last M of each series of Searched, in order.
	Ranges []rules.Range `json:"ranges,omitempty"`
	// Savings are the total savings of all stretches, by device and kernel.
	Savings []Saving `json:"savings,omitempty"`
	// TrafficUncovered is the share of the traffic, by weight, at Ms outside the swept range, in the mean
	// over Searched. It is not included in any time at stake.
	TrafficUncovered float64         `json:"traffic_uncovered,omitempty"`
	Warnings         []rules.Warning `json:"warnings,omitempty"`
	// Suspected are findings, of the rules whose remedies are sought, on rows with too few samples to be
	// searched.
	Suspected []rules.Finding `json:"suspected,omitempty"`
	// Invalid is the reason if the whole run can't be judged; gains are then shown only on request.
	Invalid string `json:"invalid,omitempty"`
	// Selection is set if Splits, Rejected and Stretches are only some of those found: see
	// [Result.Whole].
	Selection *rules.Selection `json:"selection,omitempty"`

	whole  *Result                          // the full result of a selection, else nil
	engine func(device, kernel string) bool // kernels that an engine can call; nil is all
}

// Scope counts the rows that were searched, and names the remedies.
type Scope struct {
	Among string             `json:"among"` // AmongFlagged or AmongAll
	Kinds []rules.RemedyKind `json:"kinds"`
	// Rows counts the searched rows, Few those with too few samples for the search.
	Rows int `json:"rows"`
	Few  int `json:"few,omitempty"`
}

// Stretch is an interval of M whose remedy paid at every executed row: the ends and the row with the largest
// gain.
type Stretch struct {
	Series results.SeriesKey `json:"series"`
	FromM  int               `json:"from_m"`
	ToM    int               `json:"to_m"`
	Kind   rules.RemedyKind  `json:"kind"`
	// Fixed are the parts of a split that are the same along the stretch; the rest of M is one more part.
	Fixed  []int  `json:"fixed,omitempty"`
	PadTo  int    `json:"pad_to,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Pad and Algorithm are as in [rules.Remedy].
	Pad       table.PadKind     `json:"pad,omitempty"`
	Algorithm kernels.Algorithm `json:"algorithm,omitzero"`
	// Filled is true if a sample of the Ms between the swept ones was executed too and paid. OnlySwept is
	// true if it did not all pay, or could not be executed.
	Filled    bool `json:"filled,omitempty"`
	OnlySwept bool `json:"only_swept,omitempty"`
	// Ms are the measured rows of the stretch, ascending.
	Ms []int `json:"ms"`
	// Proofs are the executed rows, ascending in M.
	Proofs []rules.Remedy `json:"proofs"`
	// StakeUS is the time that the remedy saves over all rows of the stretch, in microseconds × weight of
	// traffic. Stretches are sorted by it.
	StakeUS float64 `json:"stake_us"`
}

// Row is a remedy and its series.
type Row struct {
	Series results.SeriesKey `json:"series"`
	rules.Remedy
}

// Showing returns a result that lists the given remedies and shares all other data with r.
func (r *Result) Showing(splits, rejected []Row, stretches []Stretch, s *rules.Selection) *Result {
	out := *r
	out.Splits, out.Rejected, out.Stretches, out.Selection, out.whole = splits, rejected, stretches, s, r.Whole()
	return &out
}

// Whole is the result with all remedies: r itself, unless it lists a selection.
func (r *Result) Whole() *Result {
	if r.whole != nil {
		return r.whole
	}
	return r
}
