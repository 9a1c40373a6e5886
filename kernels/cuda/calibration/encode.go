package calibration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	fmt.Fprintf(&b, "{\n \"format\": %d,\n \"card\": %s,\n \"capability\": %d,\n \"sms\": %d,\n \"bandwidth\": %s,\n \"driver\": %s,\n \"date\": %s,\n",
		c.Format, quote(c.Card), c.Capability, c.SMs, number(c.Bandwidth), quote(c.Driver), quote(c.Date))
	for _, field := range [][2]string{{"program", c.Program}, {"from", c.From}} {
		if field[1] != "" {
			fmt.Fprintf(&b, " %s: %s,\n", quote(field[0]), quote(field[1]))
		}
	}
	if len(c.Measured) > 0 {
		b.WriteString(" \"measured\": {")
		encodeQuantities(&b, "  ", c.Measured, slices.Sorted(maps.Keys(c.Measured)))
		b.WriteString("\n },\n")
	}
	b.WriteString(" \"models\": {")
	between := "\n"
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		fmt.Fprintf(&b, "%s  %s: {\n   \"fitted_to\": %s,\n   \"constants\": {", between, quote(name), quote(m.FittedTo))
		encodeQuantities(&b, "    ", m.Constants, m.Order(name))
		b.WriteString("\n   }\n  }")
		between = ",\n"
	}
	b.WriteString("\n }\n}\n")
	return b.Bytes()
}

// encodeQuantities writes the named quantities, one a line.
func encodeQuantities(b *bytes.Buffer, indent string, all map[string]Quantity, names []string) {
	between := "\n"
	for _, name := range names {
		q := all[name]
		fmt.Fprintf(b, "%s%s%s: {\"value\": %s, \"unit\": %s}", between, indent, quote(name), number(q.Value), quote(q.Unit))
		between = ",\n"
	}
}

// ID tells sets of constants apart: twelve hexadecimal digits that follow from the models'
// constants alone.
func (c *Card) ID() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		constants := c.Models[name].Constants
		for _, constant := range slices.Sorted(maps.Keys(constants)) {
			q := constants[constant]
			fmt.Fprintf(sum, "%q %q %s %q\n", name, constant, number(q.Value), q.Unit)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
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
