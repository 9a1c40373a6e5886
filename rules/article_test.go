package rules

import (
	"context"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// All times have one rate, so only published MFUs can flag a row.
func TestArticleMFU(t *testing.T) {
	known := kernels.Peak{DType: kernels.BF16, FLOPS: 2 * 4096 * 4096 * 1e6, Origin: kernels.Published} // a row of M takes M us at the peak
	unknown := kernels.Peak{DType: kernels.BF16, Origin: kernels.Relative}
	for _, tt := range []struct {
		name    string
		peak    kernels.Peak
		utils   [][]float64
		flagged []int
		mfu     float64
	}{
		{"below the bound", known, [][]float64{{1.01922}, {0.91729}}, []int{2}, 0.91729}, // 0.9 × 1.01922 is 0.917298
		{"above the bound", known, [][]float64{{1.01922}, {0.91730}}, []int{}, 0.91730},
		{"no peak", unknown, [][]float64{{1.01922}, {0.91729}}, []int{2}, 0.91729},
		{"none published", known, [][]float64{{0}, {0}}, []int{}, 1},
		{"neither published nor a peak", unknown, [][]float64{{0}, {0}}, []int{}, 1},
		{"a row without, against the peak", known, [][]float64{{1.2}, {0}}, []int{2}, 1},
		{"a row without, and no peak", unknown, [][]float64{{1.2}, {0}}, []int{}, 1},
		{"rounds", known, [][]float64{{1, 1, 1}, {0.7, 0.89, 0.95}}, []int{2}, 0.89},
		{"a round without", known, [][]float64{{1}, {0.5, 0, 0.5}}, []int{}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := results.Series{Key: synthetic.Key, Peak: tt.peak}
			for i, utils := range tt.utils {
				row := results.Row{Case: results.Case{ID: int64(i + 1), SeriesKey: synthetic.Key, M: i + 1}}
				for round, u := range utils {
					row.Samples = append(row.Samples,
						results.Sample{CaseID: row.Case.ID, Phase: results.PhaseSweep, Round: round, US: float64(i + 1), Utils: u})
				}
				s.Rows = append(s.Rows, row)
			}
			a, err := RunAudit(context.Background(), infer.Data{Series: []results.Series{s}}, articleConfig(0.9), nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := a.Series[0].Rows
			if last := rows[len(rows)-1]; !slices.Equal(a.Series[0].Flagged, tt.flagged) || last.MFU.Mid != tt.mfu {
				t.Errorf("flagged %v, MFU of the last row %v; want %v, %v", a.Series[0].Flagged, last.MFU.Mid, tt.flagged, tt.mfu)
			}
		})
	}
}
