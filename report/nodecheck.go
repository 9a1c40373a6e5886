package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
)

// NodeCheckSchema is the value of NodeCheck.Schema.
const NodeCheckSchema = "gemmaudit.check/1"

// NodeCheck compares the devices of one machine with a fleet.
type NodeCheck struct {
	Schema   string         `json:"schema"`
	Baseline string         `json:"baseline"` // the file
	Host     string         `json:"host"`
	Labels   results.Labels `json:"labels,omitempty"`
	// Fit reports that no device must be drained. Reason says in one line why not, or the result.
	Fit      bool            `json:"fit"`
	Reason   string          `json:"reason"`
	Devices  []fleet.Check   `json:"devices"`
	Seconds  float64         `json:"took_s"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

var checkFields = field.Of([]field.Field[fleet.Check]{
	{Name: "device", Head: "device", Words: "the device, as cuda:0"},
	{Name: "card", Head: "card", Words: cardWords},
	{Name: "model", Head: "model", Wide: true, Words: "the card's model"},
	{Name: "verdict", Head: "verdict", Words: cardVerdictWords, Value: func(c fleet.Check) any { return verdictWord(c.Verdict) }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "cases that the baseline has too"},
	{Name: "common", Head: "time at common clock", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over the baseline's at the common clock", Value: func(c fleet.Check) any { return ratioOf(c.Common) }},
	{Name: "sustained", Head: "sustained time", Kind: field.Bounds, Unit: field.Factor,
		Words: "time over the baseline's as it was observed", Value: func(c fleet.Check) any { return ratioOf(c.Sustained) }},
	{Name: "kind", Head: "kind", JSON: "-", Words: slowKindWords, Value: func(c fleet.Check) any { return string(c.Kind) }},
	{Name: "reason", Head: "reason", Flex: true, Words: reasonWords},
})

// WriteNodeCheck prints a check of a node.
func WriteNodeCheck(w io.Writer, f Format, c *NodeCheck) error {
	doc := &Document{Subject: "check", Value: c, Items: items(c.Devices), Head: c.sentences()}
	if len(c.Labels) > 0 {
		doc.Head = append(doc.Head, Note{"labels: " + c.Labels.String(), Faint})
	}
	doc.Sheets = []Sheet{sheetOf("", checkFields, c.Devices)}
	doc.Notes = warningNotes(c.Warnings)
	if f == Wide {
		doc.Note(Faint, "time over that of %s, 1 is as fast; at the common clock and in sustained time, with bounds of 95 %% "+"confidence",
			c.Baseline)
	}
	return doc.Render(w, f)
}

func verdictWord(v fleet.Verdict) any {
	switch v {
	case fleet.Drain:
		return word{string(v), Bad}
	case fleet.Fine:
		return word{string(v), Good}
	}
	return word{string(v), Open}
}

// Conclude sets Fit and Reason: it summarizes the result in one line: cards to drain, else outliers, else all cards.
func (c *NodeCheck) Conclude() {
	var drained, others, fine []string
	for _, d := range c.Devices {
		name := d.Device
		if d.Card != "" && !strings.HasSuffix(d.Card, "/"+d.Device) {
			name += " (" + d.Card + ")"
		}
		if d.Verdict == fleet.Unjudged {
			name += ":"
		}
		switch text := name + " " + d.Reason; d.Verdict {
		case fleet.Drain:
			drained = append(drained, text)
		case fleet.Fine:
			fine = append(fine, text)
		default:
			others = append(others, text)
		}
	}
	c.Fit = len(drained) == 0
	switch {
	case len(drained) > 0:
		c.Reason = strings.Join(drained, "; ")
	case len(others) > 0:
		c.Reason = strings.Join(others, "; ")
	case len(fine) == 1:
		c.Reason = fine[0]
	default:
		c.Reason = fmt.Sprintf("%d cards, each %s", len(fine), c.Devices[0].Reason)
	}
}

// Evidence is the input of the exit code; held is the measured part of the check's plan.
func (c *NodeCheck) Evidence(held outcome.Held, accept outcome.Accept) outcome.Evidence {
	e := outcome.Evidence{Name: cmp.Or(c.Host, "the node"), Held: []outcome.Held{held}, Accept: accept}
	if !c.Fit {
		e.Proven = []string{fmt.Sprintf("%s is not fit: %s", e.Name, c.Reason)}
	}
	for _, d := range c.Devices {
		if d.Verdict == fleet.Unjudged || d.Verdict == fleet.Undecided {
			e.Open = append(e.Open, outcome.Ground{Text: d.Device + ": " + d.Reason})
		}
	}
	return e
}
