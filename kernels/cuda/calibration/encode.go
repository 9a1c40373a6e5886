package calibration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Encode writes a file that [Parse] reads: models by name, a constant a line in the order of
// the model's fields, so that a new fit shows as changed numbers.
func (c *Card) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n \"format\": %d,\n \"card\": %s,\n \"capability\": %d,\n \"sms\": %d,\n \"bandwidth\": %s,\n \"driver\": %s,\n \"date\": %s,\n \"models\": {",
		c.Format, quote(c.Card), c.Capability, c.SMs, number(c.Bandwidth), quote(c.Driver), quote(c.Date))
	between := "\n"
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		fmt.Fprintf(&b, "%s  %s: {\n   \"fitted_to\": %s,\n   \"constants\": {", between, quote(name), quote(m.FittedTo))
		between = "\n"
		for _, constant := range m.Order(name) {
			q := m.Constants[constant]
			fmt.Fprintf(&b, "%s    %s: {\"value\": %s, \"unit\": %s}", between, quote(constant), number(q.Value), quote(q.Unit))
			between = ",\n"
		}
		b.WriteString("\n   }\n  }")
		between = ",\n"
	}
	b.WriteString("\n }\n}\n")
	return b.Bytes()
}

// number is the shortest text that is read as v.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s) // strings are always encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
