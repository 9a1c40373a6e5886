package report

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

var fleetCardFields = field.Of([]field.Field[*fleet.Card]{
	{Name: "verdict", Head: "verdict", Keep: true, Words: cardVerdictWords,
		Value: func(c *fleet.Card) any { return word{string(c.Verdict), verdictTone(c.Verdict)} }},
	{Name: "host", Head: "host", Words: "the host that it is in"},
	{Name: "device", Head: "device", Words: hostDeviceWords},
	{Name: "card", Head: "card", Wide: true, Words: cardWords},
	{Name: "model", Head: "model", Wide: true, Words: "the card's model"},
	{Name: "labels", Head: "labels", Wide: true, Words: "the machine's labels",
		Value: func(c *fleet.Card) any { return results.Labels(c.Labels).String() }},
	{Name: "kind", Head: "kind", Words: slowKindWords},
	{Name: "loss", Head: "loss", Kind: field.Bounds, Unit: field.Share, Wide: true, JSON: "-", Words: "time beyond its peers",
		Value: func(c *fleet.Card) any { return lossOver(c.Loss) }},
	{Name: "common", Head: "at the common clock", Kind: field.Bounds, Unit: field.Factor,
		Words: "time relative to its peers at the common clock", Value: func(c *fleet.Card) any { return ratioOf(c.Common) }},
	{Name: "sustained", Head: "sustained", Kind: field.Bounds, Unit: field.Factor, Words: "time relative to its peers as measured",
		Value: func(c *fleet.Card) any { return ratioOf(c.Sustained) }},
	{Name: "earlier", Head: "over its baseline", Kind: field.Bounds, Unit: field.Factor, Words: "time over its own in the baseline",
		Value: func(c *fleet.Card) any {
			if c.Earlier == nil {
				return nil
			}
			return ratioOf(*c.Earlier)
		}},
	{Name: "p_adjusted", Head: "p adjusted", Unit: field.Probability, Wide: true, Words: pWords},
	{Name: "slow_cases", Head: "slow cases", Kind: field.Count, Words: "cases where it is slower than its peers"},
	{Name: "runs", Head: "runs", Kind: field.Count, Wide: true, JSON: "-", Words: "runs that measured it",
		Value: func(c *fleet.Card) any { return len(c.Runs) }},
	{Name: "since", Head: "since", Wide: true, JSON: "-", Words: "since when it is slow", Value: func(c *fleet.Card) any {
		if c.Since == nil {
			return nil
		}
		return minuteText(c.Since.Time)
	}},
	{Name: "clock_mhz", Head: "clock MHz", Unit: field.MHz, Wide: true, JSON: "conditions.clock_mhz", Words: clockWords},
	{Name: "power_w", Head: "power W", Unit: field.Watts, Wide: true, JSON: "conditions.power_w", Words: "power of the device"},
	{Name: "temp_c", Head: "°C", Unit: field.Celsius, Wide: true, JSON: "conditions.temp_c", Words: "temperature of the device"},
	{Name: "throttled", Head: "throttled", Unit: field.Share, Wide: true, JSON: "conditions.throttled", Words: throttledWords},
	{Name: "reason", Head: "reason", Flex: true, Words: reasonWords},
})

// fleetCardSheet has a row per card; without all, it omits cards that match their peers.
func fleetCardSheet(r *fleet.Result, all bool) Sheet {
	var cards []*fleet.Card
	for i := range r.Cards {
		if all || r.Cards[i].Verdict != fleet.Fine {
			cards = append(cards, &r.Cards[i])
		}
	}
	return sheetOf("Cards", fleetCardFields, cards)
}

// ratioOf is a ratio of times, nil if unknown.
func ratioOf(i stats.Interval) any {
	if i == (stats.Interval{}) {
		return nil
	}
	return i
}

// lossOver converts a ratio of times to the share of time lost.
func lossOver(i stats.Interval) any {
	if i == (stats.Interval{}) {
		return nil
	}
	return stats.Interval{Lo: i.Lo - 1, Mid: i.Mid - 1, Hi: i.Hi - 1}
}
