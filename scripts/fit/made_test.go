package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// reference returns the starting card of fits.
func reference(t testing.TB) *calibration.Card {
	t.Helper()
	return calibration.Nearest(cudatest.H200.CC, cudatest.H200.SMs, cudatest.H200.Bandwidth)
}

// another returns a card whose constants differ from the reference's by up to a third, in all models or in
// the named ones.
func another(t testing.TB, models ...string) *calibration.Card {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	c := reference(t).Clone()
	if len(models) == 0 {
		models = calibration.Names()
	}
	for _, name := range models {
		for _, constant := range slices.Sorted(maps.Keys(c.Models[name].Constants)) {
			q := c.Models[name].Constants[constant]
			q.Value *= math.Pow(4./3, 2*rng.Float64()-1)
			c.Models[name].Constants[constant] = q
		}
	}
	return c
}

// made simulates the candidates' times on a card whose models are exact except for noise. It includes
// candidates below 1.6 times the fastest expected one, for up to `cases` cases that keep accepts; 0 means the
// whole grid.
func made(t testing.TB, on *calibration.Card, noise float64, cases int,
	keep func(c sized, family string) bool) []timed {
	t.Helper()
	restore, err := calibration.Try(on)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	rng := rand.New(rand.NewPCG(5, 6))
	var all []timed
	for _, c := range grid(1) {
		found := false
		for _, family := range familiesFor(c.Subject) {
			if !keep(c, family) {
				continue
			}
			expected, err := plans(cudatest.H200, c, family)
			if err != nil {
				t.Fatal(err)
			}
			best := math.Inf(1)
			for _, e := range expected {
				best = min(best, e.seconds)
			}
			for _, e := range expected {
				if e.seconds < 1.6*best {
					s := e.seconds * math.Exp(noise*rng.NormFloat64())
					all = append(all, timed{sized: c, family: family, label: e.label, seconds: s,
						interval: [2]float64{0.99 * s, 1.01 * s}})
					found = true
				}
			}
		}
		if found {
			if cases--; cases == 0 {
				break
			}
		}
	}
	return all
}

// few keeps gemv and decode attention, which have many plans that are fast to compute.
func few(_ sized, family string) bool { return family == "gemv" || family == "decode" }

// The grid: products of model layers, from one token to a long prompt.
var (
	gridLayers   = [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}} // N, K
	gridTypes    = []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8, kernels.FP8}
	gridHalves   = []kernels.DType{kernels.BF16, kernels.FP16}
	gridHeadDims = []int{128, 64}
)

const gridBatches, gridContexts = 24, 9

// grid returns the cases of a calibration in an order drawn by seed, so an early stop has a fair sample.
func grid(seed uint64) []sized {
	var all []sized
	for _, d := range gridTypes {
		for _, nk := range gridLayers {
			for _, m := range spaced(1, 8192, gridBatches) {
				s := kernels.Product(d, nk[0], nk[1])
				s.Layout = kernels.Transposed
				all = append(all, sized{s, m})
			}
		}
	}
	for _, d := range gridHalves {
		for _, dim := range gridHeadDims {
			heads := kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: dim}
			for _, m := range spaced(128, 16384, gridContexts) {
				all = append(all, sized{kernels.Subject{Operation: kernels.AttentionPrefill, DType: d, Dims: heads}, m})
			}
			for _, m := range spaced(128, 32768, gridContexts) {
				all = append(all, sized{kernels.Subject{Operation: kernels.AttentionDecode, DType: d, Dims: heads}, m})
			}
		}
	}
	rand.New(rand.NewPCG(seed, gridStream)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// gridStream separates this use of a seed from others.
const gridStream = 0x67726964

// spaced returns n numbers from low to high in equal ratios, without duplicates.
func spaced(low, high, n int) []int {
	var all []int
	for i := range n {
		m := int(math.Round(float64(low) * math.Pow(float64(high)/float64(low), float64(i)/float64(n-1))))
		if len(all) == 0 || m > all[len(all)-1] {
			all = append(all, m)
		}
	}
	return all
}
