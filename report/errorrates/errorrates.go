package errorrates

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules/trust"
)

// Write writes the rates of errors on simulated machines. CSV has one line for each rate.
func Write(w io.Writer, f report.Format, r *trust.Result) error {
	doc := document(r)
	if f == report.CSV {
		doc.Sheets = []report.Sheet{ratesSheet(r)}
	}
	return doc.Render(w, f)
}

func document(r *trust.Result) *report.Document {
	doc := &report.Document{Subject: "simulation", Value: r, Items: []any{}}
	doc.Head = []report.Note{
		report.Notef(report.Neutral, "%s, seed %d, threshold %g; cells: errors/total, upper 95 %% limit, ! above its bound, ? too few",
			report.Plural(r.Machines, "simulated machine", "simulated machines"), r.Seed, r.Threshold),
	}
	type column = columnOf[trust.KindResult]
	rate := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string { return rateText(k.Rate(m)) }}
	}
	agree := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string {
			x := k.Rate(m)
			if x.Of == 0 {
				return ""
			}
			return fmt.Sprintf("%.3f of %d", 1-x.Share, x.Of)
		}}
	}
	bias := func(name, key string, of func(trust.KindResult) float64) column {
		return column{name, key, func(k trust.KindResult) string {
			if k.Remedies == 0 {
				return ""
			}
			return fmt.Sprintf("%+.2f %%", 100*of(k))
		}}
	}
	share := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string {
			if x := k.Rate(m); x.Of > 0 {
				return fmt.Sprintf("%.1f %% of %d", 100*x.Share, x.Of)
			}
			return ""
		}}
	}
	add := func(kinds []trust.KindResult, title string, columns ...column) {
		if len(kinds) > 0 {
			columns = append([]column{{"noise", "noise", func(k trust.KindResult) string { return k.Name }}}, columns...)
			doc.Sheets = append(doc.Sheets, sheet(title, kinds, columns))
		}
	}
	doc.Sheets = summarySheets(r)
	sheet := func(title string, columns ...column) { add(r.Kinds, title, columns...) }
	sheet("Verdicts",
		column{"machines", "machines", func(k trust.KindResult) string { return strconv.Itoa(k.Machines) }},
		column{"samples a row", "samples", func(k trust.KindResult) string { return fmt.Sprintf("%.1f", k.Samples) }},
		rate("false rows", trust.FalseRows), rate("false findings", trust.FalseFindings), rate("slow rows called clean", trust.MissedRows),
		rate("open rows", trust.OpenRows), rate("marginal", trust.MarginalRows), rate("missed bimodal", trust.ModesMissed),
		rate("false bimodal", trust.ModesFalse), rate("invalid runs", trust.InvalidRuns))
	var depths []column
	for _, depth := range trust.Depths() {
		depths = append(depths, column{fmt.Sprintf("%.3g %%", 100*depth), fmt.Sprintf("depth_%g", depth), func(k trust.KindResult) string {
			for _, d := range k.Detection {
				if d.Depth == depth {
					return fmt.Sprintf("%d/%d, ≥%s", d.Hits, d.Of, twoDecimals(d.Lower))
				}
			}
			return ""
		}})
	}
	sheet("Slow intervals found, by depth (found/planted, lower 95 % limit)", depths...)
	sheet("Two audits of one machine, cold and hot",
		agree("anomalous in both ÷ either", trust.PairDisagree), agree("with marginal as either", trust.PairDisagreeLenient),
		rate("contradictions", trust.PairContradict), rate("diff: cases changed", trust.DiffChanged),
		rate("diff: false alarms", trust.DiffAlarms),
		rate("diff: undecided", trust.DiffOpen), rate("A/A called different", trust.NoiseFlagged))
	sheet("Outside of the 95 % interval",
		rate("row times", trust.UncoveredTime), rate("losses of findings", trust.UncoveredLoss),
		rate("gains of remedies", trust.UncoveredGain),
		rate("ratios of diff", trust.UncoveredRatio))
	sheet("Remedies",
		rate("executed, not written", trust.RemediesUnpaid), rate("written, no gain", trust.FalseRemedies),
		rate("rows in table, no gain", trust.FalseTableRows), rate("gain, not in table", trust.MissedRemedies),
		bias("stated ÷ true gain", "promised", func(k trust.KindResult) float64 { return k.Promised }),
		bias("predicted ÷ true gain", "predicted", func(k trust.KindResult) float64 { return k.Predicted }))
	sheet("Sweeps stopped early that contradict the full one",
		rate("cut short", trust.PrefixContradict), rate("deadline", trust.DeadlineContradict))
	var inferred []trust.KindResult
	for _, k := range r.Kinds {
		if k.Rate(trust.InferredRows).Of > 0 {
			inferred = append(inferred, k)
		}
	}
	add(inferred, "Rows that were not measured", share("inferred", trust.InferredRows), rate("unknown", trust.UnknownRows),
		rate("outside of the interval", trust.UncoveredInferred), rate("off by over 1 %", trust.FarInferred),
		rate("check rows outside", trust.ChecksOutside), rate("slow, called clean", trust.MissedInferred),
		rate("slow alone, called clean", trust.MissedIsolated))
	doc.Sheets = append(doc.Sheets, dataSheets(r)...)
	if len(r.Worst) > 0 {
		doc.Sheets = append(doc.Sheets, worstSheet(r.Worst))
	}
	for _, k := range r.Kinds {
		for _, x := range k.Rates {
			doc.Items = append(doc.Items, x)
		}
	}
	for _, k := range r.Data {
		for _, x := range k.Rates() {
			doc.Items = append(doc.Items, x)
		}
	}
	var kinds []report.Property
	for _, k := range r.Kinds {
		kinds = append(kinds, report.Property{Name: k.Name, Value: k.Means})
	}
	for _, k := range r.Data {
		kinds = append(kinds, report.Property{Name: k.Name, Value: k.Means})
	}
	doc.Sheets = append(doc.Sheets, report.PairSheet("Kinds of noise", "noise", "description", kinds))
	for _, b := range r.Broken {
		doc.Note(report.Bad, "%s under %s: %d of %d, limits %s and %s, bound %s", b.Measure, b.Kind, b.Hits, b.Of, twoDecimals(b.Lower),
			twoDecimals(b.Upper), twoDecimals(b.Bound))
	}
	return doc
}

// named is a sheet whose columns have one name for people and programs; those of right are aligned so.
func named(title string, right []string, names ...string) report.Sheet {
	s := report.Sheet{Title: title}
	for _, name := range names {
		c := report.Column{Name: name, Key: name}
		if slices.Contains(right, name) {
			c.Align = report.Right
		}
		s.Columns = append(s.Columns, c)
	}
	return s
}

func ratesSheet(r *trust.Result) report.Sheet {
	s := named("", nil, "noise", "rate", "hits", "of", "share", "lower", "upper", "bound", "broken")
	var rates []trust.Rate
	for _, k := range r.Kinds {
		rates = append(rates, k.Rates...)
	}
	for _, k := range r.Data {
		rates = append(rates, k.Rates()...)
	}
	for _, x := range rates {
		var bound any
		if x.Bound > 0 {
			bound = x.Bound
		}
		s.Rows = append(s.Rows, []any{x.Kind, string(x.Measure), x.Hits, x.Of, x.Share, x.Lower, x.Upper, bound, x.Broken})
	}
	return s
}

// columnOf is a column of counts, as text; the first column of a table names its rows.
type columnOf[T any] struct {
	name, key string
	cell      func(T) string
}

func sheet[T any](title string, rows []T, columns []columnOf[T]) report.Sheet {
	s := report.Sheet{Title: title}
	for i, c := range columns {
		s.Columns = append(s.Columns, report.Column{Name: c.name, Key: c.key, Align: report.Right})
		s.Columns[0].Align = report.Left
		for k, row := range rows {
			if i == 0 {
				s.Rows = append(s.Rows, nil)
			}
			s.Rows[k] = append(s.Rows[k], c.cell(row))
		}
	}
	return s
}

func dataSheets(r *trust.Result) (out []report.Sheet) {
	if len(r.Data) == 0 {
		return nil
	}
	type column = columnOf[trust.DataResult]
	for _, of := range r.Data[0].Commands {
		count := func(name, key string, cell func(trust.Verdicts) trust.Count) column {
			return column{name, key, func(k trust.DataResult) string { return countCell(cell(k.Of(of.Command))) }}
		}
		columns := []column{{"noise", "noise", func(k trust.DataResult) string { return k.Name }},
			{"false sets", "false", func(k trust.DataResult) string { return rateText(k.Of(of.Command).False) }},
			count("undecided", "undecided", func(v trust.Verdicts) trust.Count { return v.Undecided })}
		for i, loss := range trust.Losses() {
			columns = append(columns, count(fmt.Sprintf("%.0f %% slow: found", 100*loss), fmt.Sprintf("found_%g", loss),
				func(v trust.Verdicts) trust.Count { return v.Found[i] }),
				count(fmt.Sprintf("%.0f %% slow: called well", 100*loss), fmt.Sprintf("missed_%g", loss),
					func(v trust.Verdicts) trust.Count { return v.Missed[i] }))
		}
		out = append(out, sheet(fmt.Sprintf("Imported data: %s (%s of each kind)", of.Command, report.Plural(r.DataSets, "set", "sets")),
			r.Data, columns))
	}
	return out
}

// countCell is a count as a cell: "12.5 % of 480".
func countCell(c trust.Count) string {
	if c.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %d", 100*c.Share(), c.Of)
}

// rateText is a rate as a cell: "3/400, ≤1.9 %".
func rateText(r trust.Rate) string {
	if r.Of == 0 {
		return ""
	}
	text := fmt.Sprintf("%d/%d, ≤%s", r.Hits, r.Of, twoDecimals(r.Upper))
	if r.Broken {
		text += " !"
	}
	if r.Thin {
		text += " ?"
	}
	return text
}

// twoDecimals is a share with two decimals, as in docs/trust.md.
func twoDecimals(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }

func worstSheet(worst []trust.Offence) report.Sheet {
	s := named("Worst errors", []string{"machine", "m", "truth", "claimed", "beyond", "samples"}, "noise", "machine", "run", "rate",
		"kernel", "m", "rule", "verdict", "truth", "claimed", "beyond", "samples")
	for _, o := range worst {
		truth := fmt.Sprintf("%.4f", o.Truth.Lo)
		if o.Truth.Hi != o.Truth.Lo {
			truth += fmt.Sprintf(" to %.4f", o.Truth.Hi)
		}
		s.Rows = append(s.Rows, []any{o.Kind, o.Machine, o.Run, string(o.Measure), o.Kernel, o.M, o.Rule, o.Verdict, truth,
			fmt.Sprintf("%.4f [%.4f, %.4f]", o.Claimed.Mid, o.Claimed.Lo, o.Claimed.Hi), fmt.Sprintf("%.4f", o.Beyond), o.Samples})
	}
	return s
}
