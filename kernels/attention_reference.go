package kernels

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

type attentionData string

const (
	normalScores attentionData = "normal"
	// peakedScores make each query strongly prefer one key, so one wrong key changes the output. The keys are
	// the first and last visible, the invisible ones just beyond, and random ones. Some scores overflow an
	// exponential.
	peakedScores attentionData = "peaked"
	// levelScores are equal for all keys. Some are so large or so low that exponentials overflow or vanish.
	// Values are waves over the keys.
	levelScores attentionData = "level"
	// specialScores are normal scores with NaN in some queries and keys, and NaN and infinities in the values
	// of a key that all rows see.
	specialScores attentionData = "special"
)

// mostSpecial limits special scores to cases with this many multiply-adds for Q·K. Larger cases treat NaN the
// same way.
const mostSpecial = 1 << 21

// attentionOperands are a launch's operands as float64 values that the case's type represents exactly. Keys
// and values are [Heads.KV][keys][Dim], for the visible positions first to first+keys-1.
type attentionOperands struct {
	q, k, v     []float64
	first, keys int
}

func (c AttentionCase) sees(row int) (first, last int) {
	last = c.Position + row
	if c.Window > 0 {
		first = max(0, last-c.Window+1)
	}
	return first, last
}

func newAttentionOperands(c AttentionCase, data attentionData, seed uint64) attentionOperands {
	rng := rand.New(rand.NewPCG(seed, uint64(c.Rows)<<40^uint64(c.Position)<<16^uint64(c.Window)))
	first, _ := c.sees(0)
	o := attentionOperands{first: first, keys: c.Position + c.Rows - first}
	h := c.Heads
	o.q = make([]float64, c.Rows*h.Query*h.Dim)
	o.k = make([]float64, h.KV*o.keys*h.Dim)
	o.v = make([]float64, len(o.k))
	for _, x := range [][]float64{o.q, o.k, o.v} {
		for i := range x {
			x[i] = rng.NormFloat64()
		}
	}
	switch data {
	case peakedScores:
		o.peak(c, rng)
	case levelScores:
		o.level(c, rng)
	case specialScores:
		o.special(c, rng)
	}
	for _, x := range [][]float64{o.q, o.k, o.v} {
		for i := range x {
			x[i] = roundTo(c.DType, x[i])
		}
	}
	return o
}

// peak rotates keys by their position, and each query to its preferred key, by random angles. The score of
// that key is a sum of cosines of zero; other scores are sums of cosines of random angles.
func (o attentionOperands) peak(c AttentionCase, rng *rand.Rand) {
	h, half := c.Heads, c.Heads.Dim/2
	angle := make([]float64, h.KV*half)
	for i := range angle {
		angle[i] = rng.Float64() * math.Pi
	}
	turn := func(x []float64, kv, position int, length float64) {
		for e := range half {
			sin, cos := math.Sincos(angle[kv*half+e] * float64(position))
			x[e], x[e+half] = length*cos, length*sin
		}
	}
	for kv := range h.KV {
		for j := range o.keys {
			turn(o.k[(kv*o.keys+j)*h.Dim:][:h.Dim], kv, o.first+j, 1)
		}
	}
	for i := range c.Rows {
		first, last := c.sees(i)
		for head := range h.Query {
			target := first + rng.IntN(last-first+1)
			switch (i*h.Query + head) % 6 {
			case 0:
				target = last
			case 1:
				target = last + 1
			case 2:
				target = first
			case 3:
				target = max(first-1, 0)
			}
			score := 25.0
			if rng.IntN(3) == 0 {
				score = 200
			}
			turn(o.q[(i*h.Query+head)*h.Dim:][:h.Dim], head/(h.Query/h.KV), target, score/(c.Scale*float64(half)))
		}
	}
}

// special puts NaN into some queries, and into a key and its values that all rows see. Keys that only some
// rows see stay finite: a zero weight times an infinity is NaN in every tiled kernel.
func (o attentionOperands) special(c AttentionCase, rng *rand.Rand) {
	h := c.Heads
	for i := range c.Rows {
		for head := range h.Query {
			if (i+head)%4 == 1 {
				o.q[(i*h.Query+head)*h.Dim+rng.IntN(h.Dim)] = math.NaN()
			}
		}
	}
	first, _ := c.sees(c.Rows - 1)
	if first > c.Position {
		return
	}
	j := first + rng.IntN(c.Position-first+1) - o.first
	for kv := range h.KV {
		at := (kv*o.keys + j) * h.Dim
		switch kv % 3 {
		case 0:
			values := o.v[at:][:h.Dim]
			for e := range values {
				switch e % 8 {
				case 3:
					values[e] = math.Inf(1)
				case 4:
					values[e] = math.Inf(-1)
				case 5:
					values[e] = math.NaN()
				}
			}
		case 2:
			o.k[at+rng.IntN(h.Dim)] = math.NaN()
		}
	}
}

func (o attentionOperands) level(c AttentionCase, rng *rand.Rand) {
	h := c.Heads
	length := make([]float64, h.KV)
	for kv := range h.KV {
		keys := o.k[kv*o.keys*h.Dim:][:o.keys*h.Dim]
		for e, x := range keys[:h.Dim] {
			keys[e] = roundTo(c.DType, x)
			length[kv] += keys[e] * keys[e]
		}
		for j := h.Dim; j < len(keys); j++ {
			keys[j] = keys[j-h.Dim]
		}
	}
	for i := range c.Rows {
		for head := range h.Query {
			kv := head / (h.Query / h.KV)
			score := []float64{0, 300, -300, 20}[(i+head)%4]
			for e, x := range o.k[kv*o.keys*h.Dim:][:h.Dim] {
				o.q[(i*h.Query+head)*h.Dim+e] = x * score / (c.Scale * length[kv])
			}
		}
	}
	for e := range h.KV * h.Dim {
		kv, e := e/h.Dim, e%h.Dim
		turns := 2 * math.Pi / (3 * math.Pow(float64(o.keys), rng.Float64()))
		phase := rng.Float64() * 2 * math.Pi
		for j := range o.keys {
			o.v[(kv*o.keys+j)*h.Dim+e] = math.Cos(turns*float64(j) + phase)
		}
	}
}

func (o attentionOperands) attend(c AttentionCase) (out, bound []float64) {
	n := c.Rows * c.Heads.Query
	out, bound = make([]float64, n*c.Heads.Dim), make([]float64, n*c.Heads.Dim)
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			p, magnitude := make([]float64, o.keys), make([]float64, c.Heads.Dim)
			for i := w; i < n; i += workers {
				at := i * c.Heads.Dim
				o.attendOne(c, i/c.Heads.Query, i%c.Heads.Query, p, magnitude, out[at:][:c.Heads.Dim], bound[at:][:c.Heads.Dim])
			}
		})
	}
	wg.Wait()
	return out, bound
}

func (o attentionOperands) attendOne(c AttentionCase, row, head int, p, magnitude, out, bound []float64) {
	h, kv := c.Heads, head/(c.Heads.Query/c.Heads.KV)
	first, last := c.sees(row)
	n := last - first + 1
	q := o.q[(row*h.Query+head)*h.Dim:][:h.Dim]
	at := (kv*o.keys + first - o.first) * h.Dim
	keys, values := o.k[at:][:n*h.Dim], o.v[at:][:n*h.Dim]
	clear(magnitude)

	var longest, ofQ float64 // squared lengths
	for _, x := range q {
		ofQ += x * x
	}
	top := math.Inf(-1)
	for j := range n {
		var dot, ofK float64
		for e, x := range keys[j*h.Dim:][:len(q)] {
			dot += q[e] * x
			ofK += x * x
		}
		p[j] = dot * c.Scale
		top, longest = max(top, p[j]), max(longest, ofK)
	}
	var sum float64
	for j := range n {
		p[j] = math.Exp(p[j] - top)
		sum += p[j]
	}
	var plain float64
	for j := range n {
		weight := p[j] / sum
		magnitude := magnitude[:len(out)]
		for e, x := range values[j*h.Dim:][:len(out)] {
			abs := math.Abs(x)
			out[e] += weight * x
			magnitude[e] += weight * abs
			if abs > plain && !math.IsInf(abs, 0) {
				plain = abs
			}
		}
	}
	score := c.Scale * math.Sqrt(ofQ*longest)
	for e := range bound {
		bound[e] = attentionBound(c, n, out[e], magnitude[e], score, plain*float64(n)/sum)
	}
}

// exponentialError is the relative error allowed for an exponential in fp32: twice that of the GPU
// instruction (2^-22).
const exponentialError = 0x1p-21

// attentionBound is the largest error accepted for an output with exact value ref = Σp·v over n keys and
// magnitude = Σp|v|. score bounds Scale·‖q‖·‖k‖, which by Cauchy-Schwarz bounds the sum of a score's term
// magnitudes:
//
//	u_out·|ref| + η_out/2                                  rounding to the output type
//	+ (c·√Dim·u·score + ε)·(magnitude + |ref|)             errors of the scores, as factors of p, and of exp
//	+ 2·c·√n·u·magnitude                                   the sums Σp·v and Σp
//	+ u_type·(magnitude + |ref|) + η_type/2·Σ|v|/Σe^(s-m)  rounding of p = e^(s-m) to fp16 or bf16
//	+ n·2^-126                                             flushed subnormals
//
// with u of fp32, c = [ErrorConstant] and ε = 2^-21. An error of p changes the numerator by p·|v| and, via
// the denominator, the result by p·|ref|. For tensor cores p is rounded to the operands' type, except in
// fp32. That term does not assume independent errors, because equal scores round alike. weightless bounds
// Σ|v|/Σe^(s-m).
func attentionBound(c AttentionCase, n int, ref, magnitude, score, weightless float64) float64 {
	u, both := FP32.UnitRoundoff(), magnitude+math.Abs(ref)
	b := c.DType.UnitRoundoff()*math.Abs(ref) + smallestStep(c.DType)/2
	b += (ErrorConstant*math.Sqrt(float64(c.Heads.Dim))*u*score + exponentialError) * both
	b += 2*ErrorConstant*math.Sqrt(float64(n))*u*magnitude + float64(n)*0x1p-126
	if c.DType != FP32 {
		b += c.DType.UnitRoundoff()*both + smallestStep(c.DType)/2*weightless
	}
	return b
}
