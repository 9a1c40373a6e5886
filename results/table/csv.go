package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// csvColumns are those of WriteCSV.
var csvColumns = []string{
	"kernel", "dtype", "weights", "layout", "n", "k", "from", "to", "step", "action", "first", "pad_to", "use_kernel",
	"proof_m", "direct_us", "remedy_us", "gain_lo", "gain_mid", "gain_hi",
}

// WriteCSV writes a valid table for spreadsheets: one line a proof, one line for
// an interval without any, and one line with empty from and to for each series'
// default. Leading parts are joined by "+". Validators are not in it.
func (t *Table) WriteCSV(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	c := csv.NewWriter(w)
	c.Write(csvColumns)
	for i := range t.Series {
		s := &t.Series[i]
		head := []string{s.Kernel, s.DType, s.Weights, s.Layout, strconv.Itoa(s.N), strconv.Itoa(s.K)}
		c.Write(row(head, []string{"", "", ""}, s.Default, nil))
		for _, iv := range s.Intervals {
			span := []string{strconv.Itoa(iv.From), strconv.Itoa(iv.To), strconv.Itoa(max(iv.Step, 1))}
			if len(iv.Proofs) == 0 {
				c.Write(row(head, span, iv.Action, nil))
			}
			for j := range iv.Proofs {
				c.Write(row(head, span, iv.Action, &iv.Proofs[j]))
			}
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func row(head, span []string, a Action, p *Proof) []string {
	cells := append(append([]string(nil), head...), span...)
	padTo := ""
	if a.PadTo > 0 {
		padTo = strconv.Itoa(a.PadTo)
	}
	cells = append(cells, string(a.kind()), join(a.First, "+"), padTo, a.Kernel)
	if p == nil {
		return append(cells, "", "", "", "", "", "")
	}
	cells = append(cells, strconv.Itoa(p.M))
	for _, x := range []float64{p.DirectUS, p.RemedyUS, p.GainLo, p.GainMid, p.GainHi} {
		cells = append(cells, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return cells
}

func join(v []int, sep string) string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, sep)
}
