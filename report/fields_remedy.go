package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

var remedySeries, remedySeriesFilters = seriesFields(func(r rules.SplitRow) results.SeriesKey { return r.Series })

// remedyColumns are the facts of a remedy.
var remedyColumns = []field.Field[rules.SplitRow]{
	remedySeries,
	{Name: "m", Head: "m", Kind: field.Count, Where: "m",
		Words: "the M of a row",
		Value: func(r rules.SplitRow) any { return r.M }},
	{Name: "kind", Head: "kind", Kind: field.Text, Where: "remedy", Wide: true,
		Words: remedyWords,
		Value: func(r rules.SplitRow) any { return string(r.Kind) }},
	{Name: "remedy", Head: "remedy", Kind: field.Text, JSON: "-",
		Words: "what to do instead",
		Value: func(r rules.SplitRow) any { return remedyText(r.Remedy) }},
	{Name: "direct_us", Head: "direct us", Kind: field.Number, Unit: field.Micros, Where: "us",
		Words: "time of a launch of the direct product",
		Value: func(r rules.SplitRow) any { return r.DirectUS }},
	{Name: "predicted_us", Head: "predicted us", Kind: field.Number, Unit: field.Micros,
		Words: "time of the remedy as the run predicts it",
		Value: func(r rules.SplitRow) any { return r.PredictedUS }},
	{Name: "executed_us", Head: "executed us", Kind: field.Bounds, Unit: field.Micros,
		Words: "time of the remedy as it was measured",
		Value: func(r rules.SplitRow) any {
			if !r.Executed {
				return nil
			}
			return r.ExecutedUS
		}},
	{Name: "gain", Head: "gain", Kind: field.Bounds, Unit: field.Factor, Where: "gain",
		Words: gainWords,
		Value: func(r rules.SplitRow) any { return gainOf(r.Remedy) }},
	{Name: "stake_us", Head: "saved us", Kind: field.Number, Unit: field.Micros, Where: "stake",
		Words: "the time that a remedy saves, over all rows",
		Value: func(r rules.SplitRow) any { return stake(r.StakeUS) }},
	{Name: "pays", Head: "pays", Kind: field.Flag, Where: "pays",
		Words: paysWords,
		Value: func(r rules.SplitRow) any { return paysCell(r.Remedy) }},
	{Name: "p_adjusted", Head: "adjusted p", Kind: field.Number, Unit: field.Probability, Where: "p",
		Words: pWords,
		Value: func(r rules.SplitRow) any { return unlessNone(r.AdjustedP) }},
	{Name: "sweep_us", Head: "direct us in the sweep", Kind: field.Number, Unit: field.Micros, Wide: true,
		Words: "time of the direct product in the run",
		Value: func(r rules.SplitRow) any { return unlessNone(r.SweepUS) }},
}

// remedyNumerics are what a remedy does to the result.
var remedyNumerics = []field.Field[*results.Numerics]{
	{Name: "remedy_error", Head: "error", Kind: field.Number, Unit: field.Error, Wide: true,
		Words: "relative error of the remedy's result",
		Value: func(n *results.Numerics) any { return n.RemedyError }},
	{Name: "direct_error", Head: "direct error", Kind: field.Number, Unit: field.Error, Wide: true,
		Words: "relative error of the direct product's result",
		Value: func(n *results.Numerics) any { return n.DirectError }},
	{Name: "same_bits", Head: "same bits", Kind: field.Flag, Wide: true,
		Words: "the remedy's result has the bits of the direct product's",
		Value: func(n *results.Numerics) any { return yesNo(n.SameBits) }},
	{Name: "batch_invariant", Head: "batch-invariant", Kind: field.Flag, Wide: true,
		Words: "the remedy's result has the same bits at other Ms",
		Value: func(n *results.Numerics) any { return yesNo(n.BatchInvariant) }},
}

// RemedyFields are the facts of a remedy, of its result and of its series.
var RemedyFields = slices.Concat(
	insertBefore(remedyColumns, "stake_us", field.Via(remedySustained, func(r rules.SplitRow) (*rules.Sustained, bool) { return r.Sustained, r.Sustained != nil })),
	field.Within("numerics", field.Via(remedyNumerics, func(r rules.SplitRow) (*results.Numerics, bool) {
		return r.Numerics, r.Numerics != nil && r.Numerics.Failed == ""
	})),
	[]field.Field[rules.SplitRow]{
		{Name: "executed", Kind: field.Flag, Where: "executed", Words: executedWords, Value: func(r rules.SplitRow) any { return r.Executed }},
		{Name: "unsteady", Kind: field.Flag, Where: "unsteady", Words: "other work slowed the direct product, and nothing is concluded",
			Value: func(r rules.SplitRow) any { return r.Unsteady }},
	},
	remedySeriesFilters,
)

// SplitSheet is the table of remedies.
func SplitSheet(rows []rules.SplitRow) Sheet {
	return sustainedSheet("", "", RemedyFields, rows, func(r rules.SplitRow) bool { return r.Sustained != nil })
}

// paysCell is whether a remedy pays; tables say why not.
type paysCell rules.Remedy

func (r paysCell) Raw() any { return r.Pays }
func (r paysCell) Text() string {
	switch {
	case !r.Executed:
		return "not executed"
	case r.Pays:
		return "yes"
	case r.Unsteady:
		return "unsteady"
	case r.Numerics != nil && (r.Numerics.Failed != "" || r.Numerics.Wrong > 0):
		return "wrong result"
	}
	return "no"
}

// Tone is good for what pays.
func (r paysCell) Tone() Tone {
	if r.Executed && r.Pays {
		return Good
	}
	return Faint
}

// relativeError is an error relative to the exact result.
type relativeError float64

func (e relativeError) Text() string { return strconv.FormatFloat(float64(e), 'e', 2, 64) }
func (e relativeError) Raw() any     { return finite(float64(e)) }

// yesNo is a fact of a result.
type yesNo bool

func (yes yesNo) Text() string { return plain{bool(yes)}.Text() }
func (yes yesNo) Raw() any     { return bool(yes) }

// Tone is faint for no.
func (yes yesNo) Tone() Tone {
	if yes {
		return Neutral
	}
	return Faint
}

var stretchSeries, _ = seriesFields(func(s rules.Stretch) results.SeriesKey { return s.Series })

// StretchFields are the facts of a stretch. It is filtered by those of its row that gains least, and by what it saves.
var StretchFields = slices.Concat([]field.Field[rules.Stretch]{
	stretchSeries,
	{Name: "interval", Head: "m", Kind: field.Text, JSON: "-",
		Words: "the Ms at which the remedy holds",
		Value: func(s rules.Stretch) any { return coveredText(s) }},
	{Name: "from_m", Head: "from", Kind: field.Count, Wide: true,
		Words: "first M",
		Value: func(s rules.Stretch) any { return s.FromM }},
	{Name: "to_m", Head: "to", Kind: field.Count, Wide: true,
		Words: "last M",
		Value: func(s rules.Stretch) any { return s.ToM }},
	{Name: "remedy", Head: "remedy", Kind: field.Text, JSON: "-",
		Words: "what to do instead",
		Value: func(s rules.Stretch) any {
			text := remedyText(rules.Remedy{Kind: s.Kind, Parts: s.Fixed, PadTo: s.PadTo, Pad: s.Pad, Kernel: s.Kernel, Algorithm: s.Algorithm})
			if s.Kind == rules.RemedySplit {
				text = strings.TrimPrefix(text+"+rest", "+")
			}
			return text
		}},
	{Name: "proofs", Head: "proven at m", Kind: field.Text, JSON: "-",
		Words: "the Ms at which the remedy was executed",
		Value: func(s rules.Stretch) any {
			var at []int
			for _, p := range s.Proofs {
				at = append(at, p.M)
			}
			return results.JoinInts(at, " ")
		}},
	{Name: "gain", Head: "least gain", Kind: field.Bounds, Unit: field.Factor, JSON: "-",
		Words: "the gain of the row that gains least",
		Value: func(s rules.Stretch) any {
			if least, ok := leastOf(s); ok {
				return gainOf(least.Remedy)
			}
			return nil
		}},
	{Name: "stake_us", Head: "saved us", Kind: field.Number, Unit: field.Micros, Where: "stake",
		Words: "the time that a remedy saves, over all rows",
		Value: func(s rules.Stretch) any { return stake(s.StakeUS) }},
	{Name: "between", Head: "between", Kind: field.Text, JSON: "-",
		Words: "for which Ms it holds that were not swept",
		Value: func(s rules.Stretch) any { return betweenCell(s) }},
}, leastFilters())

// leastFilters are the facts of a stretch's row that gains least, by which it is filtered.
func leastFilters() []field.Field[rules.Stretch] {
	filters := field.Via(field.Filters(field.Without(RemedyFields, "stake_us")), func(s rules.Stretch) (rules.SplitRow, bool) {
		least, _ := leastOf(s)
		least.Series = s.Series
		return least, true
	})
	for i := range filters {
		filters[i].Name, filters[i].JSON = "least_"+filters[i].Name, "-"
	}
	return filters
}

// leastOf is the executed row of a stretch that gains least.
func leastOf(s rules.Stretch) (rules.SplitRow, bool) {
	var least rules.Remedy
	for i, p := range s.Proofs {
		if i == 0 || p.Gain.Lo < least.Gain.Lo {
			least = p
		}
	}
	return rules.SplitRow{Series: s.Series, Remedy: least}, len(s.Proofs) > 0
}

// StretchSheet is the table of stretches.
func StretchSheet(stretches []rules.Stretch) Sheet { return sheetOf("", StretchFields, stretches) }
