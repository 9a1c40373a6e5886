package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/change"
)

func cardNotes(c *cards.Comparison) []Note {
	if c == nil {
		return nil
	}
	head := Notef(Good, "%s of one host: no card is surely slower than the median by more than %s", Count(len(c.Cards), "card"),
		FormatShare(c.Threshold))
	if len(c.Outliers) > 0 {
		head = Notef(Bad, "%s of one host: %s slower than the others by more than %s", Count(len(c.Cards), "card"),
			strings.Join(c.Outliers, ", "), FormatShare(c.Threshold))
	}
	notes := []Note{head}
	for _, v := range c.Cards {
		if v.Explanation != "" {
			tone := Bad
			if v.Change == change.Faster && v.Slower == 0 {
				tone = Neutral
			}
			notes = append(notes, Note{v.Explanation, tone})
		}
	}
	return notes
}

var hostCardFields = field.Of([]field.Field[cards.Verdict]{
	{Name: "device", Head: "card", Words: "the card, as cuda:0"},
	{Name: "name", Head: "name", Hoist: true, Words: "the card's model"},
	{Name: "state", Head: "state", JSON: "change", Words: "slower, faster, same or undecided",
		Value: func(v cards.Verdict) any { return changeCell(v.Change) }},
	{Name: "observed", Head: "time ÷ median card's", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over the median card's as it was observed"},
	{Name: "ratio", Head: "at one clock", Kind: field.Bounds, Unit: field.Factor, Words: "time over the median card's at one clock",
		Value: func(v cards.Verdict) any { return when(v.ClockMHz > 0, v.Ratio) }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "cases that were compared"},
	{Name: "slower", Head: "slower", Kind: field.Count, Words: "cases that are slower"},
	{Name: "faster", Head: "faster", Kind: field.Count, Words: "cases that are faster"},
	{Name: "same", Head: "same", Kind: field.Count, Words: "cases that are the same"},
	{Name: "undecided", Head: "undecided", Kind: field.Count, Words: "cases that are undecided"},
	{Name: "cause", Head: "cause", JSON: "-", Words: "why it differs", Value: func(v cards.Verdict) any { return causeCell(v.Cause) }},
	{Name: "clock_mhz", Head: "clock MHz", Unit: field.MHz, Words: clockWords},
	{Name: "power_w", Head: "power W", Unit: field.Watts, Words: "power of the device"},
	{Name: "temp_c", Head: "°C", Unit: field.Celsius, Words: "temperature of the device"},
	{Name: "throttled", Head: "throttled", Unit: field.Share, Words: throttledWords},
	{Name: "throttle", Head: "by", JSON: "-", Words: "the most frequent reason of that",
		Value: func(v cards.Verdict) any { return v.Throttle }},
})

var cardCaseFields = field.Of([]field.Field[cards.Case]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(c cards.Case) any { return seriesCell(c.Series) }},
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "state", Head: "state", JSON: "change", Words: "slower or faster",
		Value: func(c cards.Case) any { return changeCell(c.Change) }},
	{Name: "us", Head: "time us", Kind: field.Bounds, Unit: field.Micros, Words: "time of a launch"},
	{Name: "ratio", Head: "÷ median card's", Kind: field.Bounds, Unit: field.Factor, Words: "time over the median card's"},
	{Name: "p_adjusted", Head: "p adjusted", Unit: field.Probability, Words: pWords},
})

func cardSheets(c *cards.Comparison) []Sheet {
	if c == nil {
		return nil
	}
	every := sheetOf("Cards", hostCardFields, c.Cards)
	var differing []cards.Case
	left := 0
	for _, x := range c.Cases {
		if x.Change != change.Slower && x.Change != change.Faster {
			continue
		}
		if len(differing) == pageFindings {
			left++
			continue
		}
		differing = append(differing, x)
	}
	if len(differing) == 0 {
		return []Sheet{every}
	}
	title := "Cases where a card differs"
	if left > 0 {
		title += fmt.Sprintf(" (the first %d of %d)", pageFindings, pageFindings+left)
	}
	return []Sheet{every, sheetOf(title, cardCaseFields, differing)}
}

func (p *page) cards(c *cards.Comparison) {
	for i, s := range cardSheets(c) {
		s := s
		part := section{heading: s.Title, sheet: &s}
		if i == 0 {
			part.text = []string{c.Family + "."}
		}
		s.Title = ""
		p.add(part)
	}
}
