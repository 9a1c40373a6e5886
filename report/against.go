package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/results"
)

// AgainstRow is the median time of one case beside that of a baseline at the same M.
type AgainstRow struct {
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	US     float64           `json:"us"` // median
	// Bandwidth is the least traffic of the case, in bytes, by that time in seconds.
	Bandwidth float64 `json:"bandwidth"`
	// BaselineUS is 0 where the baseline has no such case; else Ratio is it by US, above 1
	// where the baseline takes longer.
	BaselineUS float64 `json:"baseline_us,omitempty"`
	Ratio      float64 `json:"ratio,omitempty"`
}

// Against sets the cases of every kernel beside those of a baseline, M by M within a subject. The
// baseline's own cases are among them, with a ratio of 1. Cases without samples are left out.
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
		if row.BaselineUS = times[place{same, m.M}]; row.BaselineUS > 0 {
			row.Ratio = row.BaselineUS / row.US
		}
		out = append(out, row)
	}
	return out
}

// WriteAgainst prints the table of [Against]: time, bandwidth, and how many times as fast as the
// baseline.
func WriteAgainst(w io.Writer, f Format, series []results.Series, baseline string) error {
	rows := Against(series, baseline)
	doc := &Document{Subject: "comparison with a baseline", Items: []any{}}
	sheet := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "m", Key: "m", Align: Right}, {Name: "time us", Key: "us", Align: Right},
		{Name: "bandwidth", Key: "bandwidth", Align: Right}, {Name: baseline + " us", Key: "baseline_us", Align: Right},
		{Name: "times as fast", Key: "ratio", Align: Right},
	}}
	found := false
	for _, r := range rows {
		doc.Items = append(doc.Items, r)
		row := []any{seriesCell(r.Series), r.M, micros(r.US), gbytes(r.Bandwidth), nil, nil}
		if r.BaselineUS > 0 {
			found = true
			row[4], row[5] = micros(r.BaselineUS), factor(r.Ratio)
		}
		sheet.Rows = append(sheet.Rows, row)
	}
	if !found {
		doc.Notes = append(doc.Notes, Note{"nothing of " + baseline + " was measured beside these", Open})
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
