package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
)

// cardNotes say in a line each how the cards of a host compare, and what is known
// of those that stand out.
func cardNotes(c *rules.Cards) []Note {
	if c == nil {
		return nil
	}
	head := Note{fmt.Sprintf("%s of one host: none is surely slower than the median by more than %s", count(len(c.Cards), "card"), formatShare(c.Threshold)), Good}
	if len(c.Outliers) > 0 {
		head = Note{fmt.Sprintf("%s of one host: %s slower than the others by more than %s", count(len(c.Cards), "card"), strings.Join(c.Outliers, ", "), formatShare(c.Threshold)), Bad}
	}
	notes := []Note{head}
	for _, v := range c.Cards {
		if v.Explanation != "" {
			tone := Bad
			if v.Change == rules.Faster && v.Slower == 0 {
				tone = Neutral
			}
			notes = append(notes, Note{v.Explanation, tone})
		}
	}
	return notes
}

// cardSheets are the comparison of cards: a row a card, and a row for each case in
// which one differs.
func cardSheets(c *rules.Cards) []Sheet {
	if c == nil {
		return nil
	}
	cards := Sheet{Title: "Cards", Columns: []Column{
		{Name: "card", Key: "device"}, {Name: "name", Key: "name", Hoist: true}, {Name: "state", Key: "state"},
		{Name: "time ÷ median card's", Key: "observed", Align: Right, Interval: true}, {Name: "at one clock", Key: "ratio", Align: Right, Interval: true},
		{Name: "cases", Key: "cases", Align: Right}, {Name: "slower", Key: "slower", Align: Right}, {Name: "faster", Key: "faster", Align: Right},
		{Name: "same", Key: "same", Align: Right}, {Name: "undecided", Key: "undecided", Align: Right}, {Name: "cause", Key: "cause"},
		{Name: "clock MHz", Key: "clock_mhz", Align: Right}, {Name: "power W", Key: "power_w", Align: Right}, {Name: "°C", Key: "temp_c", Align: Right},
		{Name: "throttled", Key: "throttled", Align: Right}, {Name: "by", Key: "throttle"},
	}}
	known := func(v float64) any {
		if v <= 0 {
			return nil
		}
		return number{v, 0}
	}
	for _, v := range c.Cards {
		row := []any{v.Device, v.Name, changeCell(v.Change), bounds{v.Observed, factorCell}, nil, v.Cases, v.Slower, v.Faster, v.Same, v.Undecided, causeCell(v.Cause),
			known(v.ClockMHz), known(v.PowerW), known(v.TempC), nil, v.Throttle}
		if v.ClockMHz > 0 {
			row[4] = bounds{v.Ratio, factorCell}
		}
		if v.Throttled > 0 {
			row[14] = share(v.Throttled)
		}
		cards.Rows = append(cards.Rows, row)
	}
	differing := Sheet{Title: "Cases in which a card differs", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "m", Key: "m", Align: Right}, {Name: "state", Key: "state"},
		{Name: "time us", Key: "us", Align: Right, Interval: true}, {Name: "÷ median card's", Key: "ratio", Align: Right, Interval: true},
		{Name: "p adjusted", Key: "p_adjusted", Align: Right},
	}}
	left := 0
	for _, x := range c.Cases {
		if x.Change != rules.Slower && x.Change != rules.Faster {
			continue
		}
		if len(differing.Rows) == pageFindings {
			left++
			continue
		}
		differing.Rows = append(differing.Rows, []any{seriesCell(x.Series), x.M, changeCell(x.Change), bounds{x.US, microsCell}, bounds{x.Ratio, factorCell}, probability(x.AdjustedP)})
	}
	if len(differing.Rows) == 0 {
		return []Sheet{cards}
	}
	if left > 0 {
		differing.Title += fmt.Sprintf(" (the first %d of %d)", pageFindings, pageFindings+left)
	}
	return []Sheet{cards, differing}
}

// cards is the section of a report that compares the cards of the host.
func (p *page) cards(c *rules.Cards) {
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
