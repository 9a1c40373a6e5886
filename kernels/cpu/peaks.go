package cpu

/*
#include "native/peaks.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Times for measuring one unit. Blocks are long enough to make timer and thread start negligible. peakSettle
// lets the clock fall to the level that the unit's power allows.
const (
	peakBlock  = 8 * time.Millisecond
	peakSettle = 24 * time.Millisecond
	peakBlocks = 9
	// peakPatience is the maximum extra time, in blocks of 1/4 length, until three blocks are undisturbed by
	// other work.
	peakPatience = 400 * time.Millisecond
)

// measureCeilings measures peak rates and memory bandwidth in about a second. It ignores GEMMAUDIT_ISA, to
// rate capped kernels against the whole machine.
func measureCeilings(ctx context.Context, p *pool, memory *memoryMeter) (kernels.Ceilings, error) {
	var c kernels.Ceilings
	if p.c == nil {
		return c, errors.New("the device is closed")
	}
	f := detect()
	rates := map[C.ga_unit_code]unitRate{}
	for _, want := range peakUnits(f) {
		var best unitRate
		for _, code := range want.units {
			rate, known := rates[code]
			if !known {
				if err := ctx.Err(); err != nil {
					return c, err
				}
				rate = p.measureUnit(code)
				rates[code] = rate
			}
			if rate.flops > best.flops {
				best = rate
			}
		}
		if best.flops == 0 {
			return c, fmt.Errorf("peak of %s: no unit of %v ran", want.dtype, want.units)
		}
		c.Peaks = append(c.Peaks, kernels.Peak{DType: want.dtype, FLOPS: best.flops, Origin: kernels.Measured,
			ClockMHz: best.mhz, Unit: best.name})
		if per := flopsPerCycle(cpuModel(), best.code, f); per > 0 && best.mhz > 0 {
			if cores := min(p.threads(), thisHost().physicalCores()); cores > 0 {
				c.Peaks = append(c.Peaks, kernels.Peak{DType: want.dtype, FLOPS: per * float64(cores) * best.mhz * 1e6,
					Origin: kernels.Computed, ClockMHz: best.mhz, Unit: best.name})
			}
		}
	}
	var err error
	c.ReadBandwidth, c.CopyBandwidth, err = memory.measure(ctx, readSpec())
	return c, err
}

// wantedPeak lists the units that multiply a data type; the fastest counts.
type wantedPeak struct {
	dtype kernels.DType
	units []C.ga_unit_code
}

// peakUnits lists the units to measure on a CPU. fp16 uses fp32 FMA because its sums are fp32; bf16 and int8
// do too without their own dot product.
func peakUnits(f features) []wantedPeak {
	fma, madd := C.ga_unit_code(C.GA_FMA_PORTABLE), C.ga_unit_code(C.GA_MADD_PORTABLE)
	if f.AVX2 && f.FMA {
		fma, madd = C.GA_FMA_AVX2, C.GA_MADD_AVX2
	}
	if f.AVX512 {
		fma, madd = C.GA_FMA_AVX512, C.GA_MADD_AVX512
	}
	bf16, int8 := []C.ga_unit_code{fma}, []C.ga_unit_code{madd}
	switch {
	case f.AMXBF16 && !amxEmulated:
		bf16 = []C.ga_unit_code{C.GA_DOT_BF16_AMX}
	case f.AVX512BF16:
		// On some CPUs it is no faster than FMA.
		bf16 = append(bf16, C.GA_DOT_BF16_AVX512)
	}
	switch {
	case f.AMXINT8 && !amxEmulated:
		int8 = []C.ga_unit_code{C.GA_DOT_INT8_AMX}
	case f.AVX512VNNI:
		int8 = []C.ga_unit_code{C.GA_DOT_INT8_AVX512}
	case f.AVXVNNI:
		int8 = []C.ga_unit_code{C.GA_DOT_INT8_AVX}
	}
	return []wantedPeak{
		{kernels.FP32, []C.ga_unit_code{fma}}, {kernels.FP16, []C.ga_unit_code{fma}},
		{kernels.BF16, bf16}, {kernels.INT8, int8},
	}
}

type unitRate struct {
	code  C.ga_unit_code
	name  string
	flops float64
	mhz   float64 // measured right after the blocks
}

// measureUnit runs one unit on all threads. The rate is 0 if the unit is not compiled in.
func (p *pool) measureUnit(code C.ga_unit_code) unitRate {
	u := p.settledUnit(code)
	if u == nil {
		return unitRate{}
	}
	var flops, mhz []float64
	measure := func() {
		f, m := u.block()
		flops, mhz = append(flops, f), append(mhz, m)
	}
	for range peakBlocks {
		measure()
	}
	perCycle := flopsPerCycle(cpuModel(), code, detect()) * float64(min(p.threads(), thisHost().physicalCores()))
	u.turns = max(1, u.turns/4)
	for start := time.Now(); !agreed(flops, perCycle*stats.Median(mhz)*1e6) && time.Since(start) < peakPatience; {
		measure()
	}
	return unitRate{code, C.GoString(u.unit.name), thirdLargest(flops), stats.Median(mhz)}
}

// agreed reports whether the three largest rates are close together and close to the theoretical rate, if
// known.
func agreed(rates []float64, theory float64) bool {
	third := thirdLargest(rates)
	return third >= 0.97*slices.Max(rates) && third >= 0.9*theory
}

// thirdLargest is the peak among rates. Disturbances only lower rates, so the median is too low on a busy
// machine. The maximum would depend on a single timer reading.
func thirdLargest(rates []float64) float64 {
	s := slices.Sorted(slices.Values(rates))
	return s[max(0, len(s)-3)]
}

// settledUnit is a unit after its clock has settled, with calibrated blocks.
type settledUnit struct {
	pool  *pool
	unit  *C.ga_unit
	turns int64
}

// settledUnit runs a unit until its clock has settled; nil if the unit is not compiled in.
func (p *pool) settledUnit(code C.ga_unit_code) *settledUnit {
	u := &settledUnit{pool: p, unit: C.ga_unit_of(code), turns: 1000}
	if u.unit == nil {
		return nil
	}
	perTurn := float64(u.unit.operations) * float64(p.threads())
	for start := time.Now(); time.Since(start) < peakSettle; {
		if flops, _ := u.block(); flops > 0 {
			u.turns = max(1, int64(flops/perTurn*peakBlock.Seconds()))
		}
	}
	return u
}

func (u *settledUnit) block() (flops, mhz float64) {
	var rate, clock C.double
	C.ga_probe_unit(u.pool.c, C.int(u.pool.threads()), u.unit, C.int64_t(u.turns), &rate, &clock)
	return float64(rate), float64(clock)
}

// undisturbed is the upper quartile of rates, for the reasons given at [thirdLargest].
func undisturbed(x []float64) float64 { return stats.Quantile(slices.Sorted(slices.Values(x)), 0.75) }
