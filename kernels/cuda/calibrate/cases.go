package calibrate

import (
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// product is M, N and K of a product.
type product [3]int

// What models are fitted to. Few products tell each constant: large ones the clock and the rate of
// tiles, those of a short K what a tile costs beside its steps, those of one round what clusters and cuts cost,
// those of few rows memory, latencies and what a launch takes.
var (
	largeProducts = []product{
		{4096, 4096, 4096}, {2048, 14336, 4096}, {1024, 4096, 4096}, {512, 14336, 4096}, {1536, 6144, 4096}, {768, 4096, 14336},
		{3072, 4096, 1024}, {640, 6144, 1024}, {1280, 5120, 5120}, {2304, 3584, 8192}, {360, 14336, 4096}, {280, 4096, 4096},
	}
	fewRows = []product{
		{16, 4096, 4096}, {24, 14336, 4096}, {32, 4096, 14336}, {48, 6144, 4096}, {64, 4096, 4096}, {96, 14336, 4096}, {128, 4096, 14336},
		{160, 6144, 4096}, {200, 4096, 4096}, {256, 14336, 4096}, {384, 4096, 4096}, {448, 6144, 2048},
	}
	fewestRows     = []product{{1, 4096, 4096}, {1, 14336, 4096}, {2, 6144, 4096}, {4, 4096, 14336}, {8, 4096, 4096}, {8, 14336, 4096}}
	bytesProducts  = []product{{2048, 4096, 4096}, {512, 14336, 4096}, {64, 4096, 4096}}
	promptLengths  = []int{384, 1024, 4096, 8192}
	contextLengths = []int{256, 1024, 4096, 16384, 32768}
)

// What shapes that are held out are drawn from.
var (
	heldColumns = []int{2560, 3584, 4608, 5120, 6144, 8192, 10240, 13824}
	heldDepths  = []int{1536, 2560, 3072, 4096, 5120, 8192, 11008}
)

const (
	heldProducts   = 24
	heldAttentions = 6
	heldMostRows   = 4096
	heldMostKeys   = 24576
)

// halves is the type of 16 bits that a card multiplies.
func halves(a planning.Arch) kernels.DType {
	if planning.TypeReason(a, kernels.BF16) != "" {
		return kernels.FP16
	}
	return kernels.BF16
}

func productCase(d kernels.DType, p product) candidates.Case {
	s := kernels.Product(d, p[1], p[2])
	s.Layout = kernels.Transposed
	return candidates.Case{Subject: s, M: p[0]}
}

func attentionCase(o kernels.Operation, d kernels.DType, headDim, m int) candidates.Case {
	return candidates.Case{Subject: kernels.Subject{Operation: o, DType: d, Dims: kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: headDim}}, M: m}
}

// Fitted are the cases that models are fitted to on a card, in an order that seed draws: who stops early
// has a fair sample.
func Fitted(a planning.Arch, seed uint64) []candidates.Case {
	var all []candidates.Case
	d := halves(a)
	for _, list := range [][]product{largeProducts, fewRows, fewestRows} {
		for _, p := range list {
			all = append(all, productCase(d, p))
		}
	}
	for _, bytes := range []kernels.DType{kernels.INT8, kernels.FP8} {
		if planning.TypeReason(a, bytes) != "" {
			continue
		}
		for _, p := range bytesProducts {
			all = append(all, productCase(bytes, p))
		}
	}
	for _, m := range promptLengths {
		all = append(all, attentionCase(kernels.AttentionPrefill, d, 128, m))
	}
	all = append(all, attentionCase(kernels.AttentionPrefill, d, 64, promptLengths[1]))
	for _, m := range contextLengths {
		all = append(all, attentionCase(kernels.AttentionDecode, d, 128, m))
	}
	shuffle(all, seed, fittedStream)
	return all
}

// Held are the cases by which constants are checked: none of them is among those that they were fitted to.
func Held(a planning.Arch, seed uint64) []candidates.Case {
	rng := rand.New(rand.NewPCG(seed, heldStream))
	d := halves(a)
	between := func(low, high float64) int { return int(math.Round(low * math.Pow(high/low, rng.Float64()))) }
	var all []candidates.Case
	for range heldProducts {
		all = append(all, productCase(d, product{between(1, heldMostRows), heldColumns[rng.IntN(len(heldColumns))], heldDepths[rng.IntN(len(heldDepths))]}))
	}
	for i := range heldAttentions {
		if i%2 == 0 {
			all = append(all, attentionCase(kernels.AttentionPrefill, d, 128, between(192, heldMostRows)))
		} else {
			all = append(all, attentionCase(kernels.AttentionDecode, d, 128, between(192, heldMostKeys)))
		}
	}
	shuffle(all, seed, heldStream)
	return all
}

// The streams tell uses of a seed from each other.
const (
	fittedStream = 0x666974
	heldStream   = 0x68656c64
	picksStream  = 0x7069636b
)

func shuffle(all []candidates.Case, seed, stream uint64) {
	rand.New(rand.NewPCG(seed, stream)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}
