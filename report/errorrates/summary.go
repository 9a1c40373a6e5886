package errorrates

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules/trust"
)

// summaryRates are the measures of the summary, by their names in it and in docs/trust.md.
var summaryRates = []struct {
	measure trust.Measure
	name    string
}{
	{trust.FalseRows, "rows called anomalous that are not slow"},
	{trust.FalseFindings, "confirmed findings that are not slow"},
	{trust.MissedRows, "slow rows called clean"},
	{trust.UnfoundPromised, "slow intervals of 7.5 % without a finding"},
	{trust.OpenRows, "rows without a clear verdict"},
	{trust.FalseRemedies, "remedies in the table that gain nothing"},
	{trust.DiffAlarms, "diff alarms on an unchanged machine"},
	{trust.NoiseFlagged, "identical kernels called different"},
	{trust.PrefixContradict, "stopped sweeps: contradicted verdicts"},
	{trust.DeadlineContradict, "sweeps with a deadline: contradicted verdicts"},
	{trust.FarInferred, "interpolated times off by over 1 %"},
}

func summarySheets(r *trust.Result) (out []report.Sheet) {
	const right = report.Right
	s := report.Sheet{Title: "Summary", Columns: []report.Column{{Name: "rate", Key: "rate", Flex: true},
		{Name: "bound", Key: "bound", Align: right}, {Name: "total", Key: "total", Align: right},
		{Name: "worst", Key: "worst"}, {Name: "its rate", Key: "worst_rate", Align: right}}}
	for _, b := range summaryRates {
		var rates []trust.Rate
		for _, k := range r.Kinds {
			rates = append(rates, k.Rate(b.measure))
		}
		if row := summaryRow(b.name, rates); row != nil {
			s.Rows = append(s.Rows, row)
		}
	}
	for i := range commandsOf(r) {
		var rates []trust.Rate
		for _, k := range r.Data {
			rates = append(rates, k.Commands[i].False)
		}
		if row := summaryRow("imported data: false alarms of "+r.Data[0].Commands[i].Command, rates); row != nil {
			s.Rows = append(s.Rows, row)
		}
	}
	if len(s.Rows) > 0 {
		out = append(out, s)
	}
	if found := depthSummary(r); len(found.Rows) > 0 {
		out = append(out, found)
	}
	if found := dataSummary(r); len(found.Rows) > 0 {
		out = append(out, found)
	}
	return out
}

func commandsOf(r *trust.Result) []trust.Verdicts {
	if len(r.Data) == 0 {
		return nil
	}
	return r.Data[0].Commands
}

// summaryRow adds up the rates of all kinds of noise, or only those with a bound if there are any; nil if all
// totals are 0. The worst rate is the closest to its bound.
func summaryRow(name string, rates []trust.Rate) []any {
	bounded := slices.ContainsFunc(rates, func(x trust.Rate) bool { return x.Bound > 0 })
	far := func(x trust.Rate) float64 {
		if bounded {
			return x.Upper / x.Bound
		}
		return x.Upper
	}
	var total trust.Count
	var worst trust.Rate
	for _, x := range rates {
		if x.Of == 0 || bounded && x.Bound == 0 {
			continue
		}
		total.Hits, total.Of = total.Hits+x.Hits, total.Of+x.Of
		if worst.Of == 0 || far(x) > far(worst) {
			worst = x
		}
	}
	if worst.Of == 0 {
		return nil
	}
	bound := ""
	if bounded {
		bound = strconv.FormatFloat(100*worst.Bound, 'g', 3, 64) + " %"
	}
	return []any{name, bound, fmt.Sprintf("%d/%d", total.Hits, total.Of), worst.Kind, rateText(worst)}
}

func depthSummary(r *trust.Result) report.Sheet {
	s := report.Sheet{Title: "Slow intervals found", Columns: []report.Column{{Name: "slower by", Key: "depth", Align: report.Right},
		{Name: "found", Key: "found", Align: report.Right}, {Name: "fewest", Key: "worst"},
		{Name: "found there", Key: "worst_found", Align: report.Right}}}
	for _, depth := range trust.Depths() {
		var total trust.Count
		var least trust.Detection
		var kind string
		for _, k := range r.Kinds {
			for _, d := range k.Detection {
				if d.Depth != depth || d.Of == 0 {
					continue
				}
				total.Hits, total.Of = total.Hits+d.Hits, total.Of+d.Of
				if kind == "" || d.Count.Share() < least.Count.Share() {
					least, kind = d, k.Name
				}
			}
		}
		if total.Of > 0 {
			s.Rows = append(s.Rows, []any{fmt.Sprintf("%.3g %%", 100*depth), countCell(total), kind, countCell(least.Count)})
		}
	}
	return s
}

// dataSummary has, per command, the undecided share of imported data and the share of slow rows found.
func dataSummary(r *trust.Result) report.Sheet {
	type column = columnOf[int] // of the index of a command
	count := func(name, key string, of func(trust.Verdicts) trust.Count) column {
		return column{name, key, func(command int) string {
			var total trust.Count
			for _, k := range r.Data {
				x := of(k.Commands[command])
				total.Hits, total.Of = total.Hits+x.Hits, total.Of+x.Of
			}
			return countCell(total)
		}}
	}
	columns := []column{{"command", "command", func(command int) string { return r.Data[0].Commands[command].Command }},
		count("undecided", "undecided", func(v trust.Verdicts) trust.Count { return v.Undecided })}
	for l, loss := range trust.Losses() {
		columns = append(columns, count(fmt.Sprintf("%.0f %% slower: found", 100*loss), fmt.Sprintf("found_%g", loss),
			func(v trust.Verdicts) trust.Count { return v.Found[l] }),
			count(fmt.Sprintf("%.0f %% slower: called clean", 100*loss), fmt.Sprintf("missed_%g", loss),
				func(v trust.Verdicts) trust.Count { return v.Missed[l] }))
	}
	var commands []int
	for i := range commandsOf(r) {
		commands = append(commands, i)
	}
	return sheet("Imported data", commands, columns)
}
