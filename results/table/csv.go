package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var csvColumns = []string{
	"kernel", "dtype", "weights", "layout", "n", "k", "from", "to", "step", "action", "first", "pad_to", "use_kernel",
	"proof_m", "direct_us", "remedy_us", "gain_lo", "gain_mid", "gain_hi",
	"pad", "algorithm", "filled", "direct_error", "remedy_error", "same_bits", "batch_invariant", "epilogue",
}

// WriteCSV writes a valid table for spreadsheets: one line per proof, one per interval without proofs, and
// one with empty from and to per series' default. Leading parts are joined by "+", algorithm attributes by
// spaces in the order of [Attributes]. Validators are omitted. guard, if not nil, is applied to each cell, to
// prevent spreadsheet formula injection.
func (t *Table) WriteCSV(w io.Writer, guard func(cell string) string) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	c := csv.NewWriter(w)
	write := func(cells []string) {
		for i := range cells {
			if guard != nil {
				cells[i] = guard(cells[i])
			}
		}
		c.Write(cells)
	}
	c.Write(csvColumns)
	for i := range t.Series {
		s := &t.Series[i]
		head := []string{s.Kernel, s.DType, s.Weights, s.Layout, strconv.Itoa(s.N), strconv.Itoa(s.K)}
		line := func(span []string, a Action, filled bool, p *Proof) {
			write(append(row(head, span, a, filled, p), s.Epilogue))
		}
		line([]string{"", "", ""}, s.Default, false, nil)
		for _, iv := range s.Intervals {
			span := []string{strconv.Itoa(iv.From), strconv.Itoa(iv.To), strconv.Itoa(max(iv.Step, 1))}
			if len(iv.Proofs) == 0 {
				line(span, iv.Action, iv.Filled, nil)
			}
			for j := range iv.Proofs {
				line(span, iv.Action, iv.Filled, &iv.Proofs[j])
			}
		}
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func row(head, span []string, a Action, filled bool, p *Proof) []string {
	cells := append(append([]string(nil), head...), span...)
	padTo := ""
	if a.PadTo > 0 {
		padTo = strconv.Itoa(a.PadTo)
	}
	cells = append(cells, string(a.kind()), join(a.First, "+"), padTo, a.Kernel)
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	if p == nil {
		cells = append(cells, "", "", "", "", "", "")
	} else {
		cells = append(cells, strconv.Itoa(p.M))
		for _, x := range []float64{p.DirectUS, p.RemedyUS, p.GainLo, p.GainMid, p.GainHi} {
			cells = append(cells, number(x))
		}
	}
	algorithm := ""
	if a.Algorithm != (Attributes{}) {
		algorithm = join(a.Algorithm.list(), " ")
	}
	cells = append(cells, string(a.Pad), algorithm, strconv.FormatBool(filled))
	if p == nil || p.Numerics == nil {
		return append(cells, "", "", "", "")
	}
	n := p.Numerics
	return append(cells, number(n.DirectError), number(n.RemedyError), strconv.FormatBool(n.SameBits), strconv.FormatBool(n.BatchInvariant))
}

func join(v []int, sep string) string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, sep)
}
