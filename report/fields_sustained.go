package report

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Findings and remedies give the times of their cases when each case runs alone.
var (
	findingSustained = sustainedFields("mJ a launch", "reference mJ", true,
		field.Field[*rules.Sustained]{Name: "sustained_loss", Head: "loss sustained", Unit: field.Share, JSON: "sustained.loss",
			Words: "share of the time that is lost in sustained running", Value: func(s *rules.Sustained) any { return s.Loss }},
		"seen in", "where the loss is above the rule's bound")
	remedySustained = sustainedFields("direct mJ", "remedy mJ", false,
		field.Field[*rules.Sustained]{Name: "sustained_gain", Head: "gain sustained", Unit: field.Factor, JSON: "-",
			Words: "direct time over the remedy's in sustained running", Value: func(s *rules.Sustained) any { return s.US / s.AgainstUS }},
		"pays in", "where the remedy pays")
)

// sustainedFields returns first and the fields after it. own and against are the headers of the energies.
// wide shows the energy of the reference, usually another M, only in the wide format.
func sustainedFields(own, against string, wide bool, first field.Field[*rules.Sustained],
	seen, seenWords string) []field.Field[*rules.Sustained] {
	return field.Of([]field.Field[*rules.Sustained]{
		first,
		{Name: "seen_in", Head: seen, JSON: "sustained.seen_in", Words: seenWords,
			Value: func(s *rules.Sustained) any { return seenCell(s.SeenIn) }},
		{Name: "sustained_energy_mj", Head: own, Unit: field.Millijoules, JSON: "sustained.energy_mj",
			Words: "energy of a launch in sustained running", Value: func(s *rules.Sustained) any { return unlessNone(s.EnergyMJ) }},
		{Name: "sustained_against_energy_mj", Head: against, Unit: field.Millijoules, Wide: wide, JSON: "sustained.against_energy_mj",
			Words: "energy of a launch that it is compared with",
			Value: func(s *rules.Sustained) any { return unlessNone(s.AgainstEnergyMJ) }},
		{Name: "sustained_us", Head: "sustained us", Unit: field.Micros, Wide: true, JSON: "sustained.us",
			Words: "time of a launch in sustained running", Value: func(s *rules.Sustained) any { return s.US }},
		{Name: "sustained_against_us", Head: "against us", Unit: field.Micros, Wide: true, JSON: "sustained.against_us",
			Words: "time of a launch that it is compared with", Value: func(s *rules.Sustained) any { return s.AgainstUS }},
		{Name: "sustained_clock_mhz", Head: "sustained MHz", Unit: field.MHz, Wide: true, JSON: "sustained.clock_mhz",
			Words: "clock in sustained running", Value: func(s *rules.Sustained) any { return unlessNone(s.ClockMHz) }},
		{Name: "sustained_against_clock_mhz", Head: "against MHz", Unit: field.MHz, Wide: true, JSON: "sustained.against_clock_mhz",
			Words: "clock of the compared case", Value: func(s *rules.Sustained) any { return unlessNone(s.AgainstClockMHz) }},
	})
}

// sustainedSheet is a table of records that may have sustained runs. Without any, it omits those columns.
// If some have one, head names the common-clock field.
func sustainedSheet[T any](name, head string, fields []field.Field[T], records []T, ran func(T) bool) Sheet {
	if !slices.ContainsFunc(records, ran) {
		var names []string
		for _, f := range slices.Concat(findingSustained, remedySustained) {
			names = append(names, f.Name)
		}
		return sheetOf("", field.Without(fields, names...), records)
	}
	s := sheetOf("", fields, records)
	if head != "" {
		s.column(name).Name = head
	}
	return s
}
