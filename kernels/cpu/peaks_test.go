package cpu

import (
	"context"
	"errors"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestMeasureCeilings(t *testing.T) {
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.Ceilings(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Peaks {
		t.Logf("%s %s: %.1f GFLOP/s, %s, %.0f MHz", p.DType, p.Origin, p.FLOPS/1e9, p.Unit, p.ClockMHz)
	}
	t.Logf("read %.2f GB/s, copy %.2f GB/s", c.ReadBandwidth/1e9, c.CopyBandwidth/1e9)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		p, ok := c.Peak(dt)
		// All CPUs that run Go are within these bounds.
		if !ok || p.Origin != kernels.Measured || p.Unit == "" || !(p.FLOPS > 1e8) || !(p.FLOPS < 1e17) {
			t.Errorf("peak of %s: %+v, found %v", dt, p, ok)
		}
	}
	fp32, _ := c.Peak(kernels.FP32)
	for _, p := range c.Peaks {
		if p.Origin == kernels.Computed && p.DType == kernels.FP32 && (fp32.FLOPS > 3*p.FLOPS || p.FLOPS <= 0) {
			t.Errorf("measured %.3g and computed %.3g of fp32 contradict each other", fp32.FLOPS, p.FLOPS)
		}
	}
	if !(c.ReadBandwidth > 1e8) || !(c.CopyBandwidth > 1e8) || c.ReadBandwidth > 1e14 {
		t.Errorf("bandwidths %g and %g", c.ReadBandwidth, c.CopyBandwidth)
	}
	again, err := d.Ceilings(context.Background())
	if err != nil || again.ReadBandwidth != c.ReadBandwidth {
		t.Errorf("the second call measured again: %v", err)
	}
}

// Memory is measured at each request; access patterns are chosen once.
func TestBandwidthIsMeasuredAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is measured twice")
	}
	d := open(t, 1)
	ways := len(d.memory.readers)
	seen := map[float64]bool{}
	for range 2 {
		read, copied, err := d.Bandwidth(t.Context())
		if err != nil || !(read > 1e8) || !(copied > 1e8) || seen[read] {
			t.Errorf("read %g, copied %g, %v; before %v", read, copied, err, seen)
		}
		seen[read] = true
		if len(d.memory.readers) != 1 || len(d.memory.copiers) != 1 || ways < 2 {
			t.Errorf("%d ways of reading and %d of copying are left of %d", len(d.memory.readers), len(d.memory.copiers), ways)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.Bandwidth(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	closed, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if _, _, err := closed.Bandwidth(t.Context()); err == nil {
		t.Error("the memory of a closed device was measured")
	}
}

func TestMeasureCeilingsCancelled(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := d.Ceilings(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if d.ceilings != nil {
		t.Error("an unfinished measurement was kept")
	}
}

func TestEveryUnitRuns(t *testing.T) {
	d, err := Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := detect()
	ran := map[any]bool{} // a unit may belong to several sets
	for name, f := range map[string]features{
		"portable": {},
		"avx2":     {AVX2: f.AVX2, FMA: f.FMA},
		"avx_vnni": {AVX2: f.AVX2, FMA: f.FMA, AVXVNNI: f.AVXVNNI},
		"avx512":   {AVX2: f.AVX2, FMA: f.FMA, AVX512: f.AVX512},
		"all":      f,
	} {
		for _, want := range peakUnits(f) {
			for _, code := range want.units {
				if ran[code] {
					continue
				}
				ran[code] = true
				r := d.pool.measureUnit(code)
				t.Logf("%s %s: %s %.1f GFLOP/s at %.0f MHz", name, want.dtype, r.name, r.flops/1e9, r.mhz)
				if !(r.flops > 0) || r.name == "" {
					t.Errorf("%s %s: unit %d gave %+v", name, want.dtype, code, r)
				}
			}
		}
	}
}

func TestStreamsOfEverySet(t *testing.T) {
	d, err := Open(2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	has := detect()
	small := kernels.Spec{LastLevelCacheBytes: 1 << 20, MemoryBytes: 64 << 20}
	for _, f := range []features{{}, {AVX2: has.AVX2}, {AVX2: has.AVX2, AVX512: has.AVX512}} {
		readers, copiers := streamsOf(f)
		if len(readers) == 0 || len(copiers) == 0 {
			t.Fatalf("%+v: %d readers and %d copiers", f, len(readers), len(copiers))
		}
		read, copied, err := newMemoryMeter(d.pool, f).measure(context.Background(), small)
		if err != nil || read <= 0 || copied <= 0 {
			t.Errorf("%+v: read %g, copied %g: %v", f, read, copied, err)
		}
	}
}

func TestComputedPeaks(t *testing.T) {
	wide, narrow := features{AVX2: true, FMA: true, AVX512: true}, features{AVX2: true, FMA: true}
	for _, tc := range []struct {
		name string
		m    model
		f    features
		want float64 // fp32 FLOP per cycle and core, 0: unknown
	}{
		{"Emerald Rapids", model{"intel", 6, 0xcf}, wide, 64},
		{"Emerald Rapids without AVX-512", model{"intel", 6, 0xcf}, narrow, 32},
		{"Skylake-SP", model{"intel", 6, 0x55}, wide, 0},
		{"Tiger Lake", model{"intel", 6, 0x8c}, wide, 32},
		{"Haswell", model{"intel", 6, 0x3f}, narrow, 32},
		{"Alder Lake", model{"intel", 6, 0x97}, narrow, 0},
		{"Zen 2", model{"amd", 0x17, 0x31}, narrow, 32},
		{"Zen 1", model{"amd", 0x17, 0x01}, narrow, 0},
		{"Zen 4", model{"amd", 0x19, 0x11}, wide, 32},
		{"Zen 5", model{"amd", 0x1a, 0x02}, wide, 64},
		{"Zen 5 mobile", model{"amd", 0x1a, 0x24}, wide, 0},
		{"nothing known", model{}, narrow, 0},
	} {
		for _, want := range peakUnits(tc.f) {
			if want.dtype != kernels.FP32 {
				continue
			}
			if got := flopsPerCycle(tc.m, want.units[0], tc.f); got != tc.want {
				t.Errorf("%s: %g FLOP a cycle, want %g", tc.name, got, tc.want)
			}
		}
	}
	amx := peakUnits(features{AVX2: true, FMA: true, AVX512: true, AMX: true, AMXBF16: true, AMXINT8: true})
	for _, want := range amx {
		per := map[kernels.DType]float64{kernels.BF16: 1024, kernels.INT8: 2048}[want.dtype]
		if per == 0 || amxEmulated {
			continue
		}
		if got := flopsPerCycle(model{"intel", 6, 0xcf}, want.units[0], features{}); got != per {
			t.Errorf("AMX %s: %g FLOP a cycle, want %g", want.dtype, got, per)
		}
	}
}

func TestPeakOfDisturbedBlocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		rates  []float64
		theory float64
		want   float64
		agreed bool
	}{
		{"quiet", []float64{100, 99, 98, 100, 99}, 0, 99, true},
		{"three of many", []float64{50, 100, 40, 99, 60, 98.5}, 101, 98.5, true},
		{"one reading too fast", []float64{130, 99, 98, 97}, 0, 98, false},
		{"all lowered alike", []float64{50, 50, 50}, 100, 50, false},
		{"too few", []float64{100, 60}, 0, 60, false},
	} {
		if got := thirdLargest(c.rates); got != c.want || agreed(c.rates, c.theory) != c.agreed {
			t.Errorf("%s: %v, agreed %v", c.name, got, agreed(c.rates, c.theory))
		}
	}
}
