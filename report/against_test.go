package report

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestAgainst(t *testing.T) {
	series := func(kernel string, columns int, us map[int]float64) results.Series {
		s := results.Series{Key: results.SeriesKey{Device: "sim", Kernel: kernel, Regime: results.Hot,
			Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: columns}}}}
		for _, m := range []int{8, 16} {
			if us[m] > 0 {
				row := results.Row{Case: results.Case{SeriesKey: s.Key, M: m}}
				for range 7 {
					row.Samples = append(row.Samples, results.Sample{US: us[m]})
				}
				s.Rows = append(s.Rows, row)
			}
		}
		return s
	}
	all := []results.Series{
		series("auto", 32, map[int]float64{8: 2, 16: 4}), series("plain", 32, map[int]float64{8: 5}),
		series("auto", 64, map[int]float64{8: 3}),
	}
	rows := Against(all, "plain")
	if len(rows) != 4 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	for i, want := range []AgainstRow{{US: 2, BaselineUS: 5, Ratio: 2.5}, {US: 4}, {US: 5, BaselineUS: 5, Ratio: 1}, {US: 3}} {
		if r := rows[i]; r.US != want.US || r.BaselineUS != want.BaselineUS || r.Ratio != want.Ratio {
			t.Errorf("row %d: %+v, expected %+v", i, r, want)
		}
	}
	others := append(all, series(kernels.Overlapping, 32, map[int]float64{8: 1}))
	for baseline, ratio := range map[string]float64{"plain": 0, "auto": 2} {
		rows := Against(others, baseline)
		if r := rows[len(rows)-1]; r.Series.Kernel != kernels.Overlapping || r.US != 1 || r.Ratio != ratio {
			t.Errorf("against %s: %+v, expected ratio %g", baseline, r, ratio)
		}
	}
	// 8 rows of 32 float32 values, read and written, in 2 us.
	if want := 8 * 32 * 4 * 2 / 2e-6; math.Abs(rows[0].Bandwidth-want) > 1 {
		t.Errorf("%g bytes/s, expected %g", rows[0].Bandwidth, want)
	}
	var text strings.Builder
	if err := WriteAgainst(&text, Table, all, "nonesuch"); err != nil ||
		!strings.Contains(text.String(), "nothing of nonesuch was measured") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}
