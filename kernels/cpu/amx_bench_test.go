package cpu

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// BenchmarkAMXTuning compares tunings of amx in one interleaved run, the current one first, with the tile
// rate from registers or the read bandwidth. Set a better one in amx.c.
func BenchmarkAMXTuning(b *testing.B) {
	for _, tc := range []struct {
		dtype   kernels.DType
		m, n, k int
		tunings []amxTuning
	}{
		{kernels.BF16, 1024, 4096, 4096, blockTunings()},
		{kernels.INT8, 1024, 4096, 4096, blockTunings()},
		{kernels.BF16, 128, 4096, 4096, blockTunings()},
		{kernels.BF16, 32, 4096, 4096, streamTunings()},
		{kernels.BF16, 16, 4096, 4096, streamTunings()},
		{kernels.BF16, 1, 14336, 4096, streamTunings()},
		{kernels.INT8, 1, 14336, 4096, streamTunings()},
	} {
		p := kernels.Task{Subject: kernels.Product(tc.dtype, tc.n, tc.k), M: tc.m}
		name := fmt.Sprintf("%s/m%d", p.DType, p.M)
		b.Run(name, func(b *testing.B) { benchmarkTunings(b, p, tc.tunings) })
	}
}

func blockTunings() []amxTuning {
	base := tuneAMX(amxTuning{})
	tuneAMX(base)
	out := []amxTuning{base}
	for _, change := range []func(*amxTuning){
		func(t *amxTuning) { t.steps = 8 },
		func(t *amxTuning) { t.steps = 10 },
		func(t *amxTuning) { t.steps = 16 },
		func(t *amxTuning) { t.steps = 19 },
		func(t *amxTuning) { t.stream_a = 0 },
		func(t *amxTuning) { t.stream_a, t.steps = 0, 8 },
		func(t *amxTuning) { t.fetch_sums = 0 },
		func(t *amxTuning) { t.fetch_sums, t.steps = 0, 8 },
		func(t *amxTuning) { t.kept = 1 << 20 },
		func(t *amxTuning) { t.prefetch_stride = 0 },
		func(t *amxTuning) { t.prefetch_stride = 128 },
		func(t *amxTuning) { t.cols = 128 },
		func(t *amxTuning) { t.cols = 384 },
		func(t *amxTuning) { t.cols, t.steps = 512, 12 },
		func(t *amxTuning) { t.rows = 256 },
		func(t *amxTuning) { t.rows, t.cols = 256, 512 },
		func(t *amxTuning) { t.rows, t.cols = 384, 256 },
	} {
		t := base
		change(&t)
		out = append(out, t)
	}
	return out
}

func streamTunings() []amxTuning {
	base := tuneAMX(amxTuning{})
	tuneAMX(base)
	out := []amxTuning{base}
	for panels := 1; panels <= 3; panels++ {
		for ahead := 0; ahead <= 16384; ahead = max(2048, 2*ahead) {
			t := base
			t.panels, t.ahead = amxSetting(panels), amxSetting(ahead)
			if t != base {
				out = append(out, t)
			}
		}
	}
	return out
}

func benchmarkTunings(b *testing.B, p kernels.Task, tunings []amxTuning) {
	if amxEmulated {
		b.Skip("tiles in software say nothing about speed")
	}
	d := openBench(b)
	w := newWorkload(b, d)
	r, err := w.rotation("amx", p)
	if err != nil {
		b.Skip(err)
	}
	limit := &kerneltest.Series{}
	if p.M > 32 {
		units := map[kernels.DType]int{kernels.BF16: 2, kernels.INT8: 3}
		u := d.pool.settledUnit(peakUnits(detect())[units[p.DType]].units[0])
		limit.Name = "registers"
		limit.Sample = func() (float64, error) {
			flops, _ := u.block()
			return flops, nil
		}
	} else {
		_, pass := openReader(b, d)
		limit.Name = "read bandwidth"
		limit.Sample = func() (float64, error) { return pass(), nil }
	}
	all := []*kerneltest.Series{limit}
	for _, t := range tunings {
		all = append(all, &kerneltest.Series{Name: fmt.Sprintf("%+v", t), Sample: func() (float64, error) {
			defer tuneAMX(tuneAMX(t))
			if p.M > 32 {
				return r.flops()
			}
			return r.bandwidth()
		}})
	}
	kerneltest.MeasureRounds(b, all)
	slices.SortStableFunc(all[2:], func(a, b *kerneltest.Series) int {
		return -cmp.Compare(stats.Median(a.Samples), stats.Median(b.Samples))
	})
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %d threads, %v %s; the standing tuning first\n", d.Spec().Name, d.Threads(), p.Shape(), p.DType)
	for _, s := range all {
		mid, low, high := stats.MedianInterval(s.Samples)
		fmt.Fprintf(&t, "%9.2f G/s [%.2f, %.2f] %5.3f of the limit  %s\n", mid/1e9, low/1e9, high/1e9,
			stats.Median(kerneltest.Ratios(s, limit)), s.Name)
	}
	fmt.Fprint(os.Stderr, "\n", t.String())
	b.ReportMetric(stats.Median(kerneltest.Ratios(all[1], limit)), "of_limit")
	b.ReportMetric(0, "ns/op")
}
