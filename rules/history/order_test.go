package history

import (
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Runs imported newest first are ordered by measurement time; one without a time is reported.
func TestOrderIsThatOfTheSamples(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 2, 0, 0, 0, time.UTC) }
	run := func(taken time.Time, imported time.Time) infer.Data {
		key := results.SeriesKey{Device: "cpu", Kernel: "lib", Subject: kernels.Product(kernels.FP32, 64, 64)}
		row := results.Row{Case: results.Case{SeriesKey: key, M: 8}}
		for i := range 5 {
			s := results.Sample{Round: i, Launches: 1, US: 10}
			if !taken.IsZero() {
				s.StartedUnixMicro = taken.UnixMicro() + int64(i)
			}
			row.Samples = append(row.Samples, s)
		}
		return infer.Data{Meta: results.Meta{Created: imported, Source: "x.csv"},
			Series: []results.Series{{Key: key, Rows: []results.Row{row}}}}
	}
	c := NewCollector(rules.Default())
	c.Add("new.db", run(day(3), day(10)))
	c.Add("old.db", run(day(1), day(11)))
	c.Add("untold.db", run(time.Time{}, day(2)))
	r := c.Result(Default())
	if r.Runs[0].Path != "old.db" || r.Runs[1].Path != "untold.db" || r.Runs[2].Path != "new.db" || !r.Runs[0].Taken.Equal(day(1)) {
		t.Errorf("the order is %v", r.Runs)
	}
	if len(r.Warnings) != 1 || r.Warnings[0].Subject != "untold.db" {
		t.Errorf("warnings %v", r.Warnings)
	}
}
