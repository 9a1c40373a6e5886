package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// toDo is the advice for a rule or a cause, without code marks.
func toDo(kind explain.Kind, name string) string {
	return strings.ReplaceAll(explain.Of(kind, name).Do, "`", "")
}

// reading explains a report to a newcomer: the rules with findings, and the terms in the tables.
func (p *page) reading(in Input) {
	s := section{heading: "How to read this", folded: true}
	a := in.Audit
	for _, rule := range rules.AllRules() {
		if slices.ContainsFunc(a.Findings, func(f rules.Finding) bool { return f.Rule == rule }) {
			s.text = append(s.text, fmt.Sprintf("%s: %s. %s", rule, rule.Claim(), toDo(explain.Rule, string(rule))))
		}
	}
	s.text = append(s.text, causeReading(a.Findings)...)
	s.text = append(s.text,
		"The reference of a row is the best MFU of comparable smaller M. Rows with too few samples, at another clock or with bimodal "+
			"timings are not compared, so the curve may be higher. The best is averaged over its neighbors, or lowered by its error.",
		"MFU is the achieved rate divided by the peak of the device. MFU at clock uses the peak at the measured clock.")
	for _, of := range in.Series {
		if mfu := of.Key.Operation.Definition().MFU; of.Peak.Memory.Rate > 0 && !slices.Contains(s.text, mfu) {
			s.text = append(s.text, mfu)
		}
	}
	if clock := ClockText(a); clock != "" {
		s.text = append(s.text,
			"Rows are judged by their time "+clock+
				". An elasticity per row converts the observed time: 1 if time follows the clock, 0 if it does not.")
	}
	if slices.ContainsFunc(a.Findings, func(f rules.Finding) bool { return f.Sustained != nil }) {
		s.text = append(s.text,
			"Loss sustained compares the worst M with its reference while each runs alone, at the clock where the device settles. Seen "+
				"in names the clocks at which the loss exceeds the bound of the rule.")
	}
	if a.Marginal > 0 {
		s.text = append(s.text, "A marginal row is at the threshold, and more samples do not help. An undecided row needs more samples.")
	}
	if len(a.Findings) > 0 {
		s.text = append(s.text,
			"Loss is the wasted share of the time at the worst M, with its confidence interval in brackets.",
			"Stake is loss times time, summed over the rows of the finding. Findings of a status are ordered by it.",
			"Confirmed findings were measured again, in turns with the case that they are compared with. Unconfirmed findings were not "+
				"measured again, or stayed uncertain. Waived findings are excused until a date.")
	}
	if in.Splits != nil && len(allRemedies(in.Splits)) > 0 {
		s.text = append(s.text,
			"An executed remedy was timed in turns with the product as it is. Gain is the direct time divided by the executed time. The "+
				"remedy pays if the lower bound of the gain exceeds the margin of the rules.",
			"Saved is the time that a remedy saves over all rows that use it.",
			"Predicted times follow from the sweep and prove nothing.")
	}
	s.text = append(s.text, "gemmaudit explain WORD explains each of these words, with a picture.")
	p.add(s)
}
