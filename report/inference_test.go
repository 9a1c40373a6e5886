package report

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Summaries and tables must count measured rows, inferred rows, and check rows inside the predicted interval.
func TestInference(t *testing.T) {
	i := &infer.Inference{Asked: 1000, Measured: 200, Inferred: 790, Open: 10, Families: 9, Checked: 20, Inside: 19}
	a := &rules.Audit{Method: rules.MethodInterval, RowRule: rules.Monotonic, Cases: 1000, Inference: i,
		Series: []rules.SeriesAudit{{Key: fixtureKey, Cases: 1000, Inference: i, Rows: []rules.RowVerdict{{M: 1, Inferred: true}}},
			{Key: fixtureKey, Cases: 3}}}
	const want = "; 200 rows measured, 790 inferred, 10 not known; 19 of 20 check rows (95.0 %) inside the interval inferred"
	if s := AuditSummary(a); !strings.HasSuffix(s, want) {
		t.Errorf("%q, expected it to end in %q", s, want)
	}
	sheet := verdictSheet(a)
	last := len(sheet.Columns) - 1
	if sheet.Columns[last-1].Key != "inferred" || sheet.Columns[last].Key != "checked_inside" {
		t.Fatalf("columns %+v", sheet.Columns)
	}
	for k, row := range sheet.Rows {
		if len(row) != len(sheet.Columns) {
			t.Fatalf("row %d has %d cells, %d columns", k, len(row), len(sheet.Columns))
		}
	}
	if row := sheet.Rows[0]; row[last-1] != 790 || row[last] != Share(0.95) {
		t.Errorf("row %v", row)
	}
	if row := sheet.Rows[1]; row[last-1] != nil || row[last] != nil {
		t.Errorf("a series that is not inferred: %v", row)
	}
	if auditHead(a)[0].Tone != Neutral && auditHead(a)[0].Tone != Good {
		t.Errorf("tone %v of an inference that is kept", auditHead(a)[0].Tone)
	}
	i.Inside = 10
	if auditHead(a)[0].Tone != Open {
		t.Errorf("tone %v of an inference that is not kept", auditHead(a)[0].Tone)
	}
	a.Inference = nil
	if s := AuditSummary(a); strings.Contains(s, "inferred") {
		t.Errorf("%q", s)
	}
	if n := len(verdictSheet(a).Columns); n != last-1 {
		t.Errorf("%d columns where nothing was inferred, expected %d", n, last-1)
	}
}

// The folder's files and stdout must both list only inferred rows that are not clean.
func TestInferredRowsInJSON(t *testing.T) {
	in := fixtureInput()
	in.Audit.Series[0].Inference = &infer.Inference{}
	for i := range in.Audit.Series[0].Rows {
		in.Audit.Series[0].Rows[i].Inferred = i%2 == 0
	}
	want := in.Audit.WithoutClean().Series[0]
	if want.Counts.LeftOut == 0 || len(want.Rows)+want.Counts.LeftOut != len(in.Audit.Series[0].Rows) {
		t.Fatalf("%+v, %d rows of %d", want.Counts, len(want.Rows), len(in.Audit.Series[0].Rows))
	}
	var out strings.Builder
	if err := WriteAudit(&out, JSON, in.Meta, in.Series, in.Audit); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "r")
	if err := Write(t.Context(), dir, in, []Image{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"stdout": out.String(), "findings.json": read(t, dir, "findings.json")} {
		var got rules.Audit
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if s := got.Series[0]; len(s.Rows) != len(want.Rows) || !reflect.DeepEqual(s.Counts, want.Counts) {
			t.Errorf("%s: %d rows, %+v; expected %d, %+v", name, len(s.Rows), s.Counts, len(want.Rows), want.Counts)
		}
	}
}
