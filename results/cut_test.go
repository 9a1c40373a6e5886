package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestCut(t *testing.T) {
	of := func(kernel, name string, s kernels.Subject, ms ...int) PlannedSeries {
		return PlannedSeries{SeriesKey: SeriesKey{Device: "cpu", Kernel: kernel, Subject: s}, Name: name, Ms: ms}
	}
	large, small := kernels.Linear(kernels.BF16, 28672, 4096), kernels.Linear(kernels.BF16, 4096, 4096)
	other := small
	other.DType = kernels.FP32
	requested := []PlannedSeries{of("a", "m:up", large, 1, 16, 512), of("a", "m:o", small, 1, 16, 512), of("b", "m:o", small, 1, 16, 512),
		of("a", "m:o", other, 1, 16)}
	recorded := Recorded{{RecordedKey: RecordedKey{M: 16, N: 4096, K: 4096}, Calls: 1}, {RecordedKey: RecordedKey{M: 512, N: 4096, K: 4096},
		Calls: 2}, {RecordedKey: RecordedKey{M: 512, N: 28672, K: 4096}, Calls: 2}}
	recorded.Sort()
	for _, tt := range []struct {
		name     string
		kept     []PlannedSeries
		recorded Recorded
		want     *Cut
	}{
		{"fewer Ms", []PlannedSeries{of("a", "m:up", large, 1), of("b", "m:o", small, 1)}, nil, &Cut{Products: 2}},
		{"another type is the same product", []PlannedSeries{of("a", "m:up", large, 1), of("a", "m:o", other, 1)}, nil, &Cut{Products: 2}},
		{"a product", requested[:1], nil, &Cut{Products: 2, LeftOut: []CutProduct{{"m:o", "n4096 k4096 nk"}}}},
		{"recorded sizes", []PlannedSeries{of("a", "m:o", small, 1, 512)}, recorded,
			&Cut{Products: 3, LeftOut: []CutProduct{{"m:up", "m512 n28672 k4096 nk"}, {"m:o", "m16 n4096 k4096 nk"}}}},
	} {
		if d := cmp.Diff(tt.want, CutTo(tt.kept, requested, tt.recorded)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}
