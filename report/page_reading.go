package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// toDo is what a reader can do about a rule or a cause, without the marks of code.
func toDo(kind explain.Kind, name string) string {
	return strings.ReplaceAll(explain.Of(kind, name).Do, "`", "")
}

// reading explains what stands in a report to one who has never seen any: the
// rules that found something, and the words of the tables.
func (p *page) reading(in Input) {
	s := section{heading: "How to read this", folded: true}
	a := in.Audit
	for _, rule := range rules.AllRules() {
		if slices.ContainsFunc(a.Findings, func(f rules.Finding) bool { return f.Rule == rule }) {
			s.text = append(s.text, fmt.Sprintf("%s: %s. %s", rule, rule.Claim(), toDo(explain.Rule, string(rule))))
		}
	}
	s.text = append(s.text, causeReading(a.Findings)...)
	s.text = append(s.text, "MFU is the achieved rate ÷ the machine's peak; at clock: the peak at the clock that was measured meanwhile")
	if slices.ContainsFunc(in.Series, func(s results.Series) bool { return s.Peak.Memory.Rate > 0 }) {
		s.text = append(s.text, "MFU of softmax is the achieved bandwidth ÷ that of a copy, as memory bounds it and not arithmetic")
	}
	if clock := ClockText(a); clock != "" {
		s.text = append(s.text, "rows are judged by their time "+clock+", to which each is brought by its own elasticity β: 1 where time follows the clock, 0 where it does not; observed is the time as it was measured")
	}
	if slices.ContainsFunc(a.Findings, func(f rules.Finding) bool { return f.Sustained != nil }) {
		s.text = append(s.text, "loss sustained compares the worst m with its reference when each runs by itself, at the clock that the device then settles at; seen in says where the loss is above the rule's bound")
	}
	if a.Marginal > 0 {
		s.text = append(s.text, "a marginal row is known well and lies so near the bound that it does not matter on which side; an undecided one is not known well enough")
	}
	if len(a.Findings) > 0 {
		s.text = append(s.text,
			"loss is the share of the time at the worst m that the rule says is wasted; brackets hold its bounds",
			"stake is the time at stake: loss times time, summed over the rows of the finding; findings of a status are listed by it",
			"confirmed findings were measured again on fresh samples, interleaved with what they are compared with; unconfirmed ones were not, or not surely enough; waived ones are excused until a date")
	}
	if in.Splits != nil && len(allRemedies(in.Splits)) > 0 {
		s.text = append(s.text,
			"a remedy that was executed was timed in turns with the product as it is (direct): gain is direct ÷ executed of those pairs, and it pays when the lower bound beats the rules' margin",
			"saved is the time that a remedy takes less than the product as it is, over all rows that it serves",
			"predicted times come from the sweep, and promise nothing")
	}
	s.text = append(s.text, "gemmaudit explain NAME says of each of these words how it is decided, with a picture")
	p.add(s)
}
