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
)

// How long the arithmetic of one unit is measured: blocks long enough that the
// timer and the start of the threads don't count, after a first while in which the
// clock comes down to what the unit's power allows.
const (
	peakBlock  = 8 * time.Millisecond
	peakSettle = 24 * time.Millisecond
	peakBlocks = 9
	// peakPatience is how long to go on, with blocks of a quarter, on a machine whose
	// other work leaves no three blocks alone.
	peakPatience = 400 * time.Millisecond
)

// measureCeilings measures what the CPUs of the pool reach, from registers and from
// memory, in about a second. It asks the machine and not GEMMAUDIT_ISA: a kernel
// without an instruction set falls short of what the machine can do.
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
			return c, fmt.Errorf("peak of %s: none of the units %v ran", want.dtype, want.units)
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

// wantedPeak is a data type with the units that multiply it, of which the fastest
// counts.
type wantedPeak struct {
	dtype kernels.DType
	units []C.ga_unit_code
}

// peakUnits is what to measure on a CPU. fp16 is summed up in fp32, so its rate is
// that of fp32's FMA; bf16 and int8 fall back in the same way where they have no dot
// product of their own.
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

// unitRate is what was measured of a unit, over all threads.
type unitRate struct {
	code  C.ga_unit_code
	name  string
	flops float64
	mhz   float64 // right after the blocks, at the clock that they ran at
}

// measureUnit runs one unit on all threads. The rate is 0 where it is not compiled for.
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
	for start := time.Now(); !agreed(flops, perCycle*median(mhz)*1e6) && time.Since(start) < peakPatience; {
		measure()
	}
	return unitRate{code, C.GoString(u.unit.name), thirdLargest(flops), median(mhz)}
}

// agreed says whether the three largest rates are those of an undisturbed machine: close
// together, and close to what the unit computes in theory, where that is known.
func agreed(rates []float64, theory float64) bool {
	third := thirdLargest(rates)
	return third >= 0.97*slices.Max(rates) && third >= 0.9*theory
}

// thirdLargest is the ceiling among rates. What disturbs a measurement only lowers it, so
// a median would be too low on a machine with other work, and the largest would rest on
// one reading of the clock.
func thirdLargest(rates []float64) float64 {
	s := slices.Sorted(slices.Values(rates))
	return s[max(0, len(s)-3)]
}

// settledUnit is a unit whose clock has come to rest and whose blocks have their
// length.
type settledUnit struct {
	pool  *pool
	unit  *C.ga_unit
	turns int64
}

// settledUnit runs a unit until then; nil where it is not compiled for.
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

// block returns the rate of all threads together and the clock right after.
func (u *settledUnit) block() (flops, mhz float64) {
	var rate, clock C.double
	C.ga_probe_unit(u.pool.c, C.int(u.pool.threads()), u.unit, C.int64_t(u.turns), &rate, &clock)
	return float64(rate), float64(clock)
}

// undisturbed is the upper quartile of rates. What disturbs a measurement of a
// ceiling only lowers it, so the median would be too low on a machine with other
// work, and the largest of all would rest on one reading of the clock.
func undisturbed(x []float64) float64 { return quantile(x, 0.75) }

func median(x []float64) float64 { return quantile(x, 0.5) }

// quantile interpolates between the order statistics of x, 0 for none.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}
