package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/results"
)

// WriteOverview prints what a sweep has measured: for people one line a series,
// in every other format what [WriteMedians] does, a row a case.
func WriteOverview(w io.Writer, f Format, meta results.Meta, series []results.Series) error {
	if f != Table {
		return WriteMedians(w, f, meta, series, nil)
	}
	doc := &Document{Subject: "overview", Sheets: []Sheet{overviewSheet(series)}, Notes: peakNotes(series)}
	return doc.Render(w, f)
}

// overviewSheet has a row for each series: the range of its medians, the highest
// MFU among them, also relative to the peak at the clock of that row, and how many
// samples they rest on.
func overviewSheet(series []results.Series) Sheet {
	sheet := Sheet{Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "cases", Key: "cases", Align: Right},
		{Name: "m from", Key: "from_m", Align: Right}, {Name: "m to", Key: "to_m", Align: Right},
		{Name: "samples", Key: "samples", Align: Right}, {Name: "failed", Key: "failed", Align: Right},
		{Name: "least us", Key: "least_us", Align: Right}, {Name: "most us", Key: "most_us", Align: Right},
		{Name: "best MFU", Key: "best_mfu", Align: Right}, {Name: "at clock", Key: "best_mfu_at_clock", Align: Right}, {Name: "at m", Key: "best_m", Align: Right},
	}}
	for _, s := range series {
		if len(s.Rows) == 0 {
			continue
		}
		var least, most, best, atClock float64
		samples, failed, bestM := 0, 0, 0
		for _, m := range Medians([]results.Series{s}) {
			samples += m.Samples
			if m.Failed != "" {
				failed++
			}
			if m.Samples == 0 {
				continue
			}
			if least == 0 || m.US.Mid < least {
				least = m.US.Mid
			}
			most = max(most, m.US.Mid)
			if m.MFU > best {
				best, bestM, atClock = m.MFU, m.M, m.MFUAtClock
			}
		}
		row := []any{seriesCell(s.Key), len(s.Rows), s.Rows[0].Case.M, s.Rows[len(s.Rows)-1].Case.M,
			samples, unlessZero(failed), nil, nil, nil, nil, nil}
		if most > 0 {
			row[6], row[7] = micros(least), micros(most)
		}
		if best > 0 {
			row[8], row[10] = share(best), bestM
		}
		if atClock > 0 {
			row[9] = share(atClock)
		}
		sheet.Rows = append(sheet.Rows, row)
	}
	return sheet
}
