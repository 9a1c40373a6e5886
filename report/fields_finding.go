package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

// FindingRecord is a finding with the data from its audit.
type FindingRecord struct {
	rules.Finding
	// Worst is the row with the largest loss; nil if the audit does not list it.
	Worst *rules.RowVerdict `json:"-"`
	// Untested means that the audit's method makes no tests. Imported means that the run was taken elsewhere,
	// so commands that measure again are omitted.
	Untested bool `json:"-"`
	Imported bool `json:"-"`
}

// FindingRecords returns a function that makes records of an audit's findings.
func FindingRecords(a *rules.Audit) func(rules.Finding) FindingRecord {
	series := make(map[results.SeriesKey][]rules.RowVerdict, len(a.Series))
	for _, s := range a.Series {
		series[s.Key] = s.Rows
	}
	return func(f rules.Finding) FindingRecord {
		r := FindingRecord{Finding: f, Untested: a.Method == rules.MethodArticle}
		rows := series[f.Series]
		if i, ok := slices.BinarySearchFunc(rows, f.WorstM, func(r rules.RowVerdict, m int) int { return r.M - m }); ok {
			r.Worst = &rows[i]
		}
		return r
	}
}

const (
	pWords           = "adjusted p-value"
	gainWords        = "direct time over the remedy's, measured where it was executed, else predicted"
	remedyWords      = "kind of the remedy: split, pad, kernel or algorithm"
	executedWords    = "the remedy was executed"
	paysWords        = "the remedy was executed and pays"
	mfuWords         = "share of the peak that is reached, 0.5 for half"
	clockWords       = "clock of the device"
	labelWords       = "the library's kernel or algorithm, where it is known"
	verdictWords     = "anomalous, clean, marginal or undecided"
	samplesWords     = "samples of a row"
	judgedUSWords    = "time of a launch at the common clock; of a finding in its worst row"
	rowMWords        = "the M of a row"
	seriesWords      = "device, kernel, data type and dimensions"
	reasonWords      = "reason of the verdict"
	cardWords        = "UUID or serial number of the card"
	observedWords    = "time of a launch as it was observed"
	identityWords    = "the series, without what names the run"
	firstRunWords    = "the first run at the new level"
	firstDayWords    = "the day of the first run at the new level"
	throttledWords   = "share of throttled samples"
	hostDeviceWords  = "its device on the host, as cuda:0"
	slowKindWords    = "in which way it is slow"
	cardVerdictWords = "drain, watch, fine, undecided or unjudged"
	reproduceWords   = "the command that measures it again"
)

var findingColumns = field.Of([]field.Field[FindingRecord]{
	{Name: "status", Head: "status", Keep: true, Where: "status", Words: "confirmed, unconfirmed or waived",
		Value: func(f FindingRecord) any { return statusCell(f.Finding) }},
	{Name: "rule", Head: "rule", Keep: true, Where: "rule", Words: "the rule that is broken",
		Value: func(f FindingRecord) any { return string(f.Rule) }},
	findingSeries,
	{Name: "interval", Head: "m", JSON: "-", Words: "first and last M",
		Value: func(f FindingRecord) any { return extentText(f.Series, f.FromM, f.ToM) }},
	{Name: "from_m", Head: "from", Kind: field.Count, Where: "from_m", Wide: true, Words: "first M of a finding",
		Value: func(f FindingRecord) any { return f.FromM }},
	{Name: "to_m", Head: "to", Kind: field.Count, Where: "to_m", Wide: true, Words: "last M of a finding",
		Value: func(f FindingRecord) any { return f.ToM }},
	{Name: "rows", Head: "rows", Kind: field.Count, Where: "rows", Words: "rows of a finding",
		Value: func(f FindingRecord) any { return f.Rows }},
	{Name: "worst_m", Head: "worst m", Kind: field.Count, Where: "m", Words: "the M of the row that loses most",
		Value: func(f FindingRecord) any { return f.WorstM }},
	{Name: "loss", Head: "loss", Keep: true, Kind: field.Bounds, Unit: field.Share, Where: "loss",
		Words: "share of its time that the worst row loses, 0.1 for a tenth",
		Value: func(f FindingRecord) any { return lossOf(f.Finding) }},
	{Name: "stake_us", Head: "stake us", Unit: field.Micros, Where: "stake", Words: "time at stake: loss times time, over all rows",
		Value: func(f FindingRecord) any { return stake(f.StakeUS) }},
	{Name: "p_adjusted", Head: "p adjusted", Unit: field.Probability, Where: "p", Wide: true, Words: pWords,
		Value: func(f FindingRecord) any { return when(!f.Untested, f.AdjustedP) }},
	{Name: "cause", Head: "cause", Keep: true, Where: "cause", Words: "why it is slow",
		Value: func(f FindingRecord) any { return findingCause(f.Finding) }},
	{Name: "remedy", Head: "remedy", JSON: "-", Words: "what to do instead", Value: func(f FindingRecord) any {
		if f.Remedy == nil {
			return nil
		}
		return remedyText(*f.Remedy)
	}},
	{Name: "gain", Head: "gain", Keep: true, Kind: field.Bounds, Unit: field.Factor, Where: "gain", JSON: "remedy.gain", Words: gainWords,
		Value: func(f FindingRecord) any {
			if f.Remedy == nil {
				return nil
			}
			return gainOf(*f.Remedy)
		}},
	{Name: "explanation", Head: "explanation", Wide: true, Flex: true, Words: "the numbers that the cause rests on",
		Value: func(f FindingRecord) any { return f.Explanation }},
	{Name: "excluded", Head: "excluded", Wide: true, Flex: true, JSON: "-", Words: "excluded causes",
		Value: func(f FindingRecord) any { return excludedCell(f.Finding) }},
	{Name: "waiver", Head: "waiver", Wide: true, Flex: true, Words: "the reason that the rules file gives for waiving it",
		Value: func(f FindingRecord) any { return f.Waiver }},
	{Name: "id", Head: "id", Where: "id", Wide: true, Words: "the finding's id, the same in runs of the same series",
		Value: func(f FindingRecord) any { return f.ID }},
	{Name: "reproduce", Head: "reproduce", Wide: true, Words: reproduceWords,
		Value: func(f FindingRecord) any { return when(!f.Imported, code(f.Reproduce)) }},
	{Name: "baseline", Where: "baseline", Words: "new, known or grown against the baseline; empty without one",
		Value: func(f FindingRecord) any { return string(f.Baseline) }},
})

var findingSeries, findingSeriesFilters = seriesFields(func(f FindingRecord) results.SeriesKey { return f.Series })

// FindingFields are the fields of a finding, its worst row and its remedy.
var FindingFields = slices.Concat(
	insertBefore(findingColumns, "stake_us",
		field.Via(findingSustained, func(f FindingRecord) (*rules.Sustained, bool) { return f.Sustained, f.Sustained != nil })),
	findingSeriesFilters,
	field.Via(worstRowFilters, func(f FindingRecord) (*rules.RowVerdict, bool) { return f.Worst, f.Worst != nil }),
	field.Within("remedy", field.Via(remedyFilters, func(f FindingRecord) (*rules.Remedy, bool) { return f.Remedy, f.Remedy != nil })),
)

var worstRowFilters = field.Of([]field.Field[*rules.RowVerdict]{
	{Name: "worst_us", Unit: field.Micros, Where: "us", NoColumn: true, JSON: "-", Words: judgedUSWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.US.Mid) }},
	{Name: "worst_mfu", Unit: field.Share, Where: "mfu", NoColumn: true, JSON: "-", Words: mfuWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.MFU.Mid) }},
	{Name: "worst_clock_mhz", Unit: field.MHz, Where: "clock", NoColumn: true, JSON: "-", Words: clockWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.ClockMHz) }},
	{Name: "worst_label", Where: "label", NoColumn: true, JSON: "-", Words: labelWords,
		Value: func(r *rules.RowVerdict) any { return r.Label }},
	{Name: "worst_verdict", Where: "verdict", NoColumn: true, JSON: "-", Words: verdictWords,
		Value: func(r *rules.RowVerdict) any { return string(r.Verdict) }},
	{Name: "worst_samples", Kind: field.Count, Where: "samples", NoColumn: true, JSON: "-", Words: samplesWords,
		Value: func(r *rules.RowVerdict) any { return r.Samples }},
})

var remedyFilters = field.Of([]field.Field[*rules.Remedy]{
	{Name: "remedy_kind", Where: "remedy", NoColumn: true, JSON: "kind", Words: remedyWords,
		Value: func(r *rules.Remedy) any { return string(r.Kind) }},
	{Name: "remedy_executed", Kind: field.Flag, Where: "executed", NoColumn: true, JSON: "executed", Words: executedWords,
		Value: func(r *rules.Remedy) any { return r.Executed }},
	{Name: "remedy_pays", Kind: field.Flag, Where: "pays", NoColumn: true, JSON: "pays", Words: paysWords,
		Value: func(r *rules.Remedy) any { return r.Pays }},
})

func insertBefore[T any](fields []field.Field[T], name string, more []field.Field[T]) []field.Field[T] {
	at := slices.IndexFunc(fields, func(f field.Field[T]) bool { return f.Name == name })
	return slices.Insert(slices.Clone(fields), at, more...)
}

// FindingSheet is the table of an audit's findings. Imported runs have no commands that measure again,
// because they were taken on another machine.
func FindingSheet(meta results.Meta, a *rules.Audit) Sheet {
	of := FindingRecords(a)
	records := make([]FindingRecord, len(a.Findings))
	for i, f := range a.Findings {
		records[i] = of(f)
		records[i].Imported = meta.Source != ""
	}
	sheet := sustainedSheet("loss", "loss at one clock", FindingFields, records, func(f FindingRecord) bool { return f.Sustained != nil })
	nameAxis(&sheet, axisOf(a.Findings, func(f rules.Finding) results.SeriesKey { return f.Series }))
	return sheet
}

// lossOf is the share of time that a finding loses, nil for a finding that is implausibly fast.
func lossOf(f rules.Finding) any {
	if f.Cause == cause.MeasurementError {
		return nil
	}
	return f.Loss
}

func lossCell(f rules.Finding) any { return cellOf(field.Share, lossOf(f)) }

// statusCell is the status of a finding; tables add its state in the baseline. It is faint if the baseline has
// the finding.
func statusCell(f rules.Finding) Cell {
	c := shown{string(f.Status), string(f.Status), Open}
	if f.Baseline != "" {
		c.text += ", " + string(f.Baseline)
	}
	switch {
	case f.Status == rules.Waived, f.Baseline == rules.BaselineKnown:
		c.tone = Faint
	case f.Status == rules.Confirmed:
		c.tone = Bad
	}
	return c
}
