package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

type groupConfound struct {
	fleet.Confound
	group, against fleet.Group
}

var confoundFields = field.Of([]field.Field[groupConfound]{
	{Name: "model", Head: "model", JSON: "-", Words: "the cards' model", Value: func(c groupConfound) any { return c.group.Model }},
	{Name: "cards", Head: "cards", Kind: field.Count, JSON: "-", Words: "cards of the group",
		Value: func(c groupConfound) any { return c.group.Cards }},
	{Name: "against", Head: "against", Kind: field.Count, JSON: "-", Words: "cards of the group that it is compared with",
		Value: func(c groupConfound) any { return c.against.Cards }},
	{Name: "ratio", Head: "time at the common clock", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over that of the other group at the common clock"},
	{Name: "sustained", Head: "sustained", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over that of the other group as it was observed"},
	{Name: "p", Head: "p", Unit: field.Probability, Words: "p-value that the groups are alike"},
	{Name: "factors", Head: "what differs", JSON: "-", Flex: true, Words: "differences in software and limits",
		Value: func(c groupConfound) any { return factorsText(c.Factors) }},
})

func confoundSheet(r *fleet.Result) Sheet {
	var records []groupConfound
	for _, c := range r.Confounds {
		records = append(records, groupConfound{c, r.Groups[c.Group], r.Groups[c.Against]})
	}
	return sheetOf("What differs in software and limits", confoundFields, records)
}

type scatterOf struct {
	fleet.Components
	group fleet.Group
	time  string
}

var scatterFields = field.Of([]field.Field[scatterOf]{
	{Name: "model", Head: "model", JSON: "-", Words: "the cards' model", Value: func(s scatterOf) any { return s.group.Model }},
	{Name: "time", Head: "time", JSON: "-", Words: "at the common clock or sustained", Value: func(s scatterOf) any { return s.time }},
	{Name: "host", Head: "between hosts", Unit: field.Share, Words: "standard deviation between hosts",
		Value: func(s scatterOf) any { return known(s.Host) }},
	{Name: "card", Head: "between cards", Unit: field.Share, Words: "standard deviation between cards of a host",
		Value: func(s scatterOf) any { return known(s.Card) }},
	{Name: "process", Head: "between processes", Unit: field.Share, Words: "standard deviation between processes on a card",
		Value: func(s scatterOf) any { return known(s.Process) }},
	{Name: "hosts", Head: "hosts", Kind: field.Count, Words: "hosts"},
	{Name: "cards", Head: "cards", Kind: field.Count, Words: "cards"},
	{Name: "processes", Head: "processes", Kind: field.Count, Words: "processes"},
	{Name: "cases", Head: "cases", Kind: field.Count, JSON: "-", Words: "cases that the cards have in common",
		Value: func(s scatterOf) any { return s.group.Cases }},
})

func groupSheet(r *fleet.Result) Sheet {
	var records []scatterOf
	seen := map[string]bool{}
	for _, g := range r.Groups {
		if !seen[g.Model] {
			seen[g.Model] = true
			records = append(records, scatterOf{g.Common, g, "at the common clock"}, scatterOf{g.Sustained, g, "sustained"})
		}
	}
	return sheetOf("Run-to-run variation (standard deviations, without flagged cards)", scatterFields, records)
}

type slowCase struct {
	fleet.CaseRatio
	card *fleet.Card
}

var slowCaseFields = field.Of([]field.Field[slowCase]{
	{Name: "host", Head: "host", JSON: "-", Words: "the host of the card", Value: func(c slowCase) any { return c.card.Host }},
	{Name: "device", Head: "device", JSON: "-", Words: hostDeviceWords, Value: func(c slowCase) any { return c.card.Device }},
	{Name: "series", Head: "series", JSON: "-", Words: "the series on any card",
		Value: func(c slowCase) any { return c.Series.TextOfAny() }},
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "ratio", Head: "time ÷ peers'", Unit: field.Factor, Words: "time over that of its peers"},
	{Name: "p_adjusted", Head: "p adjusted", Unit: field.Probability, Words: pWords},
})

func slowCaseSheet(r *fleet.Result) Sheet {
	var records []slowCase
	for i := range r.Cards {
		c := &r.Cards[i]
		if !slices.Contains([]fleet.Verdict{fleet.Drain, fleet.Watch}, c.Verdict) {
			continue
		}
		for _, x := range c.Worst {
			records = append(records, slowCase{x, c})
		}
	}
	return sheetOf("", slowCaseFields, records)
}

var sharedRemedyFields = field.Of([]field.Field[table.SharedEntry]{
	{Name: "product", Head: "product", JSON: "-", Words: "the product that it is for",
		Value: func(e table.SharedEntry) any { return e.Product.String() }},
	{Name: "interval", Head: "M", JSON: "-", Words: "first and last M",
		Value: func(e table.SharedEntry) any { return IntervalText(e.From, e.To) }},
	{Name: "action", Head: "action", JSON: "-", Words: "what to do instead",
		Value: func(e table.SharedEntry) any { return ActionText(e.Action, e.From) }},
	{Name: "cards", Head: "cards", Kind: field.Count, Words: "cards on which it pays"},
	{Name: "of", Head: "of", Kind: field.Count, Words: "cards on which the tables were measured"},
	{Name: "gain", Head: "least gain", Unit: field.Factor, Words: "direct time over the remedy's, the least of the cards"},
	{Name: "only", Head: "only", JSON: "-", Flex: true, Words: "cards where it pays, if not all",
		Value: func(e table.SharedEntry) any { return namesText(e.Only) }},
})

func remedySheet(r *fleet.Result) Sheet { return sheetOf("Remedies", sharedRemedyFields, r.Remedies) }

func namesText(all []string) string {
	const most = 4
	text := strings.Join(all[:min(len(all), most)], ", ")
	if n := len(all); n > most {
		text += fmt.Sprintf(" and %d more", n-most)
	}
	return text
}

func known(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}
