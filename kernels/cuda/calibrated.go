//go:build cuda

package cuda

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

var (
	_ calibrate.Card     = (*Device)(nil)
	_ kernels.Calibrated = (*Device)(nil)
)

// constantsOf is by which constants the kernels of a GPU are planned that a provider opens.
func constantsOf(d *driver.Device, as Provider) *calibrate.InForce {
	on := timing.Describe(d, "")
	return calibrate.NewInForce(as.Calibration, kept.Key{Card: on.Card, Driver: on.Driver, Program: as.Program}, d.Arch(), func(version string) {
		if version == "" {
			d.DropVersion(calibrate.CalibrationVersion)
		} else {
			d.SetVersion(calibrate.CalibrationVersion, version)
		}
	})
}

// CardFacts implements [calibrate.Card].
func (d *Device) CardFacts(date string) candidates.Card { return timing.Describe(d.Device, date) }

// TimePlans implements [calibrate.Card].
func (d *Device) TimePlans(ctx context.Context, c candidates.Case, picks calibrate.Picks, rounds int, seed uint64) ([]candidates.Time, error) {
	done := 0
	which := func(family string, _ []float64) []int { return picks[family] }
	return timing.Plans(ctx, d.Device, c, which, rand.New(rand.NewPCG(seed, uint64(c.M))), func() bool { done++; return done <= rounds })
}

// loadPart is the part of the time for direct measurements in which tensor cores are kept busy.
const loadPart = 0.5

// MeasureDirectly implements [calibrate.Card].
func (d *Device) MeasureDirectly(ctx context.Context, seconds float64) (m calibrate.Direct, err error) {
	if m.Bandwidth, _, err = d.Bandwidth(ctx); err != nil {
		return m, err
	}
	if m.Launch, m.L2, err = d.Cached(ctx); err != nil {
		return m, err
	}
	m.ClockMHz, err = d.clockUnderLoad(ctx, time.Duration(loadPart*seconds*float64(time.Second)))
	return m, err
}

// clockUnderLoad is the clock in MHz while large products of normal data follow each other, after half of the time.
func (d *Device) clockUnderLoad(ctx context.Context, lasts time.Duration) (mhz float64, err error) {
	t := kernels.BF16
	if planning.TypeReason(d.Arch(), t) != "" {
		t = kernels.FP16
	}
	const m, n, k = 4096, 8192, 4096
	p := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: t, BLayout: kernels.Transposed}
	if len(d.gemms) == 0 || d.gemms[0].Supports(p) != nil {
		return 0, nil
	}
	var held []func() error
	defer func() {
		for _, close := range slices.Backward(held) {
			err = errors.Join(err, close())
		}
	}()
	alloc := func(elements int64) (kernels.Buffer, error) {
		b, err := d.Alloc(elements * int64(t.Size()))
		if err != nil {
			return nil, err
		}
		held = append(held, b.Close)
		return b, b.Fill(kernels.Normal, t, elements, uint64(len(held)))
	}
	var operands [3]kernels.Buffer
	for i, elements := range []int64{m * k, n * k, m * n} {
		if operands[i], err = alloc(elements); err != nil {
			return 0, err
		}
	}
	w, err := d.gemms[0].PrepareWeights(p, operands[1])
	if err != nil {
		return 0, err
	}
	held = append(held, w.Close)
	l, err := d.gemms[0].Bind(p, kernels.Operand{Buffer: operands[0]}, w, kernels.Operand{Buffer: operands[2]})
	if err != nil {
		return 0, err
	}
	const block, most = 20e-3, 200
	once, err := d.Execute(ctx, []kernels.Launch{l}, 1)
	if err != nil {
		return 0, err
	}
	launches := int(min(max(block/max(once.Seconds, 1e-6), 1), most))
	var clocks []float64
	for began := time.Now(); len(clocks) < 4 || time.Since(began) < lasts; {
		span, err := d.Execute(ctx, []kernels.Launch{l}, launches)
		if err != nil {
			return 0, err
		}
		clocks = append(clocks, span.ClockMHz)
	}
	mhz, _, _ = candidates.Median(clocks[len(clocks)/2:])
	return mhz, nil
}
