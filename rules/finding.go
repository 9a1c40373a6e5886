package rules

import (
	"context"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Verdict is the judgement of one row.
type Verdict string

// The verdicts. Undecided: the interval contains the threshold. Unjudged: no reference exists, as for the
// first row of a curve; it never counts as clean. Marginal: the row is known precisely and so near the
// threshold that the side does not matter. Its estimate lies within 0.25 points of the threshold and its
// whole 95 % interval within 0.5.
const (
	Anomalous Verdict = "anomalous"
	Clean     Verdict = "clean"
	Marginal  Verdict = "marginal"
	Undecided Verdict = "undecided"
	Unjudged  Verdict = "unjudged"
)

// Status says how far a finding has been proven.
type Status string

// The statuses. By default only Confirmed findings fail a gate. Suspected findings rest on scatter of other
// rows (see [infer.ScatterOrigin]); they never enter a table or a baseline.
const (
	Confirmed   Status = "confirmed"   // measured again, interleaved with its reference, on fresh samples
	Unconfirmed Status = "unconfirmed" // not measured again
	Suspected   Status = "suspected"   // too few samples: scatter is borrowed from the series, or assumed
	Waived      Status = "waived"      // excused by the rules file, confirmed or not
)

// RowVerdict is the judgement of one M of one series by one rule.
type RowVerdict struct {
	M       int     `json:"m"`
	Verdict Verdict `json:"verdict"`
	// US is the time of a launch in microseconds at the common clock (see the package comment), MFU is
	// computed from it; both have confidence bounds. If the noise is unknown (one sample per row, or the
	// article's method), the bounds equal the middle. ObservedUS is the observed time, zero if that is the
	// same.
	US         stats.Interval `json:"us"`
	MFU        stats.Interval `json:"mfu"`
	ObservedUS stats.Interval `json:"observed_us,omitzero"`
	// Modes are the two levels of a bimodal row, in microseconds at the common clock, the faster first; nil
	// for other rows.
	Modes []float64 `json:"bimodal_us,omitempty"`
	// Elasticity is β of the row: time follows the clock to the power −β. 0 if clocks are unknown.
	Elasticity float64 `json:"elasticity,omitempty"`
	// Reference is the M that sets the expectation, and Expected the MFU that the rule demands, threshold
	// included. 0 if there is no reference.
	Reference int     `json:"reference,omitempty"`
	Expected  float64 `json:"expected,omitempty"`
	// P is the row's p-value, AdjustedP the p-value after Benjamini–Hochberg.
	P         float64 `json:"p"`
	AdjustedP float64 `json:"p_adjusted"`
	Samples   int     `json:"samples"`
	Label     string  `json:"label,omitempty"`
	// Inferred is true for a row that was not measured: its time is predicted by the line of its family, the
	// rows of the series that the same kernel runs.
	Inferred bool `json:"inferred,omitempty"`
	// Cause is the cause of the row's finding, or [cause.HostBound].
	Cause cause.Kind `json:"cause,omitempty"`
	// HostUS is the host's time to start a launch in microseconds; 0 if a graph started the launches.
	HostUS float64 `json:"host_us,omitempty"`
	// ClockMHz is the median clock of the samples, 0 if unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// MFUAtClock is relative to the peak scaled to the common clock: the kernel's efficiency per cycle,
	// whatever the power limit does to the clock. Zero if the peak's clock or the row's is unknown.
	MFUAtClock stats.Interval `json:"mfu_at_clock,omitzero"`
}

// RemedyKind is a way to compute the same product faster.
type RemedyKind string

// The remedies. They compete with each other and with AsIs.
const (
	AsIs        RemedyKind = "direct"
	RemedySplit RemedyKind = "split"
	RemedyPad   RemedyKind = "pad"
	// RemedyPadN and RemedyPadK are weights that an engine pads with zeros along N or K, once, when it loads
	// them. The output of RemedyPadN has padded rows, the activations of RemedyPadK need them.
	RemedyPadN  RemedyKind = "pad-n"
	RemedyPadK  RemedyKind = "pad-k"
	RemedyOther RemedyKind = "kernel"
	// RemedyAlgorithm is an algorithm of a library that its heuristic would not choose.
	RemedyAlgorithm RemedyKind = "algorithm"
)

// Remedy is a faster way to compute one M, predicted from the run. If Executed, it was measured as it would
// be used: same output buffer, all launches counted, interleaved with the direct product.
type Remedy struct {
	Kind  RemedyKind `json:"kind"`
	M     int        `json:"m"`
	Parts []int      `json:"parts,omitempty"`
	PadTo int        `json:"pad_to,omitempty"`
	// Pad says whether the rows of a padded product are first copied to a buffer with room for the padding.
	Pad table.PadKind `json:"pad,omitempty"`
	// ExtraBytes is the memory that padded weights need beyond the weights themselves.
	ExtraBytes int64 `json:"extra_bytes,omitempty"`
	// Kernel is the kernel to use; for an algorithm with known attributes, the library.
	Kernel string `json:"kernel,omitempty"`
	// Algorithm is the attributes to give the library; zero if unknown.
	Algorithm kernels.Algorithm `json:"algorithm,omitzero"`
	// PredictedUS is summed from the run. DirectUS is the direct product's time; if Executed, measured in the
	// same rounds as the remedy.
	PredictedUS float64 `json:"predicted_us"`
	DirectUS    float64 `json:"direct_us"`
	// SweepUS is the direct product's time in the run, which PredictedUS compares with; 0 if DirectUS is that
	// time.
	SweepUS  float64 `json:"sweep_us,omitempty"`
	Executed bool    `json:"executed"`
	// ExecutedUS and Gain (direct ÷ remedy) are measured; zero if not Executed. Gain is the smaller of the
	// two fields after it: at the common clock, and in observed time in the sweep's thermal state.
	ExecutedUS   stats.Interval `json:"executed_us,omitzero"`
	Gain         stats.Interval `json:"gain,omitzero"`
	ClockGain    stats.Interval `json:"gain_at_clock,omitzero"`
	ObservedGain stats.Interval `json:"gain_observed,omitzero"`
	// Unsteady is true if DirectUS is so far above SweepUS that other work must have slowed the product; the
	// result is then discarded.
	Unsteady bool `json:"unsteady,omitempty"`
	// AdjustedP is the p-value of a gain of no more than the margin, adjusted by Benjamini–Hochberg over all
	// remedies executed with it; 0 if unknown or not Executed.
	AdjustedP float64 `json:"p_adjusted,omitempty"`
	// Pays is true under four conditions: the lower bound of Gain is above 1 + the margin, AdjustedP is at
	// most the false discovery rate, the product is not Unsteady, and the result is not known to be wrong.
	Pays bool `json:"pays"`
	// Numerics compares the remedy's result with the direct product's; nil if unchecked.
	Numerics *results.Numerics `json:"numerics,omitempty"`
	// StakeUS is the time that the remedy saves, in microseconds × weight of traffic: measured if Executed,
	// else predicted.
	StakeUS float64 `json:"stake_us"`
	// Sustained has the times of the direct product and the remedy, each running alone; nil if not measured.
	Sustained *Sustained `json:"sustained,omitempty"`
}

// Finding is an interval of M of one series that breaks one rule.
type Finding struct {
	// ID is stable between runs of the same series: rule, series, worst M's interval.
	ID     string            `json:"id"`
	Rule   Rule              `json:"rule"`
	Series results.SeriesKey `json:"series"`
	// FromM and ToM are the first and last anomalous row, Rows their number.
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
	Rows  int `json:"rows"`
	// Inferred counts those rows that were not measured.
	Inferred int `json:"rows_inferred,omitempty"`
	// WorstM is the row with the largest loss; Loss is the share of its time that is wasted by the rule, with
	// bounds.
	WorstM int            `json:"worst_m"`
	Loss   stats.Interval `json:"loss"`
	// StakeUS is the time at stake: the sum over the rows of loss × time × weight of
	// traffic, in microseconds for one pass over them.
	StakeUS float64 `json:"stake_us"`
	// AdjustedP is the worst row's p-value after Benjamini–Hochberg.
	AdjustedP float64 `json:"p_adjusted"`
	Status    Status  `json:"status"`
	// Scatter is the source of the scatter that a suspected finding rests on; empty for others, whose rows
	// have their own.
	Scatter infer.ScatterOrigin `json:"scatter,omitempty"`
	Cause   cause.Kind          `json:"cause"`
	// Explanation is one sentence with the numbers behind the cause.
	Explanation string `json:"explanation"`
	// Excluded are the causes that were checked before this one and do not apply: all of them if Cause is
	// [cause.Unknown].
	Excluded []cause.Exclusion `json:"excluded,omitempty"`
	Remedy   *Remedy           `json:"remedy,omitempty"`
	// Waiver is the reason given in the rules file, if Status is Waived.
	Waiver string `json:"waiver,omitempty"`
	// Baseline compares the finding with the audit's baseline; empty without one.
	Baseline BaselineState `json:"baseline,omitempty"`
	// Reproduce is the shell command that measures the worst row and its reference again and judges them by
	// the same rule and settings. It fails if the finding is confirmed again.
	Reproduce string `json:"reproduce"`
	// NeedsPaths is true if Reproduce has PATH as a placeholder for files that were given to the run.
	NeedsPaths bool `json:"needs_paths,omitempty"`
	// Brought are the flags of such files in it.
	Brought []string `json:"-"`
	// ReferenceM is the M of the worst row's reference, 0 for a ceiling; Reference describes the case.
	ReferenceM int    `json:"reference_m,omitempty"`
	Reference  string `json:"reference,omitempty"`
	// Against is the reference case, nil for a ceiling.
	Against *results.Case `json:"against,omitempty"`
	// Sustained has the times of the worst row and its reference, each running alone; nil if not measured.
	Sustained *Sustained `json:"sustained,omitempty"`
}

// AuditSchema is the value of Audit.Schema.
const AuditSchema = "gemmaudit.audit/1"

// Warning is something about the data that the reader must know.
type Warning struct {
	Subject string `json:"subject"` // a series, a case, or "run"
	Text    string `json:"text"`
	// Unconfirmed counts the suspect intervals that were not measured again for this reason.
	Unconfirmed int `json:"unconfirmed,omitempty"`
}

// SeriesAudit is one series judged by the row rules.
type SeriesAudit struct {
	Key     results.SeriesKey `json:"series"`
	Cases   int               `json:"cases"`
	Flagged []int             `json:"flagged"` // ascending M, anomalous by Audit.RowRule
	Rows    []RowVerdict      `json:"rows,omitempty"`
	// RelativeMFU is true if the peak is unknown and MFU is relative to the fastest row.
	RelativeMFU bool `json:"relative_mfu,omitempty"`
	// Floor is the host's time, the lower limit of small rows' times, or nil.
	Floor *infer.HostFloor `json:"host_floor,omitempty"`
	// Scatter is the scatter of rows with too few samples of their own, or nil.
	Scatter *infer.SeriesScatter `json:"scatter,omitempty"`
	// Inference counts the measured and inferred rows; nil for a series that is measured whole.
	Inference *infer.Inference `json:"inference,omitempty"`
	// Counts counts the rows by verdict if Rows lacks some of them, else nil: see [Audit.WithoutClean].
	Counts *RowCounts `json:"rows_by_verdict,omitempty"`
}

// Audit is the result of the rules on one run.
type Audit struct {
	Schema string `json:"schema"`
	Run    string `json:"run"`
	// Labels are the labels of the run's machine.
	Labels results.Labels `json:"labels,omitempty"`
	// Imported is true for a run that another program measured; it can't be measured again.
	Imported bool `json:"imported,omitempty"`
	// Baseline is the run that findings are compared with; empty without one.
	Baseline string `json:"baseline,omitempty"`
	// Method is "interval" (ours) or "article".
	Method    string  `json:"method"`
	Threshold float64 `json:"threshold"`
	// Along is the dimension that curves were asked to run along; empty for [infer.AlongAuto].
	Along string `json:"along,omitempty"`
	// FDR is the false discovery rate of the family of tests; 0 for the article.
	FDR float64 `json:"fdr,omitempty"`
	// Family describes the tests over which the level holds.
	Family string `json:"family,omitempty"`
	// Drift is the span of the sentinels over the run as a share of the time at the common clock; Corrected
	// is true if times were adjusted by the pace of the blocks nearest in time.
	Drift     float64 `json:"drift,omitempty"`
	Corrected bool    `json:"drift_corrected,omitempty"`
	// Resolution is the smallest loss, as a share of the time, that the run can detect between two typical
	// rows; smaller losses are undecided. 0 if unknown.
	Resolution float64 `json:"resolution,omitempty"`
	// CleanBelow is the upper limit of the losses of clean rows, as a share of their time. It is set if the
	// resolution is coarser than the loss that RowRule allows, which is the limit otherwise.
	CleanBelow float64 `json:"clean_below,omitempty"`
	// Scatter is how samples scatter within their rows and which location is used for them, by device.
	Scatter map[string]infer.Scatter `json:"scatter,omitempty"`
	// Clocks are the clocks in MHz that times were adjusted to, by device.
	Clocks map[string]float64 `json:"clock_mhz,omitempty"`
	Cases  int                `json:"cases"`
	// RowRule is the rule whose verdicts the rows of the series have, and whose anomalous rows are flagged:
	// monotonic, unless that is off.
	RowRule Rule `json:"row_rule,omitempty"`
	// NotApplied are the rules that are on but that Method lacks.
	NotApplied []Rule `json:"not_applied,omitempty"`
	// Flagged is set if the run has exactly one series; otherwise see SeriesAudit.
	Flagged  []int         `json:"flagged,omitzero"`
	Series   []SeriesAudit `json:"series,omitempty"`
	Findings []Finding     `json:"findings"`
	// Marginal, Undecided and Unjudged count the rows with these verdicts.
	Marginal  int `json:"marginal"`
	Undecided int `json:"undecided"`
	Unjudged  int `json:"unjudged"`
	// Tests counts the comparisons behind all verdicts.
	Tests int `json:"-"`
	// Judged counts the rows that each rule that is on could decide.
	Judged []Judged `json:"judged,omitempty"`
	// Inference sums the inference of all series; nil if no row was inferred.
	Inference *infer.Inference `json:"inference,omitempty"`
	// LaunchDiffers are the timed rows whose launch differs from the reported choice or changed during the run, by
	// series and M.
	LaunchDiffers []LaunchDiffers `json:"launch_differs,omitempty"`
	// Fusing says where fusing an epilogue pays, by series, if the rule [Fusion] is on.
	Fusing []Fusing `json:"fusing,omitempty"`
	// Cards compares the cards of the host, if the run has several of a name.
	Cards *cards.Comparison `json:"cards,omitempty"`
	// Invalid is the reason if the whole run can't be judged, because its resolution or the sentinels' drift
	// is beyond the limit; else empty.
	Invalid string `json:"invalid,omitempty"`
	// Order is the warning that verdicts rest on rows measured at other times; empty if they don't, or if
	// some verdicts stand.
	Order    string    `json:"order,omitempty"`
	Warnings []Warning `json:"warnings,omitempty"`
	// Selection is set if Findings are only some of those found: see [Audit.Whole].
	Selection *Selection `json:"selection,omitempty"`

	whole *Audit // the full result of a selection, else nil

	// Losses are the losses of the rows of findings, by the findings' IDs and by M.
	Losses map[string]map[int]stats.Interval `json:"-"`

	// retested are the rows whose verdict changed when they were measured again, for [NewProof].
	retested map[Rule][]SeriesProof
}

// Range is a range of M, both ends included.
type Range struct {
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
}

// Measurer measures cases on the run's device. Package sweep implements it; tests use a table of numbers.
type Measurer interface {
	// Measure takes rounds samples of every request. Requests of one call are interleaved, in a new random
	// order each round. Groups stay together as far as their weights fit into memory together. The result has
	// one slice per request, in order; a case that failed has fewer samples than rounds.
	Measure(ctx context.Context, requests []results.Request, rounds int) ([][]results.Sample, error)
}

// Claim is the short text of the finding: its rule's, about the dimension that the curve runs along.
func (f *Finding) Claim() string {
	return strings.Replace(f.Rule.Claim(), " M ", " "+f.Series.AxisWord()+" ", 1)
}

// Serial reports whether a remedy's launches wait for the end of the one before, as another kernel's do.
func (r Remedy) Serial() bool { return r.Kind == RemedyOther || r.Kind == RemedyAlgorithm }

// Pads reports whether the remedy computes a larger product, see [Remedy.PadTo].
func (k RemedyKind) Pads() bool { return k == RemedyPad || k.PadsWeights() }

// PadsWeights reports whether the remedy needs weights that were padded when the engine loaded them.
func (k RemedyKind) PadsWeights() bool { return k == RemedyPadN || k == RemedyPadK }

// PaddingBytes is the memory that padded weights of a subject need beyond the weights themselves.
func (r Remedy) PaddingBytes(s kernels.Subject) int64 {
	if !r.Kind.PadsWeights() {
		return 0
	}
	return int64(s.StoredBytes(r.PadTo) - s.StoredBytes(r.M))
}

// Case is the case that executes the remedy of a product.
func (r Remedy) Case(direct results.Case) results.Case {
	c := direct
	c.ID, c.Label = 0, ""
	c.Parts, c.PadTo, c.Copied = r.Parts, r.PadTo, r.Pad == table.Copied
	switch {
	case r.Algorithm != (kernels.Algorithm{}):
		c.Kernel = kernels.AlgorithmName(r.Kernel, r.Algorithm)
	case r.Kind == RemedyOther || r.Kind == RemedyAlgorithm:
		c.Kernel = r.Kernel
	}
	return c
}

// Stake is the time that the remedy saves for a row of the given weight: measured if it was executed, else
// predicted.
func (r Remedy) Stake(weight float64) float64 {
	if r.Executed {
		return TimeAtStake(1-1/r.Gain.Mid, r.DirectUS, weight)
	}
	return TimeAtStake(1-r.PredictedUS/r.DirectUS, r.DirectUS, weight)
}

// BaselineState is the state of a finding relative to a baseline, which is an earlier run.
type BaselineState string

// The states. Gates treat a Grown finding as new: its loss surely increased, or most of its rows were not in
// the baseline's finding.
const (
	BaselineNew   BaselineState = "new"
	BaselineKnown BaselineState = "known"
	BaselineGrown BaselineState = "grown"
)

// Judged counts the rows that a rule could decide.
type Judged struct {
	Rule Rule `json:"rule"`
	// Rows counts the rows that the rule was asked about. Decided rows keep or break it, Undecided ones have
	// insufficient samples, and the others have no reference.
	Rows      int `json:"rows"`
	Decided   int `json:"decided"`
	Undecided int `json:"undecided"`
	// Suspectable counts rows compared with borrowed or assumed scatter.
	Suspectable int `json:"suspectable,omitempty"`
	// Named is set if the user asked for the rule by name.
	Named bool `json:"-"`
}

// Compared counts the rows that had a reference.
func (j Judged) Compared() int { return j.Decided + j.Undecided }
