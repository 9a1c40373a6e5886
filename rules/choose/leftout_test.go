package choose

import (
	"reflect"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

// Only inferred, clean rows are left out, with a count; the audit does not change.
func TestWithoutClean(t *testing.T) {
	_, a := inferWorkshop(t, workshopRun(t, 1, nil), true)
	rows := len(a.Series[0].Rows)
	a.Series = append(a.Series, rules.SeriesAudit{Rows: []rules.RowVerdict{{M: 1, Verdict: rules.Clean}}}) // not inferred
	got := a.WithoutClean()
	if len(a.Series[0].Rows) != rows || a.Series[0].Counts != nil {
		t.Errorf("%d of %d rows are left in the audit itself, %+v", len(a.Series[0].Rows), rows, a.Series[0].Counts)
	}
	if !reflect.DeepEqual(got.Series[1], a.Series[1]) {
		t.Errorf("a measured series is %+v", got.Series[1])
	}
	var want rules.RowCounts
	var kept []rules.RowVerdict
	for _, r := range a.Series[0].Rows {
		of := &want.Measured
		if r.Inferred {
			of = &want.Inferred
		}
		of.Add(r.Verdict)
		if r.Inferred && r.Verdict == rules.Clean {
			want.LeftOut++
		} else {
			kept = append(kept, r)
		}
	}
	measured := want.Measured.Anomalous + want.Measured.Clean + want.Measured.Marginal + want.Measured.Undecided + want.Measured.Unjudged
	if want.LeftOut < 100 || want.LeftOut != want.Inferred.Clean || measured != a.Inference.Measured || want.Inferred.Anomalous == 0 {
		t.Fatalf("the workshop has %+v of %+v", want, a.Inference)
	}
	if s := got.Series[0]; !reflect.DeepEqual(s.Rows, kept) || s.Counts == nil || *s.Counts != want {
		t.Errorf("%d of %d rows are kept, %+v of %+v", len(s.Rows), len(kept), s.Counts, want)
	}
}
