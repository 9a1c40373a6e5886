package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/advice"
)

var passFields = field.Of([]field.Field[advice.Pass]{
	{Name: "m", Kind: field.Count, Words: "the M of the pass"},
	{Name: "seconds", Kind: field.Bounds, Unit: field.Seconds, Words: "time of the pass"},
	{Name: "parts_seconds", Unit: field.Seconds, Words: "time of its parts alone"},
	{Name: "tokens_per_second", Kind: field.Bounds, Unit: field.PerSecond, Words: "tokens a second"},
	{Name: "inferred", Kind: field.Flag, Words: "the time of a part follows from other Ms"},
})

var partFields = field.Of([]field.Field[advice.Part]{
	{Name: "part", Head: "part", JSON: "-", Words: "the products that one series serves",
		Value: func(p advice.Part) any { return p.Name() }},
	{Name: "count", Head: "times", Kind: field.Count, Words: "how often a pass has it"},
	{Name: "rows", Head: "rows", JSON: "-", Words: "rows of a pass that it runs on", Value: func(p advice.Part) any {
		if p.FixedM > 0 {
			return fmt.Sprintf("the last, as m%d", p.FixedM)
		}
		return "all"
	}},
	{Name: "source", Head: "source", Words: "where its times come from"},
	{Name: "series", Head: "series", JSON: "-", Words: "the series of a swept part",
		Value: func(p advice.Part) any { return when(p.Source == advice.Swept, p.Series.Text()) }},
})

// savingFields are the fields of a saving, empty without a usual setting to compare with.
func savingFields[T any](saving func(T) advice.Saving) []field.Field[T] {
	return field.Via(field.Of([]field.Field[advice.Saving]{
		{Name: "gain", Head: "gain", Kind: field.Bounds, Unit: field.Factor, Words: "the usual time over the advised one",
			Value: func(s advice.Saving) any { return s.Gain }},
		{Name: "saved_seconds_per_second", Head: "saved of a second", Kind: field.Bounds, Unit: field.OfSecond,
			Words: "time saved of each second that the usual takes", Value: func(s advice.Saving) any { return s.Saved }},
	}), func(record T) (advice.Saving, bool) {
		s := saving(record)
		return s, s.Usual != 0
	})
}

var chunkSizeFields = field.Of([]field.Field[advice.ChunkSize]{
	{Name: "m", Head: "chunk", Kind: field.Count, Words: "tokens of a chunk"},
	{Name: "seconds", Head: "ms", Kind: field.Bounds, Unit: field.Seconds, Words: "time of its pass"},
	{Name: "tokens_per_second", Head: "tokens/s", Kind: field.Bounds, Unit: field.PerSecond, Words: "tokens a second"},
})

var usualChunkFields = slices.Concat(
	field.Of([]field.Field[advice.UsualChunk]{
		{Name: "m", Head: "chunk", Kind: field.Count, Words: "tokens of a chunk"},
		{Name: "seconds", Head: "ms", Kind: field.Bounds, Unit: field.Seconds, Words: "time of its pass",
			Value: func(u advice.UsualChunk) any {
				if !u.Known {
					return word{"unknown", Faint}
				}
				return u.Seconds
			}},
	}),
	field.Via(field.Pick(chunkSizeFields, "tokens_per_second"),
		func(u advice.UsualChunk) (advice.ChunkSize, bool) { return u.ChunkSize, u.Known }),
	savingFields(func(u advice.UsualChunk) advice.Saving {
		if !u.Known {
			return advice.Saving{}
		}
		return u.Saving
	}),
	field.Of([]field.Field[advice.UsualChunk]{
		{Name: "best_m_up_to", Head: "best up to it", Kind: field.Count, JSON: "-", Words: "the best chunk that is no larger",
			Value: func(u advice.UsualChunk) any { return unlessZero(u.BestM) }},
		{Name: "best_gain", Head: "its gain", Kind: field.Bounds, Unit: field.Factor, JSON: "-",
			Words: "the rate of that chunk over this one's", Value: func(u advice.UsualChunk) any { return when(u.Known, u.BestGain) }},
	}),
)

var sizesFields = slices.Concat(field.Of([]field.Field[advice.SizesAgainst]{
	{Name: "list", Head: "list", JSON: "name", Words: "the usual list"},
	{Name: "sizes", Head: "sizes", Kind: field.Count, JSON: "-", Words: "sizes of the list",
		Value: func(x advice.SizesAgainst) any { return len(x.Captured) }},
	{Name: "unknown", Head: "unknown", Kind: field.Count, JSON: "-", Words: "sizes without a known time",
		Value: func(x advice.SizesAgainst) any { return unlessZero(len(x.Unknown)) }},
	{Name: "traffic_covered", Head: "traffic compared", Unit: field.Share,
		Words: "share of the traffic that the list captures at known sizes"},
	{Name: "usual_seconds", Head: "ms a batch", Unit: field.Seconds, Words: "time of a batch with the usual list",
		Value: func(x advice.SizesAgainst) any { return unlessNone(x.Usual) }},
	{Name: "advised_seconds", Head: "advised", Unit: field.Seconds, Words: "time of a batch with the advised sizes",
		Value: func(x advice.SizesAgainst) any { return when(x.Usual > 0, x.Advised) }},
}), savingFields(func(x advice.SizesAgainst) advice.Saving { return x.Saving }))

var skipFields = field.Of([]field.Field[advice.Skip]{
	{Name: "m", Head: "m", Kind: field.Count, Words: "the size that is never worth running"},
	{Name: "run_m", Head: "run", Kind: field.Count, Words: "the size to pad to"},
	{Name: "seconds", Head: "ms", Unit: field.Seconds, Words: "its time"},
	{Name: "run_seconds", Head: "as that", Unit: field.Seconds, Words: "time of the size to pad to"},
	{Name: "gain", Head: "gain", Kind: field.Bounds, Unit: field.Factor, Words: "its time over that of the size to pad to"},
	{Name: "p_adjusted", Head: "adjusted p", Unit: field.Probability, Words: pWords},
})

// settingLine is a line of a setting; lines after the first hold only text.
type settingLine struct {
	advice.Setting
	line string
}

var settingFields = field.Of([]field.Field[settingLine]{
	{Name: "engine", Head: "engine", Words: "the engine that is set"},
	{Name: "advice", Head: "advice", Words: "chunk or capture"},
	{Name: "gains", Head: "gains", JSON: "-", Words: "whether it gains over the usual",
		Value: func(s settingLine) any { return string(s.Gains) }},
	{Name: "form", Head: "where", Words: "where it is set"},
	{Name: "text", Head: "setting", JSON: "-", Flex: true, Words: "what to write there",
		Value: func(s settingLine) any { return code(s.line) }},
})

func settingSheet(a *advice.Advice) Sheet {
	var lines []settingLine
	for _, x := range a.Settings {
		for i, line := range strings.Split(x.Text, "\n") {
			if i > 0 {
				x = advice.Setting{}
			}
			lines = append(lines, settingLine{x, line})
		}
	}
	return sheetOf("Settings", settingFields, lines)
}
