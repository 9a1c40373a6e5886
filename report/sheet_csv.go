package report

import (
	"encoding/csv"
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/results/export"
)

// records joins the sheets that have a Record into one table, a column per key.
func (d *Document) records() Sheet {
	var out Sheet
	at := map[string]int{}
	for _, s := range d.Sheets {
		if s.Record == "" {
			continue
		}
		if len(out.Columns) == 0 {
			out.Columns = []Column{{Key: "record"}}
		}
		for _, c := range s.Columns {
			if _, ok := at[c.Key]; !ok {
				at[c.Key] = len(out.Columns)
				out.Columns = append(out.Columns, c)
			}
		}
	}
	for _, s := range d.Sheets {
		if s.Record == "" {
			continue
		}
		for _, row := range s.Rows {
			line := make([]any, len(out.Columns))
			line[0] = s.Record
			for i, v := range row {
				line[at[s.Columns[i].Key]] = v
			}
			out.Rows = append(out.Rows, line)
		}
	}
	return out
}

// csv writes one sheet with all columns and raw values. Text is [Clean]; spreadsheet protects it from formula
// injection.
func (s *Sheet) csv(w io.Writer, spreadsheet bool) error {
	out := csv.NewWriter(w)
	words := func(s string) string {
		s = Clean(s)
		if spreadsheet {
			s = export.SpreadsheetCell(s)
		}
		return s
	}
	var header []string
	for _, c := range s.Columns {
		header = append(header, c.Key)
		if c.Interval {
			header = append(header, c.Key+"_lo", c.Key+"_hi")
		}
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for _, row := range s.Rows {
		var record []string
		for i, c := range s.Columns {
			cell := toCell(row[i])
			record = append(record, words(rawText(cell.Raw())))
			if !c.Interval {
				continue
			}
			if b, ok := cell.(bounds); ok && b.Text() != "" {
				record = append(record, rawText(b.unit(b.Lo).Raw()), rawText(b.unit(b.Hi).Raw()))
			} else {
				record = append(record, "", "")
			}
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func rawText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return formatRaw(v)
	}
	return fmt.Sprint(v)
}
