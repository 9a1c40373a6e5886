package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

var medianSeries = field.Within("series",
	field.Via(results.SeriesFields, func(m Median) (results.SeriesKey, bool) { return m.Series, true }))

// MedianFields are the fields of a row's median.
var MedianFields = slices.Concat(
	field.Pick(medianSeries, "device", "kernel", "dtype"),
	field.Of([]field.Field[Median]{
		{Name: "m", Head: "m", Kind: field.Count, Where: "m", Words: rowMWords, Value: func(m Median) any { return m.M }},
	}),
	field.Pick(medianSeries, "n", "k", "regime", "threads"),
	field.Of([]field.Field[Median]{
		{Name: "us_at_clock", Head: "us at clock", Kind: field.Bounds, Unit: field.Micros, Where: "us_at_clock",
			Words: "time of a launch at the common clock, where it is not the observed one",
			Value: func(m Median) any { return when(m.AtClock.Mid > 0, m.AtClock) }},
		{Name: "us", Head: "time us", Kind: field.Bounds, Unit: field.Micros, Where: "observed_us", Words: observedWords,
			Value: func(m Median) any { return when(m.Samples > 0, m.US) }},
		{Name: "gflops", Head: "rate", Unit: field.GFLOPS, JSON: "-", Words: "operations a second",
			Value: func(m Median) any { return when(m.Samples > 0, rate{m.FLOPS, m.Series.DType}) }},
		{Name: "mfu", Head: "MFU", Unit: field.Share, Where: "mfu", Words: mfuWords,
			Value: func(m Median) any { return unlessNone(m.MFU) }},
		{Name: "mfu_at_clock", Head: "MFU at clock", Unit: field.Share, Where: "mfu_at_clock",
			Words: "share of the peak at the row's clock", Value: func(m Median) any { return unlessNone(m.MFUAtClock) }},
		{Name: "verdict", Head: "verdict", Keep: true, Where: "verdict", Words: verdictWords,
			Value: func(m Median) any { return string(m.Verdict) }},
		{Name: "elasticity", Head: "elasticity", Kind: field.Number, Where: "elasticity", Wide: true,
			Words: "how time follows the clock: 0 not at all, 1 in proportion",
			Value: func(m Median) any { return unlessNone(m.Elasticity) }},
		{Name: "bimodal_fast_us", Head: "fast level us", Unit: field.Micros, JSON: "-", Words: "the faster level of a bimodal row",
			Value: func(m Median) any { return levelOf(m, 0) }},
		{Name: "bimodal_slow_us", Head: "slow level us", Unit: field.Micros, JSON: "-", Words: "the slower level of a bimodal row",
			Value: func(m Median) any { return levelOf(m, 1) }},
		{Name: "samples", Head: "samples", Kind: field.Count, Where: "samples", Words: samplesWords,
			Value: func(m Median) any { return m.Samples }},
		{Name: "clock_mhz", Head: "clock MHz", Unit: field.MHz, Where: "clock", Wide: true, Words: clockWords,
			Value: func(m Median) any { return unlessNone(m.ClockMHz) }},
		{Name: "label", Head: "label", Where: "label", Wide: true, Words: labelWords, Value: func(m Median) any { return code(m.Label) }},
		{Name: "failed", Head: "failed", Where: "failed", Flex: true, Words: "why the row could not be measured",
			Value: func(m Median) any { return word{m.Failed, Bad} }},
	}),
	field.Pick(medianSeries, "operation", "size", "layout"),
	field.Filters(field.Pick(medianSeries, "weights")),
	field.Of([]field.Field[Median]{
		{Name: "judged_us", Unit: field.Micros, Where: "us", NoColumn: true, JSON: "-", Words: judgedUSWords, Value: func(m Median) any {
			if m.AtClock.Mid > 0 {
				return m.AtClock.Mid
			}
			return unlessNone(m.US.Mid)
		}},
	}),
)

func levelOf(m Median, i int) any {
	if len(m.Modes) != 2 {
		return nil
	}
	return m.Modes[i]
}

// medianSheet is the table of medians; audit is the audit joined with them, or nil.
func medianSheet(medians []Median, audit *rules.Audit) Sheet {
	if audit == nil {
		return sheetOf("", field.Without(MedianFields, "us_at_clock", "verdict", "elasticity", "bimodal_fast_us", "bimodal_slow_us"),
			medians)
	}
	s := sheetOf("", MedianFields, medians)
	if slices.ContainsFunc(medians, func(m Median) bool { return m.AtClock.Mid > 0 }) {
		s.column("us").Name = "observed us"
	}
	return s
}
