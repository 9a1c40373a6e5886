package diff

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of DiffResult.Schema.
const Schema = "gemmaudit.diff/1"

// Result compares run B with run A, which is the earlier one or the baseline.
type Result struct {
	Schema string `json:"schema"`
	A      string `json:"a"`
	B      string `json:"b"`
	// Run is the run that A and B, two of its kernels, belong to; empty for two runs.
	Run string `json:"run,omitempty"`
	// Factors are the conditions that differ between the runs.
	Factors []results.FactorDiff `json:"factors"`
	// Confounded lists the factors if several differ: then a change can't be attributed to a single factor.
	// Empty otherwise.
	Confounded string `json:"confounded,omitempty"`
	// Threshold is the least relative change of a case's time that counts, StretchThreshold for neighboring M
	// together, SeriesThreshold for a whole series.
	Threshold        float64 `json:"threshold"`
	StretchThreshold float64 `json:"stretch_threshold"`
	SeriesThreshold  float64 `json:"series_threshold"`
	FDR              float64 `json:"fdr"`
	Family           string  `json:"family"`
	// Clocks are the common clocks of both runs' times in MHz, by device of B.
	Clocks map[string]float64 `json:"clock_mhz,omitempty"`
	// BetweenRuns is the standard deviation of cases between runs beyond the errors of the samples, as a
	// share of the time. Every interval includes it.
	BetweenRuns float64 `json:"between_runs"`
	// BetweenProcesses is the assumed standard deviation of a whole series between processes, as a share of
	// the time. Intervals of series include it. Intervals of stretches don't, because a stretch is compared
	// with its series.
	BetweenProcesses float64 `json:"between_processes,omitempty"`
	// DisturbedA and DisturbedB count the disturbed samples of the runs, both zero if there are none.
	// Disturbance is the reason why no time is compared; empty if times are compared.
	DisturbedA  Disturbed `json:"disturbed_a,omitzero"`
	DisturbedB  Disturbed `json:"disturbed_b,omitzero"`
	Disturbance string    `json:"disturbance,omitempty"`
	Cases       []Case    `json:"cases"` // of both runs, series by series
	OnlyA       int       `json:"only_a"`
	OnlyB       int       `json:"only_b"`
	// Lost counts the cases that one run measured and the other has without a valid sample: it failed, or all
	// of its samples are excluded.
	Lost int `json:"lost,omitempty"`
	// Losses are the cases that A measured and B could not.
	Losses outcome.Losses `json:"losses,omitzero"`
	// Series has the geometric mean of B's time over A's for each series, Geomean over all cases with enough
	// samples, GeomeanOverRows over all cases: see [Series].
	Series          []Series       `json:"series"`
	Geomean         stats.Interval `json:"geomean,omitzero"`
	GeomeanOverRows stats.Interval `json:"geomean_over_rows,omitzero"`
	// Bands are by data type and range of M, for two kernels of one run.
	Bands    []Band    `json:"bands,omitempty"`
	Findings []Finding `json:"findings"`
	// Slower, Faster, Same and Undecided count cases. SuspectedSlower and SuspectedFaster are included in
	// Undecided.
	SuspectedSlower int `json:"suspected_slower,omitempty"`
	SuspectedFaster int `json:"suspected_faster,omitempty"`
	Slower          int `json:"slower"`
	Faster          int `json:"faster"`
	Same            int `json:"same"`
	Undecided       int `json:"undecided"`
	// Gate is true if the gate fails: a case, a stretch of M or a whole series is surely slower than its
	// threshold allows.
	Gate bool `json:"gate_failed"`
	// SlowerSeries and SlowerStretches count slower series and stretches.
	SlowerSeries    int `json:"slower_series"`
	SlowerStretches int `json:"slower_stretches"`
	// Invalid is the reason if one of the runs can't be judged.
	Invalid  string          `json:"invalid,omitempty"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
	// Selection is set if Cases and Findings are only some of those compared: see [Result.Whole].
	Selection *rules.Selection `json:"selection,omitempty"`

	whole *Result // the full result of a selection, else nil
}

// Case is one case in both runs.
type Case struct {
	Series results.SeriesKey `json:"series"` // as in B
	M      int               `json:"m"`
	A      stats.Interval    `json:"a_us"`
	B      stats.Interval    `json:"b_us"`
	// Ratio is B's time over A's: above 1 is slower.
	Ratio stats.Interval `json:"ratio"`
	// Paired is the number of rounds with both kernels of one run that Ratio is from; 0 if it is B ÷ A, as always
	// for two runs.
	Paired    int         `json:"paired,omitempty"`
	P         float64     `json:"p"`
	AdjustedP float64     `json:"p_adjusted"`
	Change    change.Kind `json:"change"`
	// Scatter is the source of the ratio's scatter if a side has too few samples of its own; else empty.
	Scatter infer.ScatterOrigin `json:"scatter,omitempty"`
	// LabelA and LabelB are the library's kernels, if they differ.
	LabelA string `json:"label_a,omitempty"`
	LabelB string `json:"label_b,omitempty"`
}

// Series is one series in both runs.
type Series struct {
	Series results.SeriesKey `json:"series"`
	// InA is A's key of the series; its device or kernel may differ.
	InA   results.SeriesKey `json:"-"`
	Cases int               `json:"cases"`
	// Ratio is the geometric mean of B's time over A's, of the cases with enough samples; zero if there are
	// none. Its interval covers measurement error only: the rows are taken as given.
	Ratio stats.Interval `json:"ratio,omitzero"`
	// OverRows is the geometric mean over all cases. Its interval is by Student's t over the rows, as a sample of shapes.
	OverRows stats.Interval `json:"ratio_over_rows"`
	Slower   int            `json:"slower"`
	Faster   int            `json:"faster"`
	// Suspected counts the cases that are suspected to be slower or faster.
	Suspected int `json:"suspected,omitempty"`
	// Change is the verdict of Ratio on the whole series, or without a Ratio a suspected change by OverRows.
	Change change.Kind `json:"change"`
	// Stretches are runs of neighboring M that are surely slower together, though few of them are on their
	// own.
	Stretches []Stretch `json:"stretches,omitempty"`
}

// Stretch is neighboring rows of one series that became slower together.
type Stretch struct {
	FromM int            `json:"from_m"`
	ToM   int            `json:"to_m"`
	Cases int            `json:"cases"`
	Ratio stats.Interval `json:"ratio"` // geometric mean of B's time over A's
}

// Finding is a finding of either run and the other run's result there.
type Finding struct {
	Change change.Kind    `json:"change"`
	A      *rules.Finding `json:"a,omitempty"`
	B      *rules.Finding `json:"b,omitempty"`
}

func newDiff(a, b string, cfg rules.Config) *Result {
	return &Result{Schema: Schema, A: a, B: b, Threshold: cfg.Diff.Threshold, StretchThreshold: cfg.Diff.Stretch,
		SeriesThreshold: cfg.Diff.Series, FDR: cfg.FDR,
		Factors: []results.FactorDiff{}, Cases: []Case{}, Series: []Series{}, Findings: []Finding{}}
}

func (d *Result) gate() {
	for _, s := range d.Series {
		d.SlowerStretches += len(s.Stretches)
		if s.Change == change.Slower {
			d.SlowerSeries++
		}
	}
	d.Gate = d.Invalid == "" && d.Slower+d.SlowerStretches+d.SlowerSeries > 0
}

// Showing returns a comparison that lists the given cases and findings, and shares all other data with d.
func (d *Result) Showing(cases []Case, findings []Finding, s *rules.Selection) *Result {
	out := *d
	out.Cases, out.Findings, out.Selection, out.whole = cases, findings, s, d.Whole()
	return &out
}

// Whole is the comparison with all cases and findings: d itself, unless it lists a selection.
func (d *Result) Whole() *Result {
	if d.whole != nil {
		return d.whole
	}
	return d
}

// Marginal counts the cases at the threshold.
func (d *Result) Marginal() int {
	n := 0
	for _, c := range d.Cases {
		if c.Change == change.AtThreshold {
			n++
		}
	}
	return n
}

// UndecidedHint says what to do about undecided cases.
func (d *Result) UndecidedHint() string {
	for _, c := range d.Whole().Cases {
		if c.Scatter != "" {
			return FewSamplesHint
		}
	}
	return "use more --rounds in both runs, or a larger --threshold"
}

// SuspectsSlower reports whether a case or a whole series is suspected to be slower.
func (d *Result) SuspectsSlower() bool {
	return d.SuspectedSlower > 0 || slices.ContainsFunc(d.Series, func(s Series) bool { return s.Change == change.SuspectedSlower })
}
