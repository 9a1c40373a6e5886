package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// WriteOverview prints a sweep's results: for people one line per series; other formats match [WriteMedians],
// a row per case.
func WriteOverview(w io.Writer, f Format, meta results.Meta, series []results.Series) error {
	if f != Table {
		return WriteMedians(w, f, meta, series, nil)
	}
	doc := &Document{Subject: "overview", Sheets: []Sheet{overviewSheet(series)}, Notes: peakNotes(series)}
	return doc.Render(w, f)
}

type seriesOverview struct {
	results.Series
	samples, failed int
	least, most     float64 // us
	best            Median  // the one with the highest MFU
}

var overviewFields = field.Of([]field.Field[seriesOverview]{
	seriesColumn(func(o seriesOverview) results.SeriesKey { return o.Key }),
	{Name: "cases", Head: "cases", Kind: field.Count, JSON: "-", Words: "cases of the series",
		Value: func(o seriesOverview) any { return len(o.Rows) }},
	{Name: "from_m", Head: "m from", Kind: field.Count, JSON: "-", Words: "the smallest M",
		Value: func(o seriesOverview) any { return o.Rows[0].Case.M }},
	{Name: "to_m", Head: "m to", Kind: field.Count, JSON: "-", Words: "the largest M",
		Value: func(o seriesOverview) any { return o.Rows[len(o.Rows)-1].Case.M }},
	{Name: "samples", Head: "samples", Kind: field.Count, JSON: "-", Words: "samples of all rows",
		Value: func(o seriesOverview) any { return o.samples }},
	{Name: "failed", Head: "failed", Kind: field.Count, JSON: "-", Words: "rows that could not be measured",
		Value: func(o seriesOverview) any { return unlessZero(o.failed) }},
	{Name: "least_us", Head: "least us", Unit: field.Micros, JSON: "-", Words: "the shortest median",
		Value: func(o seriesOverview) any { return unlessNone(o.least) }},
	{Name: "most_us", Head: "most us", Unit: field.Micros, JSON: "-", Words: "the longest median",
		Value: func(o seriesOverview) any { return unlessNone(o.most) }},
	{Name: "best_mfu", Head: "best MFU", Unit: field.Share, JSON: "-", Words: mfuWords,
		Value: func(o seriesOverview) any { return unlessNone(o.best.MFU) }},
	{Name: "best_mfu_at_clock", Head: "at clock", Unit: field.Share, JSON: "-", Words: "share of the peak at the clock of that row",
		Value: func(o seriesOverview) any { return unlessNone(o.best.MFUAtClock) }},
	{Name: "best_m", Head: "at m", Kind: field.Count, JSON: "-", Words: "the M of that row",
		Value: func(o seriesOverview) any { return unlessZero(o.best.M) }},
})

// overviewSheet has a row per series: the range of medians, the highest MFU, also relative to the peak at
// that row's clock, and the number of samples.
func overviewSheet(series []results.Series) Sheet {
	var records []seriesOverview
	for _, s := range series {
		if len(s.Rows) == 0 {
			continue
		}
		o := seriesOverview{Series: s}
		for _, m := range Medians([]results.Series{s}) {
			o.samples += m.Samples
			if m.Failed != "" {
				o.failed++
			}
			if m.Samples == 0 {
				continue
			}
			if o.least == 0 || m.US.Mid < o.least {
				o.least = m.US.Mid
			}
			o.most = max(o.most, m.US.Mid)
			if m.MFU > o.best.MFU && possible(m.MFU) {
				o.best = m
			}
		}
		records = append(records, o)
	}
	return sheetOf("", overviewFields, records)
}
