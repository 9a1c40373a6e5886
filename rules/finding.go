package rules

import (
	"context"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// Verdict is the judgement of one row.
type Verdict string

// The verdicts. Undecided is an honest answer: the interval straddles the bound. Unjudged is a row that there was
// nothing to compare with, such as the first of a curve; it is never counted as clean.
// Marginal is one too: the row is so near the bound, and known so well, that the
// side it lies on does not matter. Its estimate lies within 0.25 points of the bound
// and its whole 95 % interval within 0.5.
const (
	Anomalous Verdict = "anomalous"
	Clean     Verdict = "clean"
	Marginal  Verdict = "marginal"
	Undecided Verdict = "undecided"
	Unjudged  Verdict = "unjudged"
)

// Status says how far a finding has been proven.
type Status string

// The statuses. Only Confirmed findings fail a gate that names no other. Suspected ones rest on scatter that is not
// the row's own (see [ScatterOrigin]): they never enter a table or a baseline.
const (
	Confirmed   Status = "confirmed"   // seen again, interleaved with its reference, on fresh samples
	Unconfirmed Status = "unconfirmed" // no device was asked again
	Suspected   Status = "suspected"   // too few samples: scatter is borrowed from the series, or assumed
	Waived      Status = "waived"      // confirmed or not, and excused by the rules file
)

// Interval is an estimate with its confidence bounds.
type Interval struct {
	Lo  float64 `json:"lo"`
	Mid float64 `json:"mid"`
	Hi  float64 `json:"hi"`
}

// Raw is the estimate without its bounds, nil where it is no number.
func (i Interval) Raw() any {
	if math.IsNaN(i.Mid) || math.IsInf(i.Mid, 0) {
		return nil
	}
	return i.Mid
}

// RowVerdict is the judgement of one M of one series by one rule.
type RowVerdict struct {
	M       int     `json:"m"`
	Verdict Verdict `json:"verdict"`
	// US is the time of a launch in microseconds at the common clock (see the package
	// comment), MFU what follows from it; both with confidence bounds. Bounds equal to
	// the middle mean that nothing is known of the noise: one sample a row, or the
	// article's method. ObservedUS is the time as it was observed, zero where that is
	// the same.
	US         Interval `json:"us"`
	MFU        Interval `json:"mfu"`
	ObservedUS Interval `json:"observed_us,omitzero"`
	// Modes are the two levels of a row whose samples fall into two groups, in
	// microseconds at the common clock, the faster first; nil for other rows.
	Modes []float64 `json:"bimodal_us,omitempty"`
	// Elasticity is β of the row: time follows the clock to the power −β. 0 where
	// clocks are unknown.
	Elasticity float64 `json:"elasticity,omitempty"`
	// Reference is the M that sets the expectation and Expected the MFU that the
	// rule demands, threshold included. 0 when there is no reference.
	Reference int     `json:"reference,omitempty"`
	Expected  float64 `json:"expected,omitempty"`
	// P is the row's p-value, AdjustedP the one after Benjamini–Hochberg.
	P         float64 `json:"p"`
	AdjustedP float64 `json:"p_adjusted"`
	Samples   int     `json:"samples"`
	Label     string  `json:"label,omitempty"`
	// Inferred is true of a row that was not measured: its time is what the line of its family
	// says, the rows of the series that the same kernel runs.
	Inferred bool `json:"inferred,omitempty"`
	// Cause is that of the row's finding, or [HostBound].
	Cause Cause `json:"cause,omitempty"`
	// ClockMHz is the median clock of the samples, 0 when unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// MFUAtClock is relative to the peak scaled to the common clock: what the kernel makes of the cycles it gets, whatever the power limit
	// leaves of the clock. Zero where a clock is unknown, the peak's or a row's.
	MFUAtClock Interval `json:"mfu_at_clock,omitzero"`
}

// RemedyKind is a way to compute the same product faster.
type RemedyKind string

// The remedies. They compete, AsIs included.
const (
	AsIs        RemedyKind = "direct"
	RemedySplit RemedyKind = "split"
	RemedyPad   RemedyKind = "pad"
	RemedyOther RemedyKind = "kernel"
	// RemedyAlgorithm is an algorithm of a library that its heuristic would not choose.
	RemedyAlgorithm RemedyKind = "algorithm"
)

// Remedy is one way out for one M, predicted from the run and, when Executed,
// measured as it would be used: same output buffer, all launches counted,
// interleaved with the direct product.
type Remedy struct {
	Kind  RemedyKind `json:"kind"`
	M     int        `json:"m"`
	Parts []int      `json:"parts,omitempty"`
	PadTo int        `json:"pad_to,omitempty"`
	// Pad says of a padded product whether its rows are copied into a place with room first.
	Pad table.PadKind `json:"pad,omitempty"`
	// Kernel is whose kernel it is: of an algorithm whose attributes are known the library.
	Kernel string `json:"kernel,omitempty"`
	// Algorithm is what the library is told; zero where nobody asked it.
	Algorithm kernels.Algorithm `json:"algorithm,omitzero"`
	// PredictedUS is summed from the run; DirectUS is the product as it is, of one
	// that is Executed measured in the same rounds as the remedy.
	PredictedUS float64 `json:"predicted_us"`
	DirectUS    float64 `json:"direct_us"`
	// SweepUS is the product as it is in the run, which PredictedUS compares with;
	// 0 where DirectUS is that.
	SweepUS  float64 `json:"sweep_us,omitempty"`
	Executed bool    `json:"executed"`
	// ExecutedUS and Gain (direct ÷ remedy) are measured; zero when not Executed.
	// Gain is the smaller of the two that follow it: at the common clock, and in
	// observed time in the state in which the sweep ran.
	ExecutedUS   Interval `json:"executed_us,omitzero"`
	Gain         Interval `json:"gain,omitzero"`
	ClockGain    Interval `json:"gain_at_clock,omitzero"`
	ObservedGain Interval `json:"gain_observed,omitzero"`
	// Unsteady is true when DirectUS is so far above SweepUS that other work must have
	// slowed the product, and nothing is concluded.
	Unsteady bool `json:"unsteady,omitempty"`
	// AdjustedP is the p-value that the gain is no more than the margin, adjusted by Benjamini–Hochberg over
	// all remedies that were executed with it; 0 where nobody has told, or not Executed.
	AdjustedP float64 `json:"p_adjusted,omitempty"`
	// Pays is true when the lower bound of Gain is above 1 + the margin, AdjustedP at most the false
	// discovery rate, the product not Unsteady, and the result not known to be wrong.
	Pays bool `json:"pays"`
	// Numerics is what the remedy does to the result; nil where nobody looked.
	Numerics *results.Numerics `json:"numerics,omitempty"`
	// StakeUS is the time that the remedy saves, in microseconds × weight of traffic:
	// measured when it was Executed, else predicted.
	StakeUS float64 `json:"stake_us"`
	// Sustained is what the direct product and the remedy take when each runs by itself; nil
	// where they did not.
	Sustained *Sustained `json:"sustained,omitempty"`
}

// Finding is an interval of M of one series that one rule holds against it.
type Finding struct {
	// ID is stable between runs of the same series: rule, series, worst M's interval.
	ID     string            `json:"id"`
	Rule   Rule              `json:"rule"`
	Series results.SeriesKey `json:"series"`
	// FromM and ToM are the first and last anomalous row, Rows how many there are.
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
	Rows  int `json:"rows"`
	// Inferred counts the rows of them that were not measured.
	Inferred int `json:"rows_inferred,omitempty"`
	// WorstM is the row that loses most; Loss is the share of its time that
	// the rule says is wasted, with bounds.
	WorstM int      `json:"worst_m"`
	Loss   Interval `json:"loss"`
	// StakeUS is the time at stake: the sum over the rows of loss × time × weight of
	// traffic, in microseconds for one pass over them.
	StakeUS float64 `json:"stake_us"`
	// AdjustedP is the worst row's p-value after Benjamini–Hochberg.
	AdjustedP float64 `json:"p_adjusted"`
	Status    Status  `json:"status"`
	// Scatter says where the scatter comes from on which a suspected finding rests; empty for others, whose rows have their own.
	Scatter ScatterOrigin `json:"scatter,omitempty"`
	Cause   Cause         `json:"cause"`
	// Explanation is one sentence with the numbers the cause rests on.
	Explanation string `json:"explanation"`
	// Excluded are the causes that were looked at before this one and are none: all of
	// them where Cause is [Unknown].
	Excluded []Exclusion `json:"excluded,omitempty"`
	Remedy   *Remedy     `json:"remedy,omitempty"`
	// Waiver is the reason given in the rules file, when Status is Waived.
	Waiver string `json:"waiver,omitempty"`
	// Baseline is what the audit's baseline says of it; empty without one.
	Baseline BaselineState `json:"baseline,omitempty"`
	// Reproduce is the command that measures the worst row and its reference again, judges them by the
	// same rule and settings, and fails where the finding is confirmed again; a shell can run it as it is.
	Reproduce string `json:"reproduce"`
	// NeedsPaths says that PATH stands in Reproduce for files that were given to the run.
	NeedsPaths bool `json:"needs_paths,omitempty"`
	// ReferenceM is the M of what the worst row is held against, 0 for a ceiling;
	// Reference is the case in words.
	ReferenceM int    `json:"reference_m,omitempty"`
	Reference  string `json:"reference,omitempty"`
	// Against is that case, nil for a ceiling.
	Against *results.Case `json:"against,omitempty"`
	// Sustained is what the worst row and its reference take when each runs by itself; nil
	// where they did not.
	Sustained *Sustained `json:"sustained,omitempty"`
}

// AuditSchema is the value of Audit.Schema.
const AuditSchema = "gemmaudit.audit/1"

// SplitsSchema is the value of SplitsResult.Schema.
const SplitsSchema = "gemmaudit.splits/1"

// Warning is something about the data that the reader must know.
type Warning struct {
	Subject string `json:"subject"` // a series, a case, or "run"
	Text    string `json:"text"`
}

// SeriesAudit is one series judged by the row rules.
type SeriesAudit struct {
	Key     results.SeriesKey `json:"series"`
	Cases   int               `json:"cases"`
	Flagged []int             `json:"flagged"` // ascending M, anomalous by Audit.RowRule
	Rows    []RowVerdict      `json:"rows,omitempty"`
	// RelativeMFU is true where no peak is known and MFU is relative to the fastest row.
	RelativeMFU bool `json:"relative_mfu,omitempty"`
	// Floor is the host's time, which small rows do not fall below; nil where none was found.
	Floor *HostFloor `json:"host_floor,omitempty"`
	// Scatter is what stands for the scatter of rows with too few samples for their own; nil where there are none.
	Scatter *SeriesScatter `json:"scatter,omitempty"`
	// Inference says how many rows were measured and inferred; nil where every row had to be
	// measured.
	Inference *Inference `json:"inference,omitempty"`
	// Counts counts the rows where Rows lacks some of them, else nil: see [Audit.WithoutClean].
	Counts *RowCounts `json:"rows_by_verdict,omitempty"`
}

// Audit is the result of the rules on one run.
type Audit struct {
	Schema string `json:"schema"`
	Run    string `json:"run"`
	// Labels are what the run's machine is called by.
	Labels results.Labels `json:"labels,omitempty"`
	// Baseline is the run that findings were held against; empty without one.
	Baseline string `json:"baseline,omitempty"`
	// Method is "interval" (ours) or "article".
	Method    string  `json:"method"`
	Threshold float64 `json:"threshold"`
	// FDR is the level at which the family of tests is controlled; 0 for the article.
	FDR float64 `json:"fdr,omitempty"`
	// Family says in words over which tests the level holds.
	Family string `json:"family,omitempty"`
	// Drift is the span of the sentinels over the run as a share of the time at the common
	// clock; Corrected says whether times were adjusted by the pace of the blocks nearest in time.
	Drift     float64 `json:"drift,omitempty"`
	Corrected bool    `json:"drift_corrected,omitempty"`
	// Resolution is the loss below which two typical rows of the run are not told apart, as a share of the time;
	// what lies below is undecided. 0 where too little was measured to tell.
	Resolution float64 `json:"resolution,omitempty"`
	// CleanBelow is the loss that the rows which are called clean stay below, as a share of their time. It is set where the
	// resolution is coarser than the loss that RowRule allows, which bounds them else.
	CleanBelow float64 `json:"clean_below,omitempty"`
	// Scatter is how samples scatter within their rows and which number stands for them, by device.
	Scatter map[string]Scatter `json:"scatter,omitempty"`
	// Clocks are the clocks in MHz that times were brought to, by device.
	Clocks map[string]float64 `json:"clock_mhz,omitempty"`
	Cases  int                `json:"cases"`
	// RowRule is the rule whose verdicts the rows of the series carry, and whose
	// anomalous rows are flagged: monotonic, unless that is off.
	RowRule Rule `json:"row_rule,omitempty"`
	// NotApplied are the rules that are on and that Method does not have.
	NotApplied []Rule `json:"not_applied,omitempty"`
	// Flagged is set when the run has exactly one series, else it is per series.
	Flagged  []int         `json:"flagged,omitzero"`
	Series   []SeriesAudit `json:"series,omitempty"`
	Findings []Finding     `json:"findings"`
	// Marginal, Undecided and Unjudged count the rows with these verdicts.
	Marginal  int `json:"marginal"`
	Undecided int `json:"undecided"`
	Unjudged  int `json:"unjudged"`
	// Tests counts the comparisons on which all verdicts rest.
	Tests int `json:"-"`
	// Judged says of how many rows each rule that is on could tell something.
	Judged []Judged `json:"judged,omitempty"`
	// Inference sums up what was inferred in all series; nil where nothing was.
	Inference *Inference `json:"inference,omitempty"`
	// LaunchDiffers are the timed rows whose launch is not what was foretold, by series and M.
	LaunchDiffers []LaunchDiffers `json:"launch_differs,omitempty"`
	// Cards compares the cards of the host, where the run has several of a name.
	Cards *Cards `json:"cards,omitempty"`
	// Invalid is the reason when nothing can be said of the run as a whole (its resolution or
	// the drift of the sentinels is past the bound), else empty.
	Invalid  string    `json:"invalid,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Selection is set where Findings are some of those found: see [Audit.Whole].
	Selection *Selection `json:"selection,omitempty"`

	whole *Audit // of which this one lists a selection, else nil

	// retested are the rows whose verdict measuring again has changed, for [NewProof].
	retested map[Rule][]SeriesProof
}

// SplitsResult is the outcome of the search for remedies.
type SplitsResult struct {
	Schema string     `json:"schema"`
	Run    string     `json:"run"`
	Method string     `json:"method"`
	Splits []SplitRow `json:"splits"` // as [RankRemedies] sorts them, Rejected too
	// Rejected are remedies that were executed and did not pay.
	Rejected []SplitRow `json:"rejected,omitempty"`
	// Untried counts the rows whose predicted remedy was to be executed and was not:
	// there were too many, the time was up, or it failed.
	Untried int `json:"untried,omitempty"`
	// LeftOut counts the rows with predicted remedies none of which has a result as it was asked for: with the
	// direct product's bits, or batch-invariant.
	LeftOut int `json:"left_out,omitempty"`
	// Scope is what was searched; nil where nobody has told, and of the article's method.
	Scope *Scope `json:"scope,omitempty"`
	// Stretches are intervals of M that one remedy serves, proven at both ends and
	// at the row that gains most. Only the interval method finds them.
	Stretches []Stretch `json:"stretches,omitempty"`
	// Searched are the series in which remedies were sought, found or not.
	Searched []results.SeriesKey `json:"searched,omitempty"`
	// Ranges are the first and the last M of each of these, in their order.
	Ranges []Range `json:"ranges,omitempty"`
	// Savings is what all stretches together save, by device and kernel.
	Savings []Saving `json:"savings,omitempty"`
	// TrafficUncovered is the share of the traffic, by weight, that is of Ms below the first and above the last of
	// what was swept, in the mean over Searched. Nothing is said of it, and it is in no time at stake.
	TrafficUncovered float64   `json:"traffic_uncovered,omitempty"`
	Warnings         []Warning `json:"warnings,omitempty"`
	// Suspected are what rows with too few samples to be searched suggest: findings of the rules whose remedies are sought.
	Suspected []Finding `json:"suspected,omitempty"`
	// Selection is set where Splits, Rejected and Stretches are some of those found: see [SplitsResult.Whole].
	Selection *Selection `json:"selection,omitempty"`

	whole *SplitsResult // of which this one lists a selection, else nil
}

// Scope is which rows were searched for which remedies.
type Scope struct {
	Among string       `json:"among"` // AmongFlagged or AmongAll
	Kinds []RemedyKind `json:"kinds"`
	// Rows is how many rows were searched, Few how many were not as they have too few samples.
	Rows int `json:"rows"`
	Few  int `json:"few,omitempty"`
}

// Stretch is an interval of M for which one remedy was executed and paid at
// every row that was tried: the ends and the row that gains most.
type Stretch struct {
	Series results.SeriesKey `json:"series"`
	FromM  int               `json:"from_m"`
	ToM    int               `json:"to_m"`
	Kind   RemedyKind        `json:"kind"`
	// Fixed are the parts of a split that are the same along the stretch; what is
	// left of M is one part more.
	Fixed  []int  `json:"fixed,omitempty"`
	PadTo  int    `json:"pad_to,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	// Pad and Algorithm are those of [Remedy].
	Pad       table.PadKind     `json:"pad,omitempty"`
	Algorithm kernels.Algorithm `json:"algorithm,omitzero"`
	// Filled says that a sample of the Ms between those that were swept was executed too and
	// paid; OnlySwept, that it did not all pay, or could not be executed.
	Filled    bool `json:"filled,omitempty"`
	OnlySwept bool `json:"only_swept,omitempty"`
	// Ms are the measured rows of the stretch, ascending.
	Ms []int `json:"ms"`
	// Proofs are the executed rows, ascending in M.
	Proofs []Remedy `json:"proofs"`
	// StakeUS is the time that the remedy saves over all rows of the stretch, in
	// microseconds × weight of traffic. Stretches are listed by it.
	StakeUS float64 `json:"stake_us"`
}

// Range is a range of M, both ends included.
type Range struct {
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
}

// SplitRow is a remedy together with the series it belongs to.
type SplitRow struct {
	Series results.SeriesKey `json:"series"`
	Remedy
}

// Measurer measures cases on the device that the run came from. Package sweep
// satisfies it; tests use a table of numbers.
type Measurer interface {
	// Measure takes rounds samples of every request. Requests of one call are
	// interleaved, in a new random order each round that keeps groups together, as far as
	// their weights are in memory together. The result has one slice
	// per request, in order; a case that failed has fewer samples than rounds.
	Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error)
}
