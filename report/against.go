package report

import (
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// AgainstRow is the median time of one case next to a baseline's time at the same M.
type AgainstRow struct {
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	US     float64           `json:"us"` // median
	// Bandwidth is the case's minimum traffic divided by its time, in bytes per second.
	Bandwidth float64 `json:"bandwidth"`
	// BaselineUS is 0 if the baseline lacks this case. Otherwise Ratio is BaselineUS ÷ US: above 1, the
	// baseline is slower.
	BaselineUS float64 `json:"baseline_us,omitempty"`
	Ratio      float64 `json:"ratio,omitempty"`
}

// Against compares the cases of every kernel with a baseline at the same M of the same subject. The
// baseline's own cases are included with a ratio of 1. Cases without samples are skipped, and those of a kernel
// that is not comparable have no baseline.
func Against(series []results.Series, baseline string) []AgainstRow {
	type place struct {
		key results.SeriesKey
		m   int
	}
	times := map[place]float64{}
	medians := Medians(series)
	for _, m := range medians {
		if m.Samples > 0 && m.Series.Kernel == baseline {
			times[place{m.Series, m.M}] = m.US.Mid
		}
	}
	var out []AgainstRow
	for _, m := range medians {
		if m.Samples == 0 {
			continue
		}
		row := AgainstRow{Series: m.Series, M: m.M, US: m.US.Mid, Bandwidth: m.Series.Bytes(m.M) / (m.US.Mid * 1e-6)}
		same := m.Series
		same.Kernel = baseline
		if !kernels.Comparable(m.Series.Kernel, baseline) {
			out = append(out, row)
			continue
		}
		if row.BaselineUS = times[place{same, m.M}]; row.BaselineUS > 0 {
			row.Ratio = row.BaselineUS / row.US
		}
		out = append(out, row)
	}
	return out
}

var againstFields = field.Of([]field.Field[AgainstRow]{
	seriesColumn(func(r AgainstRow) results.SeriesKey { return r.Series }),
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "us", Head: "time us", Kind: field.Number, Words: "median time of a launch",
		Value: func(r AgainstRow) any { return Micros(r.US) }},
	{Name: "bandwidth", Head: "bandwidth", Kind: field.Number, Words: "least traffic over time",
		Value: func(r AgainstRow) any { return gbytes(r.Bandwidth) }},
	{Name: "baseline_us", Head: "baseline us", Kind: field.Number, Words: "the baseline's time",
		Value: func(r AgainstRow) any { return when(r.BaselineUS > 0, Micros(r.BaselineUS)) }},
	{Name: "ratio", Head: "times as fast", Unit: field.Factor, Words: "the baseline's time over this one",
		Value: func(r AgainstRow) any { return when(r.BaselineUS > 0, r.Ratio) }},
})

// WriteAgainst prints the table of [Against]: time, bandwidth and speedup over the baseline.
func WriteAgainst(w io.Writer, f Format, series []results.Series, baseline string) error {
	rows := Against(series, baseline)
	doc := &Document{Subject: "comparison with a baseline", Items: items(rows)}
	sheet := sheetOf("", againstFields, rows)
	sheet.column("baseline_us").Name = baseline + " us"
	found := slices.ContainsFunc(rows, func(r AgainstRow) bool { return r.BaselineUS > 0 })
	if !found {
		doc.Notes = append(doc.Notes, Note{"nothing of " + baseline + " was measured with these", Open})
	}
	if rows == nil {
		rows = []AgainstRow{}
	}
	doc.Sheets = []Sheet{sheet}
	doc.Value = struct {
		Baseline string       `json:"baseline"`
		Cases    []AgainstRow `json:"cases"`
	}{baseline, rows}
	return doc.Render(w, f)
}
