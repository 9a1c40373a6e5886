package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

// FindingRecord is a finding with the audit's view of it.
type FindingRecord struct {
	rules.Finding
	// Worst is the row that loses most; nil where the audit does not list it.
	Worst *rules.RowVerdict `json:"-"`
	// Untested says that the audit's method makes no tests, and Imported that the run was taken elsewhere,
	// so that commands which would measure again are left out.
	Untested bool `json:"-"`
	Imported bool `json:"-"`
}

// FindingRecords returns how findings of an audit are made records of.
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

// The words of fields that several records have.
const (
	pWords         = "adjusted p-value"
	gainWords      = "direct time over the remedy's, measured where it was executed, else predicted"
	remedyWords    = "kind of the remedy: split, pad, kernel or algorithm"
	executedWords  = "the remedy was executed"
	paysWords      = "the remedy was executed and pays"
	mfuWords       = "share of the peak that is reached, 0.5 for half"
	clockWords     = "clock of the device"
	labelWords     = "the library's kernel or algorithm, where it is known"
	verdictWords   = "anomalous, clean, marginal or undecided"
	samplesWords   = "samples of a row"
	judgedUSWords  = "time of a launch at the common clock; of a finding in its worst row"
	reproduceWords = "the command that measures it again"
)

// findingColumns are the facts of a finding itself.
var findingColumns = []field.Field[FindingRecord]{
	{Name: "status", Head: "status", Kind: field.Text, Where: "status",
		Words: "confirmed, unconfirmed or waived",
		Value: func(f FindingRecord) any { return statusCell(f.Finding) }},
	{Name: "rule", Head: "rule", Kind: field.Text, Where: "rule",
		Words: "the rule that is broken",
		Value: func(f FindingRecord) any { return string(f.Rule) }},
	findingSeries,
	{Name: "interval", Head: "m", Kind: field.Text, JSON: "-",
		Words: "first and last M",
		Value: func(f FindingRecord) any { return intervalText(f.FromM, f.ToM) }},
	{Name: "from_m", Head: "from", Kind: field.Count, Where: "from_m", Wide: true,
		Words: "first M of a finding",
		Value: func(f FindingRecord) any { return f.FromM }},
	{Name: "to_m", Head: "to", Kind: field.Count, Where: "to_m", Wide: true,
		Words: "last M of a finding",
		Value: func(f FindingRecord) any { return f.ToM }},
	{Name: "rows", Head: "rows", Kind: field.Count, Where: "rows",
		Words: "rows of a finding",
		Value: func(f FindingRecord) any { return f.Rows }},
	{Name: "worst_m", Head: "worst m", Kind: field.Count, Where: "m",
		Words: "the M of the row that loses most",
		Value: func(f FindingRecord) any { return f.WorstM }},
	{Name: "loss", Head: "loss", Kind: field.Bounds, Unit: field.Share, Where: "loss",
		Words: "share of its time that the worst row loses, 0.1 for a tenth",
		Value: func(f FindingRecord) any { return lossOf(f.Finding) }},
	{Name: "stake_us", Head: "stake us", Kind: field.Number, Unit: field.Micros, Where: "stake",
		Words: "time at stake: loss times time, over all rows",
		Value: func(f FindingRecord) any { return stake(f.StakeUS) }},
	{Name: "p_adjusted", Head: "p adjusted", Kind: field.Number, Unit: field.Probability, Where: "p", Wide: true,
		Words: pWords,
		Value: func(f FindingRecord) any {
			if f.Untested {
				return nil
			}
			return f.AdjustedP
		}},
	{Name: "cause", Head: "cause", Kind: field.Text, Where: "cause",
		Words: "why it is slow",
		Value: func(f FindingRecord) any { return findingCause(f.Finding) }},
	{Name: "remedy", Head: "remedy", Kind: field.Text, JSON: "-",
		Words: "what to do instead",
		Value: func(f FindingRecord) any {
			if f.Remedy == nil {
				return nil
			}
			return remedyText(*f.Remedy)
		}},
	{Name: "gain", Head: "gain", Kind: field.Bounds, Unit: field.Factor, Where: "gain", JSON: "remedy.gain",
		Words: gainWords,
		Value: func(f FindingRecord) any {
			if f.Remedy == nil {
				return nil
			}
			return gainOf(*f.Remedy)
		}},
	{Name: "explanation", Head: "explanation", Kind: field.Text, Wide: true, Flex: true,
		Words: "the numbers that the cause rests on",
		Value: func(f FindingRecord) any { return f.Explanation }},
	{Name: "excluded", Head: "excluded", Kind: field.Text, Wide: true, Flex: true, JSON: "-",
		Words: "causes that were looked at before and are none",
		Value: func(f FindingRecord) any { return excludedCell(f.Finding) }},
	{Name: "waiver", Head: "waiver", Kind: field.Text, Wide: true, Flex: true,
		Words: "the reason that the rules file gives for waiving it",
		Value: func(f FindingRecord) any { return f.Waiver }},
	{Name: "id", Head: "id", Kind: field.Text, Where: "id", Wide: true,
		Words: "the finding's id, the same in runs of the same series",
		Value: func(f FindingRecord) any { return f.ID }},
	{Name: "reproduce", Head: "reproduce", Kind: field.Text, Wide: true,
		Words: reproduceWords,
		Value: func(f FindingRecord) any {
			if f.Imported {
				return nil
			}
			return code(f.Reproduce)
		}},
	{Name: "baseline", Kind: field.Text, Where: "baseline",
		Words: "new, known or grown against the baseline; empty without one",
		Value: func(f FindingRecord) any { return string(f.Baseline) }},
}

var findingSeries, findingSeriesFilters = seriesFields(func(f FindingRecord) results.SeriesKey { return f.Series })

// FindingFields are the facts of a finding, of its worst row and of its remedy.
var FindingFields = slices.Concat(
	insertBefore(findingColumns, "stake_us", field.Via(findingSustained, func(f FindingRecord) (*rules.Sustained, bool) { return f.Sustained, f.Sustained != nil })),
	findingSeriesFilters,
	field.Via(worstRowFilters, func(f FindingRecord) (*rules.RowVerdict, bool) { return f.Worst, f.Worst != nil }),
	field.Within("remedy", field.Via(remedyFilters, func(f FindingRecord) (*rules.Remedy, bool) { return f.Remedy, f.Remedy != nil })),
)

// worstRowFilters are the facts of a judged row by which its finding is filtered.
var worstRowFilters = []field.Field[*rules.RowVerdict]{
	{Name: "worst_us", Kind: field.Number, Unit: field.Micros, Where: "us", NoColumn: true, JSON: "-",
		Words: judgedUSWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.US.Mid) }},
	{Name: "worst_mfu", Kind: field.Number, Unit: field.Share, Where: "mfu", NoColumn: true, JSON: "-",
		Words: mfuWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.MFU.Mid) }},
	{Name: "worst_clock_mhz", Kind: field.Number, Unit: field.MHz, Where: "clock", NoColumn: true, JSON: "-",
		Words: clockWords,
		Value: func(r *rules.RowVerdict) any { return unlessNone(r.ClockMHz) }},
	{Name: "worst_label", Kind: field.Text, Where: "label", NoColumn: true, JSON: "-",
		Words: labelWords,
		Value: func(r *rules.RowVerdict) any { return r.Label }},
	{Name: "worst_verdict", Kind: field.Text, Where: "verdict", NoColumn: true, JSON: "-",
		Words: verdictWords,
		Value: func(r *rules.RowVerdict) any { return string(r.Verdict) }},
	{Name: "worst_samples", Kind: field.Count, Where: "samples", NoColumn: true, JSON: "-",
		Words: samplesWords,
		Value: func(r *rules.RowVerdict) any { return r.Samples }},
}

// remedyFilters are the facts of a remedy by which its finding is filtered.
var remedyFilters = []field.Field[*rules.Remedy]{
	{Name: "remedy_kind", Kind: field.Text, Where: "remedy", NoColumn: true, JSON: "kind",
		Words: remedyWords,
		Value: func(r *rules.Remedy) any { return string(r.Kind) }},
	{Name: "remedy_executed", Kind: field.Flag, Where: "executed", NoColumn: true, JSON: "executed",
		Words: executedWords,
		Value: func(r *rules.Remedy) any { return r.Executed }},
	{Name: "remedy_pays", Kind: field.Flag, Where: "pays", NoColumn: true, JSON: "pays",
		Words: paysWords,
		Value: func(r *rules.Remedy) any { return r.Pays }},
}

// insertBefore puts fields before that of a name.
func insertBefore[T any](fields []field.Field[T], name string, more []field.Field[T]) []field.Field[T] {
	at := slices.IndexFunc(fields, func(f field.Field[T]) bool { return f.Name == name })
	return slices.Insert(slices.Clone(fields), at, more...)
}

// FindingSheet is the table of an audit's findings. Commands that would measure
// again are left out of a run that was imported: here is not where it was taken.
func FindingSheet(meta results.Meta, a *rules.Audit) Sheet {
	of := FindingRecords(a)
	records := make([]FindingRecord, len(a.Findings))
	for i, f := range a.Findings {
		records[i] = of(f)
		records[i].Imported = meta.Source != ""
	}
	return sustainedSheet("loss", "loss at one clock", FindingFields, records, func(f FindingRecord) bool { return f.Sustained != nil })
}

// lossOf is the share of time that a finding loses: nothing where it is faster than
// can be.
func lossOf(f rules.Finding) any {
	if f.Cause == rules.MeasurementError {
		return nil
	}
	return f.Loss
}

// lossCell is [lossOf] as tables show it.
func lossCell(f rules.Finding) any { return cellOf(field.Bounds, field.Share, lossOf(f)) }

// stake is time at stake in microseconds. Tables leave a cell empty where there is none.
type stake float64

func (s stake) Text() string {
	if s <= 0 {
		return ""
	}
	return micros(s).Text()
}
func (s stake) Raw() any { return micros(s).Raw() }

// statusCell is the status of a finding; tables add what the baseline says of it.
type statusCell rules.Finding

func (f statusCell) Text() string {
	if f.Baseline != "" {
		return string(f.Status) + ", " + string(f.Baseline)
	}
	return string(f.Status)
}
func (f statusCell) Raw() any { return string(f.Status) }

// Tone is that of the status, and faint where the baseline knows the finding.
func (f statusCell) Tone() Tone {
	switch {
	case f.Status == rules.Waived, f.Baseline == rules.BaselineKnown:
		return Faint
	case f.Status == rules.Confirmed:
		return Bad
	}
	return Open
}
