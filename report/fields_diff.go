package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/diff"
)

var caseSeries, caseSeriesFilters = seriesFields(func(c diff.Case) results.SeriesKey { return c.Series })

// CaseFields are the fields of a case that both runs have.
var CaseFields = slices.Concat(field.Of([]field.Field[diff.Case]{
	caseSeries,
	{Name: "m", Head: "m", Kind: field.Count, Where: "m", Words: rowMWords, Value: func(c diff.Case) any { return c.M }},
	{Name: "a_us", Head: "A us", Kind: field.Bounds, Unit: field.Micros, Words: "time of a launch in A at the common clock",
		Value: func(c diff.Case) any { return c.A }},
	{Name: "b_us", Head: "B us", Kind: field.Bounds, Unit: field.Micros, Where: "us", Words: "time of a launch in B at the common clock",
		Value: func(c diff.Case) any { return c.B }},
	{Name: "ratio", Head: "B ÷ A", Kind: field.Bounds, Unit: field.Factor, Where: "ratio", Words: "B's time over A's: above 1 is slower",
		Value: func(c diff.Case) any { return c.Ratio }},
	{Name: "paired", Head: "paired", Kind: field.Count, Where: "paired", Wide: true,
		Words: "rounds with both kernels that the ratio is from; none where it is B ÷ A", Value: func(c diff.Case) any {
			return when(c.Paired > 0, c.Paired)
		}},
	{Name: "p_adjusted", Head: "p adjusted", Unit: field.Probability, Where: "p", Words: pWords,
		Value: func(c diff.Case) any { return c.AdjustedP }},
	{Name: "change", Head: "change", Where: "change", Words: changeWords,
		Value: func(c diff.Case) any { return changeCell(c.Change) }},
	{Name: "scatter", Head: "scatter", Where: "scatter", Wide: true,
		Words: "where the scatter of the ratio comes from, where a side has too few samples for its own: borrowed from the rows around " +
			"it, or assumed", Value: func(c diff.Case) any { return string(c.Scatter) }},
	{Name: "label_a", Head: "label in A", Wide: true, Words: "the library's kernel in A, where it differs",
		Value: func(c diff.Case) any { return code(c.LabelA) }},
	{Name: "label_b", Head: "label in B", Where: "label", Wide: true, Words: "the library's kernel in B, where it differs",
		Value: func(c diff.Case) any { return code(c.LabelB) }},
}), caseSeriesFilters)

const changeWords = "of a case slower, faster, suspected slower, suspected faster, same, marginal or undecided; of a finding new, fixed, " +
	"same or undecided"

// FindingDiffFields are the fields of a finding in two runs. Its description is B's, if B has the finding.
var FindingDiffFields = slices.Concat(field.Of([]field.Field[diff.Finding]{
	{Name: "change", Head: "change", Where: "change", Words: changeWords,
		Value: func(d diff.Finding) any { return changeCell(d.Change) }},
	latestField("rule"),
	latestField("series"),
	{Name: "m_a", Head: "m in A", JSON: "-", Words: "first and last M in A",
		Value: func(d diff.Finding) any { return intervalOf(d.A) }},
	{Name: "m_b", Head: "m in B", JSON: "-", Words: "first and last M in B",
		Value: func(d diff.Finding) any { return intervalOf(d.B) }},
	{Name: "loss_a", Head: "loss in A", Kind: field.Bounds, Unit: field.Share, JSON: "a.loss",
		Words: "share of its time that the worst row loses in A", Value: func(d diff.Finding) any {
			if d.A == nil {
				return nil
			}
			return lossOf(*d.A)
		}},
	{Name: "loss_b", Head: "loss in B", Kind: field.Bounds, Unit: field.Share, JSON: "b.loss",
		Words: "share of its time that the worst row loses in B", Value: func(d diff.Finding) any {
			if d.B == nil {
				return nil
			}
			return lossOf(*d.B)
		}},
	latestField("stake_us"),
	latestField("cause"),
	latestField("status"),
	latestField("reproduce"),
}), latestFields(field.Filters(field.Pick(FindingFields, "from_m", "to_m", "rows", "worst_m", "loss", "p_adjusted", "gain", "id",
	"baseline", "remedy_kind", "remedy_executed", "remedy_pays"))), latestFields(findingSeriesFilters))

// latestField is a field of B's finding, else of A's.
func latestField(name string) field.Field[diff.Finding] {
	return latestFields(field.Pick(FindingFields, name))[0]
}

func latestFields(fields []field.Field[FindingRecord]) []field.Field[diff.Finding] {
	return field.Within("b", field.Via(fields, func(d diff.Finding) (FindingRecord, bool) {
		if f := latest(d); f != nil {
			return FindingRecord{Finding: *f}, true
		}
		return FindingRecord{}, false
	}))
}

func latest(d diff.Finding) *rules.Finding {
	if d.B != nil {
		return d.B
	}
	return d.A
}

func intervalOf(f *rules.Finding) any {
	if f == nil {
		return nil
	}
	return extentText(f.Series, f.FromM, f.ToM)
}

func caseSheet(cases []diff.Case) Sheet { return sheetOf("", CaseFields, cases) }

func findingDiffSheet(findings []diff.Finding) Sheet {
	findings = slices.DeleteFunc(slices.Clone(findings), func(d diff.Finding) bool { return latest(d) == nil })
	return sheetOf("", FindingDiffFields, findings)
}
