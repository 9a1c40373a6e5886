package report

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// fleetCardFields are the facts of a card of a fleet.
var fleetCardFields = []field.Field[*fleet.Card]{
	{Name: "verdict", Head: "verdict", Kind: field.Text,
		Words: "drain, watch, fine or unjudged",
		Value: func(c *fleet.Card) any { return word{string(c.Verdict), verdictTone(c.Verdict)} }},
	{Name: "host", Head: "host", Kind: field.Text,
		Words: "the host that it is in",
		Value: func(c *fleet.Card) any { return c.Host }},
	{Name: "device", Head: "device", Kind: field.Text,
		Words: "its device on the host, as cuda:0",
		Value: func(c *fleet.Card) any { return c.Device }},
	{Name: "card", Head: "card", Kind: field.Text, Wide: true,
		Words: "UUID or serial number of the card",
		Value: func(c *fleet.Card) any { return c.Card }},
	{Name: "model", Head: "model", Kind: field.Text, Wide: true,
		Words: "the card's model",
		Value: func(c *fleet.Card) any { return c.Model }},
	{Name: "labels", Head: "labels", Kind: field.Text, Wide: true,
		Words: "the machine's labels",
		Value: func(c *fleet.Card) any { return results.Labels(c.Labels).String() }},
	{Name: "kind", Head: "kind", Kind: field.Text,
		Words: "in which way it is slow",
		Value: func(c *fleet.Card) any { return string(c.Kind) }},
	{Name: "loss", Head: "loss", Kind: field.Bounds, Unit: field.Share, Wide: true, JSON: "-",
		Words: "time beyond that of its peers",
		Value: func(c *fleet.Card) any { return lossOver(c.Loss) }},
	{Name: "common", Head: "at the common clock", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over that of its peers at the common clock",
		Value: func(c *fleet.Card) any { return ratioOf(c.Common) }},
	{Name: "sustained", Head: "sustained", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over that of its peers as it was observed",
		Value: func(c *fleet.Card) any { return ratioOf(c.Sustained) }},
	{Name: "earlier", Head: "over its baseline", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over its own in the baseline",
		Value: func(c *fleet.Card) any {
			if c.Earlier == nil {
				return nil
			}
			return ratioOf(*c.Earlier)
		}},
	{Name: "p_adjusted", Head: "p adjusted", Kind: field.Number, Unit: field.Probability, Wide: true,
		Words: pWords,
		Value: func(c *fleet.Card) any { return c.AdjustedP }},
	{Name: "slow_cases", Head: "slow cases", Kind: field.Count,
		Words: "cases in which it is slower than its peers",
		Value: func(c *fleet.Card) any { return c.SlowCases }},
	{Name: "runs", Head: "runs", Kind: field.Count, Wide: true, JSON: "-",
		Words: "runs that measured it",
		Value: func(c *fleet.Card) any { return len(c.Runs) }},
	{Name: "since", Head: "since", Kind: field.Text, Wide: true, JSON: "-",
		Words: "since when it is slow",
		Value: func(c *fleet.Card) any {
			if c.Since == nil {
				return nil
			}
			return minuteText(c.Since.Time)
		}},
	{Name: "clock_mhz", Head: "clock MHz", Kind: field.Number, Unit: field.MHz, Wide: true, JSON: "conditions.clock_mhz",
		Words: clockWords,
		Value: func(c *fleet.Card) any { return unlessNone(c.Conditions.ClockMHz) }},
	{Name: "power_w", Head: "power W", Kind: field.Number, Unit: field.Watts, Wide: true, JSON: "conditions.power_w",
		Words: "power of the device",
		Value: func(c *fleet.Card) any { return unlessNone(c.Conditions.PowerW) }},
	{Name: "temp_c", Head: "°C", Kind: field.Number, Unit: field.Celsius, Wide: true, JSON: "conditions.temp_c",
		Words: "temperature of the device",
		Value: func(c *fleet.Card) any { return unlessNone(c.Conditions.TempC) }},
	{Name: "throttled", Head: "throttled", Kind: field.Number, Unit: field.Share, Wide: true, JSON: "conditions.throttled",
		Words: "share of samples in which it was held back",
		Value: func(c *fleet.Card) any { return unlessNone(c.Conditions.Throttled) }},
	{Name: "reason", Head: "reason", Kind: field.Text, Flex: true,
		Words: "why the verdict is what it is",
		Value: func(c *fleet.Card) any { return c.Reason }},
}

// fleetCardSheet has a row a card; without all, those that are like their peers are left out.
func fleetCardSheet(r *fleet.Result, all bool) Sheet {
	var cards []*fleet.Card
	for i := range r.Cards {
		if all || r.Cards[i].Verdict != fleet.Fine {
			cards = append(cards, &r.Cards[i])
		}
	}
	return sheetOf("Cards", fleetCardFields, cards)
}

// ratioOf is a ratio of times, nothing where it is not known.
func ratioOf(i rules.Interval) any {
	if i == (rules.Interval{}) {
		return nil
	}
	return i
}

// lossOver is a ratio of times as the share that is lost.
func lossOver(i rules.Interval) any {
	if i == (rules.Interval{}) {
		return nil
	}
	return rules.Interval{Lo: i.Lo - 1, Mid: i.Mid - 1, Hi: i.Hi - 1}
}
