package report

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func verdictTitle(what string, a *rules.Audit) string {
	if rule := RowRule(a); rule != "" {
		return fmt.Sprintf("%s: rows as the %s rule judges them", what, rule)
	}
	return what
}

// heldAgainst counts the rows of a series inside its findings of any rule.
func heldAgainst(own []*rules.Finding, s rules.SeriesAudit) int {
	rows := 0
	for _, f := range own {
		rows += f.Rows
	}
	if len(s.Rows) == 0 {
		return min(rows, s.Cases)
	}
	n := 0
	for _, r := range s.Rows {
		if slices.ContainsFunc(own, func(f *rules.Finding) bool { return f.FromM <= r.M && r.M <= f.ToM }) {
			n++
		}
	}
	return n
}

// IntervalText is a stretch of sizes: "64–128", or "64".
func IntervalText(from, to int) string {
	if from == to {
		return itoa(from)
	}
	return itoa(from) + "–" + itoa(to)
}

func padText(to int, pad table.PadKind) string {
	if pad == table.Copied {
		return "copy, pad to " + itoa(to)
	}
	return "pad to " + itoa(to)
}

// algorithmText names an algorithm by its attributes that differ from the usual ones.
func algorithmText(a kernels.Algorithm) string {
	text := "algorithm " + itoa(a.ID)
	for _, f := range []struct {
		name         string
		value, usual int
	}{
		{"tile", a.Tile, 0}, {"stages", a.Stages, 0}, {"split-K", a.SplitK, 1}, {"reduction", a.Reduction, 0},
		{"swizzle", a.Swizzle, 0}, {"custom", a.Custom, 0}, {"inner", a.Inner, 0}, {"cluster", a.Cluster, 0},
	} {
		if f.value != f.usual {
			text += " " + f.name + " " + itoa(f.value)
		}
	}
	return text
}

func remedyText(r rules.Remedy) string {
	switch r.Kind {
	case rules.RemedySplit:
		return results.JoinInts(r.Parts, "+")
	case rules.RemedyPad:
		return padText(r.PadTo, r.Pad)
	case rules.RemedyPadN, rules.RemedyPadK:
		return "pad weights to " + padWeightsText(r)
	case rules.RemedyAlgorithm:
		if r.Algorithm != (kernels.Algorithm{}) {
			return "use " + r.Kernel + " " + algorithmText(r.Algorithm)
		}
		return "use " + r.Kernel
	case rules.RemedyOther:
		return "use " + r.Kernel
	}
	return string(r.Kind)
}

// gainOf is the measured gain, else the predicted one.
func gainOf(r rules.Remedy) any {
	switch {
	case r.Executed:
		return r.Gain
	case r.PredictedUS > 0 && r.DirectUS > 0:
		return predicted(r.DirectUS / r.PredictedUS)
	}
	return nil
}

func gainText(r rules.Remedy) string {
	return toCell(cellOf(field.Factor, gainOf(r))).Text()
}

// predictedMark precedes a predicted gain.
const predictedMark = "≈"

// possible reports whether an MFU is plausible. Above the peak by more than the rules tolerate, the time, the
// peak or the unit is wrong, and the row does not count as the best.
func possible(mfu float64) bool { return mfu <= mostMFU() }

var mostMFU = sync.OnceValue(func() float64 { return 1 + rules.Default().Rules.Roofline.Tolerance })

// seriesVerdicts sums up the rows of a series.
type seriesVerdicts struct {
	rules.SeriesAudit
	findings, affected, bimodal int
	rows                        map[rules.Verdict]int
	best                        rules.RowVerdict // has the highest plausible MFU
	elasticity                  any
}

// count is the number of rows with a verdict, nil for a series whose rows the audit does not list.
func (s seriesVerdicts) count(v rules.Verdict) any { return when(len(s.Rows) > 0, s.rows[v]) }

var verdictFields = field.Of([]field.Field[seriesVerdicts]{
	seriesColumn(func(s seriesVerdicts) results.SeriesKey { return s.Key }),
	{Name: "cases", Head: "cases", Kind: field.Count, JSON: "-", Words: "cases of the series",
		Value: func(s seriesVerdicts) any { return s.Cases }},
	{Name: "anomalous", Head: "anomalous", Kind: field.Count, JSON: "-", Words: "anomalous rows",
		Value: func(s seriesVerdicts) any { return len(s.Flagged) }},
	{Name: "clean", Head: "clean", Kind: field.Count, JSON: "-", Words: "clean rows",
		Value: func(s seriesVerdicts) any { return s.count(rules.Clean) }},
	{Name: "marginal", Head: "marginal", Kind: field.Count, JSON: "-", Words: "rows at the bound",
		Value: func(s seriesVerdicts) any { return s.count(rules.Marginal) }},
	{Name: "undecided", Head: "undecided", Kind: field.Count, JSON: "-", Words: "undecided rows",
		Value: func(s seriesVerdicts) any { return s.count(rules.Undecided) }},
	{Name: "unjudged", Head: "unjudged", Kind: field.Count, JSON: "-", Words: "rows with nothing to compare with",
		Value: func(s seriesVerdicts) any { return s.count(rules.Unjudged) }},
	{Name: "findings", Head: "findings", Kind: field.Count, JSON: "-", Words: "findings of all rules",
		Value: func(s seriesVerdicts) any { return s.findings }},
	{Name: "rows_in_findings", Head: "rows affected", Kind: field.Count, JSON: "-", Words: "rows inside of findings",
		Value: func(s seriesVerdicts) any { return s.affected }},
	{Name: "best_mfu", Head: "best MFU", Unit: field.Share, JSON: "-", Words: "the highest MFU of a row",
		Value: func(s seriesVerdicts) any { return when(!s.RelativeMFU && s.best.M > 0, s.best.MFU.Mid) }},
	{Name: "best_mfu_observed", Head: "observed", Unit: field.Share, JSON: "-", Words: "MFU of that row by its observed time",
		Value: func(s seriesVerdicts) any {
			return when(s.best.ObservedUS.Mid > 0 && !s.RelativeMFU, observedMFU(s.best))
		}},
	{Name: "best_mfu_at_clock", Head: "at clock", Unit: field.Share, JSON: "-", Words: "MFU of that row at its clock",
		Value: func(s seriesVerdicts) any { return unlessNone(s.best.MFUAtClock.Mid) }},
	{Name: "bimodal", Head: "bimodal", Kind: field.Count, JSON: "-", Words: "rows with bimodal timings",
		Value: func(s seriesVerdicts) any { return unlessZero(s.bimodal) }},
	{Name: "elasticity", Head: "elasticity", Kind: field.Number, JSON: "-", Wide: true,
		Words: "how time follows the clock, by the median row", Value: func(s seriesVerdicts) any { return s.elasticity }},
	{Name: "inferred", Head: "inferred", Kind: field.Count, JSON: "-", Words: "rows that were inferred", Value: func(s seriesVerdicts) any {
		if s.Inference == nil {
			return nil
		}
		return s.Inference.Inferred
	}},
	{Name: "checked_inside", Head: "checked", Unit: field.Share, JSON: "-", Words: "share of check rows inside the interval inferred",
		Value: func(s seriesVerdicts) any {
			if s.Inference == nil || s.Inference.Checked == 0 {
				return nil
			}
			return s.Inference.Share()
		}},
})

// verdictSheet has one row per series: verdict counts, and the highest MFU, both as observed and relative to
// the peak at the common clock. The elasticity is the median over rows.
func verdictSheet(a *rules.Audit) Sheet {
	findings := rules.FindingsBySeries(a.Whole().Findings)
	var all []seriesVerdicts
	for _, series := range a.Series {
		own := findings[series.Key]
		s := seriesVerdicts{SeriesAudit: series, findings: len(own), affected: heldAgainst(own, series), rows: map[rules.Verdict]int{}}
		var betas []float64
		for _, r := range series.Rows {
			s.rows[r.Verdict]++
			if r.MFU.Mid > s.best.MFU.Mid && (series.RelativeMFU || possible(r.MFU.Mid)) {
				s.best = r
			}
			if len(r.Modes) > 0 {
				s.bimodal++
			}
			betas = append(betas, r.Elasticity)
		}
		s.elasticity = when(len(betas) > 0 && a.Clocks[series.Key.Device] > 0, stats.Median(betas))
		all = append(all, s)
	}
	if a.Inference == nil {
		return sheetOf("", field.Without(verdictFields, "inferred", "checked_inside"), all)
	}
	return sheetOf("", verdictFields, all)
}

func observedMFU(r rules.RowVerdict) float64 {
	if r.ObservedUS.Mid > 0 {
		return r.MFU.Mid * r.US.Mid / r.ObservedUS.Mid
	}
	return r.MFU.Mid
}
