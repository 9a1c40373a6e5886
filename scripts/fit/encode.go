package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// encode writes a file that [calibration.Parse] reads. Models and constants are sorted by name, with one
// constant per line, so a diff of a new fit shows only numbers.
func encode(c *calibration.Card) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n \"format\": %d,\n \"card\": %q,\n \"capability\": %d,\n \"sms\": %d,\n \"bandwidth\": %g,\n \"driver\": %q,\n"+
		" \"date\": %q,\n \"models\": {", c.Format, c.Card, c.Capability, c.SMs, c.Bandwidth, c.Driver, c.Date)
	comma := func(i int) string { return map[bool]string{true: "\n", false: ",\n"}[i == 0] }
	for i, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		fmt.Fprintf(&b, "%s  %q: {\n   \"fitted_to\": %q,\n   \"constants\": {", comma(i), name, m.FittedTo)
		for j, constant := range slices.Sorted(maps.Keys(m.Constants)) {
			q := m.Constants[constant]
			fmt.Fprintf(&b, "%s    %q: {\"value\": %g, \"unit\": %q}", comma(j), constant, q.Value, q.Unit)
		}
		b.WriteString("\n   }\n  }")
	}
	b.WriteString("\n }\n}\n")
	return b.Bytes()
}
