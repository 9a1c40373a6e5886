package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// NodeCheckSchema is the value of NodeCheck.Schema.
const NodeCheckSchema = "gemmaudit.check/1"

// NodeCheck is how the devices of one machine compare with a fleet.
type NodeCheck struct {
	Schema   string         `json:"schema"`
	Baseline string         `json:"baseline"` // the file
	Host     string         `json:"host"`
	Labels   results.Labels `json:"labels,omitempty"`
	// Fit is whether no device is to be drained, Reason why not, or what was found, in one line.
	Fit      bool            `json:"fit"`
	Reason   string          `json:"reason"`
	Devices  []fleet.Check   `json:"devices"`
	Seconds  float64         `json:"took_s"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

// WriteNodeCheck prints a check of a node.
func WriteNodeCheck(w io.Writer, f Format, c *NodeCheck) error {
	tone, word := Good, "fit"
	if !c.Fit {
		tone, word = Bad, "not fit"
	}
	doc := &Document{Subject: "check", Value: c, Items: []any{}, Head: []Note{{word + ": " + c.Reason, tone}}}
	if len(c.Labels) > 0 {
		doc.Head = append(doc.Head, Note{"labels: " + c.Labels.String(), Faint})
	}
	sheet := Sheet{Columns: []Column{
		{Name: "device", Key: "device"}, {Name: "card", Key: "card"}, {Name: "model", Key: "model", Wide: true}, {Name: "verdict", Key: "verdict"},
		{Name: "cases", Key: "cases", Align: Right}, {Name: "time at common clock", Key: "common", Align: Right, Interval: true},
		{Name: "sustained time", Key: "sustained", Align: Right, Interval: true}, {Name: "kind", Key: "kind"}, {Name: "reason", Key: "reason", Flex: true},
	}}
	known := func(i rules.Interval) any {
		if i.Mid <= 0 {
			return nil
		}
		return bounds{i, factorCell}
	}
	for _, d := range c.Devices {
		doc.Items = append(doc.Items, d)
		sheet.Rows = append(sheet.Rows, []any{d.Device, d.Card, d.Model, verdictWord(d.Verdict), d.Cases, known(d.Common), known(d.Sustained), string(d.Kind), d.Reason})
	}
	doc.Sheets = []Sheet{sheet}
	doc.Notes = warningNotes(c.Warnings)
	doc.Notes = append(doc.Notes, Note{fmt.Sprintf("time over that of %s, 1 is as fast; at the common clock and in sustained time, with bounds of 95 %% confidence", c.Baseline), Faint})
	return doc.Render(w, f)
}

// verdictWord is a verdict on a card in its tone.
func verdictWord(v fleet.Verdict) any {
	switch v {
	case fleet.Drain:
		return word{string(v), Bad}
	case fleet.Fine:
		return word{string(v), Good}
	}
	return word{string(v), Open}
}
