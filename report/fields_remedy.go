package report

import (
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

var remedySeries, remedySeriesFilters = seriesFields(func(r remedy.Row) results.SeriesKey { return r.Series })

var remedyColumns = field.Of([]field.Field[remedy.Row]{
	remedySeries,
	{Name: "m", Head: "m", Keep: true, Kind: field.Count, Where: "m", Words: rowMWords, Value: func(r remedy.Row) any { return r.M }},
	{Name: "kind", Head: "kind", Where: "remedy", Wide: true, Words: remedyWords,
		Value: func(r remedy.Row) any { return string(r.Kind) }},
	{Name: "remedy", Head: "remedy", Keep: true, JSON: "-", Words: "what to do instead",
		Value: func(r remedy.Row) any { return remedyText(r.Remedy) }},
	{Name: "direct_us", Head: "direct us", Keep: true, Unit: field.Micros, Where: "us", Words: "time of a launch of the direct product",
		Value: func(r remedy.Row) any { return r.DirectUS }},
	{Name: "predicted_us", Head: "predicted us", Unit: field.Micros, Words: "time of the remedy as the run predicts it",
		Value: func(r remedy.Row) any { return r.PredictedUS }},
	{Name: "executed_us", Head: "executed us", Keep: true, Kind: field.Bounds, Unit: field.Micros,
		Words: "time of the remedy as it was measured", Value: func(r remedy.Row) any { return when(r.Executed, r.ExecutedUS) }},
	{Name: "gain", Head: "gain", Keep: true, Kind: field.Bounds, Unit: field.Factor, Where: "gain", Words: gainWords,
		Value: func(r remedy.Row) any { return gainOf(r.Remedy) }},
	{Name: "stake_us", Head: "saved us", Unit: field.Micros, Where: "stake", Words: "the time that a remedy saves, over all rows",
		Value: func(r remedy.Row) any { return stake(r.StakeUS) }},
	{Name: "pays", Head: "pays", Keep: true, Kind: field.Flag, Where: "pays", Words: paysWords,
		Value: func(r remedy.Row) any { return paysCell(r.Remedy) }},
	{Name: "p_adjusted", Head: "adjusted p", Unit: field.Probability, Where: "p", Words: pWords,
		Value: func(r remedy.Row) any { return unlessNone(r.AdjustedP) }},
	{Name: "sweep_us", Head: "direct us in the sweep", Unit: field.Micros, Wide: true, Words: "time of the direct product in the run",
		Value: func(r remedy.Row) any { return unlessNone(r.SweepUS) }},
})

var remedyNumerics = field.Of([]field.Field[*results.Numerics]{
	{Name: "remedy_error", Head: "error", Unit: field.Error, Wide: true, Words: "relative error of the remedy's result"},
	{Name: "direct_error", Head: "direct error", Unit: field.Error, Wide: true, Words: "relative error of the direct product's result"},
	{Name: "same_bits", Head: "same bits", Kind: field.Flag, Wide: true, Words: "the remedy's result has the bits of the direct product's",
		Value: func(n *results.Numerics) any { return yesNo(n.SameBits) }},
	{Name: "batch_invariant", Head: "batch-invariant", Kind: field.Flag, Wide: true,
		Words: "the remedy's result has the same bits at other Ms",
		Value: func(n *results.Numerics) any { return yesNo(n.BatchInvariant) }},
})

// RemedyFields are the fields of a remedy, its result and its series.
var RemedyFields = slices.Concat(
	insertBefore(remedyColumns, "stake_us",
		field.Via(remedySustained, func(r remedy.Row) (*rules.Sustained, bool) { return r.Sustained, r.Sustained != nil })),
	field.Within("numerics", field.Via(remedyNumerics, func(r remedy.Row) (*results.Numerics, bool) {
		return r.Numerics, r.Numerics != nil && r.Numerics.Failed == ""
	})),
	field.Of([]field.Field[remedy.Row]{
		{Name: "executed", Kind: field.Flag, Where: "executed", Words: executedWords,
			Value: func(r remedy.Row) any { return r.Executed }},
		{Name: "unsteady", Kind: field.Flag, Where: "unsteady", Words: "undecided, because other load slowed the direct product",
			Value: func(r remedy.Row) any { return r.Unsteady }},
	}),
	remedySeriesFilters,
)

// SplitSheet is the table of remedies.
func SplitSheet(rows []remedy.Row) Sheet {
	sheet := sustainedSheet("", "", RemedyFields, rows, func(r remedy.Row) bool { return r.Sustained != nil })
	nameAxis(&sheet, axisOf(rows, func(r remedy.Row) results.SeriesKey { return r.Series }))
	return sheet
}

// paysCell reports whether a remedy pays; tables add the reason if not.
func paysCell(r rules.Remedy) Cell {
	c := shown{"no", r.Pays, Faint}
	switch {
	case !r.Executed:
		c.text = "not executed"
	case r.Pays:
		c.text, c.tone = "yes", Good
	case r.Unsteady:
		c.text = "unsteady"
	case r.Numerics != nil && (r.Numerics.Failed != "" || r.Numerics.Wrong > 0):
		c.text = "wrong result"
	}
	return c
}

func yesNo(yes bool) Cell {
	if yes {
		return shown{"yes", yes, Neutral}
	}
	return shown{"no", yes, Faint}
}

var stretchSeries, _ = seriesFields(func(s remedy.Stretch) results.SeriesKey { return s.Series })

// StretchFields are the fields of a stretch. Filters use its row with the smallest gain, and its saving.
var StretchFields = slices.Concat(field.Of([]field.Field[remedy.Stretch]{
	stretchSeries,
	{Name: "interval", Head: "m", JSON: "-", Words: "sizes that the remedy covers",
		Value: func(s remedy.Stretch) any { return coveredText(s) }},
	{Name: "from_m", Head: "from", Kind: field.Count, Wide: true, Words: "first M", Value: func(s remedy.Stretch) any { return s.FromM }},
	{Name: "to_m", Head: "to", Kind: field.Count, Wide: true, Words: "last M", Value: func(s remedy.Stretch) any { return s.ToM }},
	{Name: "remedy", Head: "remedy", Keep: true, JSON: "-", Words: "what to do instead", Value: func(s remedy.Stretch) any {
		text := remedyText(rules.Remedy{Kind: s.Kind, Parts: s.Fixed, PadTo: s.PadTo, Pad: s.Pad, Kernel: s.Kernel,
			Algorithm: s.Algorithm})
		if s.Kind == rules.RemedySplit {
			text = strings.TrimPrefix(text+"+rest", "+")
		}
		return text
	}},
	{Name: "proofs", Head: "proven at m", JSON: "-", Words: "sizes where the remedy was executed", Value: func(s remedy.Stretch) any {
		var at []int
		for _, p := range s.Proofs {
			at = append(at, p.M)
		}
		return results.JoinInts(at, " ")
	}},
	{Name: "gain", Head: "least gain", Keep: true, Kind: field.Bounds, Unit: field.Factor, JSON: "-",
		Words: "the gain of the row that gains least", Value: func(s remedy.Stretch) any {
			if least, ok := leastOf(s); ok {
				return gainOf(least.Remedy)
			}
			return nil
		}},
	{Name: "stake_us", Head: "saved us", Unit: field.Micros, Where: "stake", Words: "the time that a remedy saves, over all rows",
		Value: func(s remedy.Stretch) any { return stake(s.StakeUS) }},
	{Name: "between", Head: "between", JSON: "-", Words: "covered sizes that were not measured",
		Value: func(s remedy.Stretch) any { return betweenCell(s) }},
}), leastFilters())

func leastFilters() []field.Field[remedy.Stretch] {
	filters := field.Via(field.Filters(field.Without(RemedyFields, "stake_us")), func(s remedy.Stretch) (remedy.Row, bool) {
		least, _ := leastOf(s)
		least.Series = s.Series
		return least, true
	})
	for i := range filters {
		filters[i].Name, filters[i].JSON = "least_"+filters[i].Name, "-"
	}
	return filters
}

func leastOf(s remedy.Stretch) (remedy.Row, bool) {
	var least rules.Remedy
	for i, p := range s.Proofs {
		if i == 0 || p.Gain.Lo < least.Gain.Lo {
			least = p
		}
	}
	return remedy.Row{Series: s.Series, Remedy: least}, len(s.Proofs) > 0
}

// StretchSheet is the table of stretches.
func StretchSheet(stretches []remedy.Stretch) Sheet {
	axis := axisOf(stretches, func(s remedy.Stretch) results.SeriesKey { return s.Series })
	sheet := sheetOf("Intervals of "+axis+" with one remedy each", StretchFields, stretches)
	nameAxis(&sheet, axis)
	return sheet
}
