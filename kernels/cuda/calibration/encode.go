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

// Encode writes a file that [Parse] reads. Models are sorted by name, with one constant per line in field
// order, so a diff of a new fit shows only numbers.
func (c *Card) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"{\n \"format\": %d,\n \"card\": %s,\n \"capability\": %d,\n \"sms\": %d,\n \"bandwidth\": %s,\n \"driver\": %s,\n \"date\": %s,\n",
		c.Format, quote(c.Card), c.Capability, c.SMs, number(c.Bandwidth), quote(c.Driver), quote(c.Date))
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

func encodeQuantities(b *bytes.Buffer, indent string, all map[string]Quantity, names []string) {
	between := "\n"
	for _, name := range names {
		q := all[name]
		fmt.Fprintf(b, "%s%s%s: {\"value\": %s, \"unit\": %s}", between, indent, quote(name), number(q.Value), quote(q.Unit))
		between = ",\n"
	}
}

// ID identifies a set of constants: twelve hexadecimal digits derived from the models' constants only.
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

// number returns the shortest text that parses to v.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
