package kernels

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

type softmaxData string

const (
	normalRows softmaxData = "normal"
	// peakedRows have nearly all their mass on one element, so one wrong element changes the row: in turn the
	// last visible, the first, the middle, and random ones. Some exponentials overflow without the maximum
	// subtracted.
	peakedRows softmaxData = "peaked"
	// levelRows have equal elements, some so large or so low that exponentials overflow or vanish.
	levelRows softmaxData = "level"
	// specialRows have infinities and NaN in some rows. Some logarithms overflow fp16.
	specialRows softmaxData = "special"
)

var softmaxKinds = []softmaxData{normalRows, peakedRows, levelRows, specialRows}

// softmaxOperand draws In, [Rows, Columns], representable in the type. Masked elements are NaN.
func softmaxOperand(p Task, data softmaxData, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(p.M)<<40^uint64(p.Columns)<<16^uint64(p.Queries)))
	x := make([]float64, p.M*p.Columns)
	for row := range p.M {
		all, seen := x[row*p.Columns:][:p.Columns], p.Seen(row)
		for i := range all[seen:] {
			all[seen+i] = math.NaN()
		}
		of := all[:seen]
		for i := range of {
			of[i] = rng.NormFloat64()
		}
		switch data {
		case peakedRows:
			peak := []int{seen - 1, 0, seen / 2, rng.IntN(seen)}[row%4]
			of[peak] += []float64{25, 200}[rng.IntN(2)] / float64(p.Scale)
		case levelRows:
			level := []float64{0, 300, -300, 20}[row%4] / float64(p.Scale)
			for i := range of {
				of[i] = level
			}
		case specialRows:
			special(of, row, rng)
		}
		for i := range of {
			of[i] = roundTo(p.DType, of[i])
		}
	}
	return x
}

// special makes a row one of eight kinds: plain, some -Inf, all -Inf, NaN, +Inf, finite only at the end, both
// infinities, or elements so far apart that logarithms overflow fp16.
func special(row []float64, i int, rng *rand.Rand) {
	n, low := len(row), math.Inf(-1)
	switch i % 8 {
	case 1:
		for j := range row {
			if j != n/2 && rng.IntN(2) == 0 {
				row[j] = low
			}
		}
	case 2:
		for j := range row {
			row[j] = low
		}
	case 3:
		row[rng.IntN(n)] = math.NaN()
	case 4:
		row[rng.IntN(n)] = math.Inf(1)
	case 5:
		for j := range row[:n-1] {
			row[j] = low
		}
	case 6:
		row[0], row[n-1] = low, math.Inf(1)
	case 7:
		for j := range row {
			row[j] = 60000
			if j > 0 && rng.IntN(2) == 0 {
				row[j] = -60000
			}
		}
	}
}

// softmaxOf returns the exact outputs for x and their [softmaxBound], both [Rows, Columns].
func softmaxOf(p Task, x []float64) (out, bound []float64) {
	out, bound = make([]float64, len(x)), make([]float64, len(x))
	workers := min(runtime.GOMAXPROCS(0), p.M)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for row := w; row < p.M; row += workers {
				at, seen := row*p.Columns, p.Seen(row)
				softmaxRow(p, x[at:][:seen], out[at:][:seen], bound[at:][:seen])
				for i := seen; i < p.Columns; i++ {
					out[at+i] = p.masked()
				}
			}
		})
	}
	wg.Wait()
	return out, bound
}

func (p Task) masked() float64 {
	if p.Log() {
		return math.Inf(-1)
	}
	return 0
}

func softmaxRow(p Task, x, out, bound []float64) {
	scale, top := float64(p.Scale), math.Inf(-1)
	for _, v := range x {
		top = max(top, v*scale)
	}
	if math.IsInf(top, 0) || math.IsNaN(top) {
		for i := range out {
			out[i] = math.NaN()
		}
		return
	}
	var sum, shared float64
	for i, v := range x {
		e := math.Exp(v*scale - top)
		out[i] = e
		sum += e
		if e > 0 {
			shared += e * softmaxArgument(v*scale, top)
		}
	}
	shared /= sum
	log := math.Log(sum)
	for i, v := range x {
		out[i] /= sum
		if p.Log() {
			out[i] = v*scale - top - log
		}
		if !math.IsInf(v, 0) {
			bound[i] = softmaxBound(p, len(x), out[i], softmaxArgument(v*scale, top), shared, log)
		}
	}
}

// softmaxArgument is the error bound of an exponential's argument z - top. With k = Scale·log2(e) and u of
// fp32, z·k, top·k and their difference each round by u, and k is off by 2u.
func softmaxArgument(z, top float64) float64 {
	return 4 * FP32.UnitRoundoff() * (math.Abs(z) + math.Abs(top))
}

// softmaxBound is the largest error accepted for an output with exact value ref, of n elements. own is the
// element's [softmaxArgument], shared its mean over the elements by weight (the sum's error), and log the
// logarithm of the sum:
//
//	u_out·|ref| + η_out/2                              rounding to the output type
//	+ |ref|·(own + shared + 2ε + (c·√n + 4)·u)         arguments, exponentials, sum and quotient
//	+ 2^-126                                           flushed subnormals
//
// For the logarithm errors are absolute:
//
//	u_out·|ref| + η_out/2 + own + shared + 2ε + (c·√n + 4·log)·u
//
// with u of fp32, c = [ErrorConstant] and ε = 2^-21 for exponential and logarithm.
func softmaxBound(p Task, n int, ref, own, shared, log float64) float64 {
	u, size := FP32.UnitRoundoff(), math.Abs(ref)
	rounding := p.DType.UnitRoundoff()*size + smallestStep(p.DType)/2
	common := own + shared + 2*exponentialError + ErrorConstant*math.Sqrt(float64(n))*u
	if p.Log() {
		return rounding + common + 4*log*u
	}
	return rounding + size*(common+4*u) + 0x1p-126
}
