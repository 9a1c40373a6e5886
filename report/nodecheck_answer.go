package report

import (
	"cmp"
	"fmt"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func (c *NodeCheck) sentences() []Note {
	verdict := Note{c.verdict(), Good}
	switch {
	case !c.Fit:
		verdict.Tone = Bad
	case c.count(fleet.Fine) < len(c.Devices):
		verdict.Tone = Open
	}
	if len(c.Devices) > 0 && c.Fit && c.undecided() == len(c.Devices) {
		return []Note{verdict} // includes the reason
	}
	return []Note{verdict, {Text: "Found: " + c.Reason + "."}}
}

func (c *NodeCheck) verdict() string {
	cards := Plural(len(c.Devices), "device", "devices")
	text := fmt.Sprintf("%s is fit: no card of %s must be drained", cmp.Or(c.Host, "this node"), cards)
	switch drained := c.count(fleet.Drain); {
	case !c.Fit:
		text = fmt.Sprintf("%s is not fit: %d of %s must be drained", cmp.Or(c.Host, "this node"), drained, cards)
	case len(c.Devices) > 0 && c.undecided() == len(c.Devices):
		return fmt.Sprintf("%s has no verdict: %s.", cmp.Or(c.Host, "this node"), c.Reason)
	}
	if n := c.count(fleet.Watch); n > 0 {
		text += fmt.Sprintf(", %d to watch", n)
	}
	if n := c.undecided(); n > 0 {
		text += fmt.Sprintf(", %d without a verdict", n)
	}
	cases := 0
	for _, d := range c.Devices {
		cases += d.Cases
	}
	return text + fmt.Sprintf(" (%s compared with %s).", Count(cases, "case"), c.Baseline)
}

func (c *NodeCheck) undecided() int { return c.count(fleet.Undecided) + c.count(fleet.Unjudged) }

func (c *NodeCheck) count(v fleet.Verdict) int {
	return countOf(c.Devices, func(d fleet.Check) bool { return d.Verdict == v })
}
