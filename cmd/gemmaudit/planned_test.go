package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate/calibratetest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	stored "github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// plannedCard is a simulated card whose kernels are planned by constants, which can be measured on it.
type plannedCard struct {
	*kerneltest.Device
	*calibratetest.Card
	*calibrate.InForce
	spec  kernels.Spec
	turns *calibration.Card // its constants once they are checked, nil for the same
}

// TimePlans times plans of the card as it is then.
func (d *plannedCard) TimePlans(ctx context.Context, of candidates.Case, picks calibrate.Picks, rounds int, seed uint64) ([]candidates.Time, error) {
	if d.turns != nil && slices.Contains(calibrate.Held(d.Card.Arch, seed), of) {
		d.Card.Truth = d.turns
	}
	return d.Card.TimePlans(ctx, of, picks, rounds, seed)
}

// Spec is that of the device, with the constants among its versions.
func (d *plannedCard) Spec() kernels.Spec { return d.spec }

// Now is the time of both clocks, and what really passes: fits take as long as they do.
func (d *plannedCard) Now() time.Time {
	return d.Device.Now().Add(d.Card.Now().Sub(cardEpoch)).Add(time.Since(processBegan))
}

var (
	cardEpoch    = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	processBegan = time.Now()
)

// newPlanned makes an A100 that a script describes in PLANNED, by words:
//
//	driver:2      of another driver
//	odd           its constants are far from those that ship
//	turns         it is odd until constants are checked
//	slow          a case takes so long that none is left to check
//	broken        nothing can be timed
func newPlanned(description string) *plannedCard {
	words := strings.Fields(description)
	has := func(word string) bool { return slices.Contains(words, word) }
	a := planning.Arch{CC: 80, SMs: 108, SharedMax: 163 << 10, L2: 40 << 20, ClockMHz: 1410, Bandwidth: 1555e9}
	driver := "580.1"
	if has("driver:2") {
		driver = "590.2"
	}
	truth, _, err := calibration.InForce(a.CC, a.SMs, a.Bandwidth)
	if err != nil {
		panic(err)
	}
	ships := truth.Clone()
	if has("odd") || has("turns") {
		for name, by := range map[string]float64{"shared_bytes": 0.4, "reduce": 4, "edge": 0.3, "overlap": 0.4, "launch": 0.3} {
			q := truth.Models["mma"].Constants[name]
			q.Value *= by
			truth.Models["mma"].Constants[name] = q
		}
	}
	flat := kerneltest.Linear(200e9, 2e-6)
	d := &plannedCard{
		Device: kerneltest.New(kerneltest.Config{
			ID: "cuda:0", Kind: kernels.CUDA, Seed: 1, Noise: kerneltest.Noise{Sigma: 0.005}, LastLevelCacheBytes: 64 << 10,
			HostOverhead: 100 * time.Microsecond, Gemms: []kerneltest.GemmConfig{{Name: "flat", DTypes: []kernels.DType{kernels.FP32}, Cost: flat, Packs: true}},
		}),
		Card: &calibratetest.Card{Name: "NVIDIA A100", Driver: driver, Arch: a, Truth: truth, Clock: cardEpoch, Overhead: 0.03},
	}
	d.spec = d.Device.Spec()
	d.spec.Name = d.Card.Name
	if has("turns") {
		d.turns = ships
	}
	if has("slow") {
		d.Card.Overhead = 0.7
	}
	if has("broken") {
		d.Card.Fail = func() error { return errors.New("launch failed: too many resources requested") }
	}
	d.InForce = calibrate.NewInForce(stored.Find(os.Getenv), stored.Key{Card: d.Card.Name, Driver: driver, Program: buildVersion()}, a, func(version string) {
		versions := map[string]string{"driver": driver}
		if version != "" {
			versions[calibrate.CalibrationVersion] = version
		}
		d.spec.Versions = versions
	})
	return d
}

// plannedHost provides that card.
type plannedHost struct{ *plannedCard }

func (p plannedHost) Open() ([]kernels.Device, []kernels.Missing) {
	return []kernels.Device{p.plannedCard}, nil
}
