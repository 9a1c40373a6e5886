package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func normals(rng *rand.Rand, n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64() * scale
	}
	return v
}

// lay collects a launch's operands until the first error.
type lay struct {
	m     *memory
	guard int
	err   error
}

func (l *lay) put(name string, d kernels.DType, v []float64) *operand {
	return l.take(l.m.put(name, d, l.guard, v))
}

func (l *lay) blank(name string, d kernels.DType, n int) *operand {
	return l.take(l.m.blank(name, d, l.guard, n))
}

// take returns the operand, or an empty one after an error.
func (l *lay) take(o *operand, err error) *operand {
	if err != nil {
		l.err = err
		return &operand{}
	}
	return o
}

// embeddings: rows are copied exactly; tokens outside the table give zeros.
func embeddings(dt kernels.DType) []operation {
	var out []operation
	for _, c := range []struct{ rows, hidden, vocab, guard int }{
		{1, 1, 1, looseGuard}, {1, 64, 10, alignedGuard}, {1, 2048, 100, alignedGuard}, {3, 65, 7, looseGuard},
		{17, 130, 33, alignedGuard}, {300, 96, 50, alignedGuard}, {5, 4096, 40, alignedGuard}, {2, 4097, 12, looseGuard},
		{33, 4096, 64, alignedGuard},
	} {
		out = append(out, operation{
			name:     fmt.Sprintf("rows %d hidden %d vocab %d at %d", c.rows, c.hidden, c.vocab, c.guard),
			required: c.guard == alignedGuard,
			bind: func(d OperationsDevice, m *memory) (kernels.Launch, error) {
				rng := rand.New(rand.NewPCG(1, uint64(c.rows*c.hidden)))
				l := lay{m: m, guard: c.guard}
				tokens := make([]float64, c.rows)
				for i := range tokens {
					tokens[i] = float64(rng.IntN(c.vocab))
				}
				if c.rows > 2 {
					tokens[0], tokens[1], tokens[2] = -1, float64(c.vocab), math.MinInt32
				}
				if c.rows > 3 {
					tokens[c.rows-1] = math.MaxInt32
				}
				table := l.put("Table", dt, normals(rng, c.vocab*c.hidden, 1))
				ids := l.put("Tokens", kernels.INT32, tokens)
				x := l.blank("X", kernels.FP32, c.rows*c.hidden)
				if l.err != nil {
					return nil, l.err
				}
				x.want = make([]float64, c.rows*c.hidden)
				rows := table.values()
				for i, id := range tokens {
					if id >= 0 && int(id) < c.vocab {
						copy(x.want[i*c.hidden:][:c.hidden], rows[int(id)*c.hidden:])
					}
				}
				good := kernels.Embedding{Rows: c.rows, Hidden: c.hidden, Vocab: c.vocab, DType: dt, Tokens: ids.Operand,
					Table: table.Operand, X: x.Operand}
				return launched(good, d.Embed, "Rows Hidden Vocab")
			},
		})
	}
	return out
}

// normalizations: sums with Delta are exact in fp32. The mean of squares is off by at most c·√Hidden·u (c =
// 6, kernels.ErrorConstant), its root by half of that; 8·u covers the remaining operations.
func normalizations(dt kernels.DType) []operation {
	var out []operation
	for _, c := range []struct {
		rows, hidden, from int
		delta              bool
		guard              int
	}{
		{1, 1, 0, true, looseGuard}, {1, 64, 0, true, alignedGuard}, {1, 2048, 0, true, alignedGuard}, {1, 4096, 0, false, alignedGuard},
		{3, 65, 0, true, looseGuard}, {3, 100, 2, true, looseGuard}, {17, 130, 0, false, alignedGuard}, {300, 96, 299, true, alignedGuard},
		{5, 5120, 1, true, alignedGuard}, {33, 4096, 32, true, alignedGuard}, {33, 4096, 0, true, alignedGuard},
		{2, 8191, 0, true, looseGuard},
		{4, 14336, 0, false, alignedGuard}, {7, 31, 3, false, alignedGuard},
	} {
		out = append(out, operation{
			name:     fmt.Sprintf("rows %d hidden %d from %d delta %v at %d", c.rows, c.hidden, c.from, c.delta, c.guard),
			required: c.guard == alignedGuard,
			bind: func(d OperationsDevice, m *memory) (kernels.Launch, error) {
				rng := rand.New(rand.NewPCG(2, uint64(c.rows*c.hidden)))
				l := lay{m: m, guard: c.guard}
				start := normals(rng, c.rows*c.hidden, 3)
				for i := range start { // rows of all magnitudes, one zero
					start[i] *= math.Pow(10, float64(i/c.hidden%5)-2)
					if i/c.hidden == 6 {
						start[i] = 0
					}
				}
				x, weight := l.put("X", kernels.FP32, start), l.put("Weight", dt, normals(rng, c.hidden, 1))
				result := l.blank("Out", dt, (c.rows-c.from)*c.hidden)
				good := kernels.Normalization{Rows: c.rows, Hidden: c.hidden, FromRow: c.from, DType: dt, Epsilon: 1e-5,
					X: x.Operand, Weight: weight.Operand, Out: result.Operand}
				var delta []float64
				if c.delta {
					o := l.put("Delta", dt, normals(rng, c.rows*c.hidden, 1))
					good.Delta = o.Operand
					if l.err == nil {
						delta = o.values()
					}
				}
				if l.err != nil {
					return nil, l.err
				}
				x.want, result.want = x.values(), make([]float64, result.n)
				for i, v := range delta {
					x.want[i] = float64(float32(x.want[i] + v))
				}
				w := weight.values()
				for i := c.from; i < c.rows; i++ {
					row, out := x.want[i*c.hidden:][:c.hidden], result.want[(i-c.from)*c.hidden:]
					var sum float64
					for _, v := range row {
						sum += v * v
					}
					r := 1 / math.Sqrt(sum/float64(c.hidden)+good.Epsilon)
					for j, v := range row {
						out[j] = v * r * w[j]
					}
				}
				relative := (kernels.ErrorConstant/2*math.Sqrt(float64(c.hidden)) + 8) * u32
				result.bound = func(i int) float64 {
					return rounding(dt, result.want[i]) + relative*math.Abs(result.want[i])
				}
				type n = kernels.Normalization
				return launched(good, d.Normalize, "Rows Hidden",
					wrong[n]{"from", func(n *n) { n.FromRow = n.Rows }}, wrong[n]{"from", func(n *n) { n.FromRow = -1 }})
			},
		})
	}
	return out
}

// rotations: two products and a sum in fp32, then rounding. Values are copied exactly and other cache slots
// don't change. The keys of QKV may become anything.
func rotations(dt kernels.DType) []operation {
	var out []operation
	for _, c := range []struct {
		rows               int
		heads              kernels.Heads
		position, capacity int
		positions, guard   int
	}{
		{1, kernels.Heads{Query: 1, KV: 1, Dim: 2}, 0, 256, 1, looseGuard},
		{1, kernels.Heads{Query: 32, KV: 8, Dim: 128}, 0, 256, 512, alignedGuard},
		{1, kernels.Heads{Query: 32, KV: 8, Dim: 128}, 255, 256, 512, alignedGuard},
		{1, kernels.Heads{Query: 32, KV: 8, Dim: 64}, 511, 256, 512, alignedGuard},
		{1, kernels.Heads{Query: 4, KV: 4, Dim: 64}, 300, 512, 2000, alignedGuard},
		{3, kernels.Heads{Query: 8, KV: 1, Dim: 96}, 1000, 256, 1003, alignedGuard},
		{5, kernels.Heads{Query: 6, KV: 2, Dim: 34}, 254, 256, 300, looseGuard},
		{17, kernels.Heads{Query: 4, KV: 2, Dim: 32}, 250, 256, 300, alignedGuard},
		{128, kernels.Heads{Query: 8, KV: 2, Dim: 128}, 200, 256, 328, alignedGuard},
		{256, kernels.Heads{Query: 2, KV: 1, Dim: 64}, 77, 256, 333, alignedGuard},
		{130, kernels.Heads{Query: 4, KV: 4, Dim: 128}, 0, 256, 130, alignedGuard},
	} {
		h := c.heads
		out = append(out, operation{
			name: fmt.Sprintf("rows %d heads %d/%d of %d position %d capacity %d at %d", c.rows, h.Query, h.KV, h.Dim, c.position,
				c.capacity, c.guard),
			required: c.guard == alignedGuard && (h.Dim == 64 || h.Dim == 128),
			bind: func(d OperationsDevice, m *memory) (kernels.Launch, error) {
				rng := rand.New(rand.NewPCG(3, uint64(c.rows*h.Width())))
				l := lay{m: m, guard: c.guard}
				angles := make([]float64, c.positions*h.Dim)
				for i := 0; i < len(angles); i += 2 {
					angles[i+1], angles[i] = math.Sincos(rng.Float64() * 7)
				}
				qkv := l.put("QKV", dt, normals(rng, c.rows*h.Width(), 1))
				position := l.put("Position", kernels.INT32, []float64{float64(c.position)})
				table := l.put("Table", kernels.FP32, angles)
				keys := l.blank("Keys", dt, h.KV*c.capacity*h.Dim)
				values := l.blank("Values", dt, h.KV*c.capacity*h.Dim)
				if l.err != nil {
					return nil, l.err
				}
				good := kernels.Rotation{Rows: c.rows, Heads: h, DType: dt, QKV: qkv.Operand, Position: position.Operand,
					Table:     table.Operand,
					Positions: c.positions, Cache: kernels.KVCache{Capacity: c.capacity, Keys: keys.Operand, Values: values.Operand}}
				wantRotated(good, c.position, qkv, table.values(), keys, values)
				type r = kernels.Rotation
				return launched(good, d.Rotate, "Rows Positions",
					wrong[r]{"heads", func(r *r) { r.Heads.KV = 0 }}, wrong[r]{"heads", func(r *r) { r.Heads.Dim++ }},
					wrong[r]{"capacity", func(r *r) { r.Cache.Capacity = 100 }}, wrong[r]{"capacity", func(r *r) { r.Cache.Capacity = 0 }})
			},
		})
	}
	return out
}

func wantRotated(r kernels.Rotation, first int, qkv *operand, angles []float64, keys, values *operand) {
	h, half := r.Heads, r.Heads.Dim/2
	in := qkv.values()
	qkv.want = qkv.values()
	keys.want, values.want = keys.values(), values.values()
	bounds, keyBounds := make([]float64, qkv.n), make([]float64, keys.n)
	for i := range r.Rows {
		position := first + i
		turned := func(from, e int) (value, bound float64) {
			cos, sin := angles[(position*half+e%half)*2], angles[(position*half+e%half)*2+1]
			a, b := in[from+e]*cos, in[from+(e+half)%h.Dim]*sin
			if e < half {
				b = -b
			}
			return a + b, rounding(r.DType, a+b) + 3*u32*(math.Abs(a)+math.Abs(b))
		}
		for head := range h.Query + 2*h.KV {
			from := i*h.Width() + head*h.Dim
			kv := (head - h.Query) % h.KV
			slot := (kv*r.Cache.Capacity + position%r.Cache.Capacity) * h.Dim
			for e := range h.Dim {
				switch {
				case head < h.Query:
					qkv.want[from+e], bounds[from+e] = turned(from, e)
				case head < h.Query+h.KV:
					keys.want[slot+e], keyBounds[slot+e] = turned(from, e)
					bounds[from+e] = -1
				default:
					values.want[slot+e] = in[from+e]
				}
			}
		}
	}
	qkv.bound = func(i int) float64 { return bounds[i] }
	keys.bound = func(i int) float64 { return keyBounds[i] }
}

// gatedUnits: the exponential is off by 2^-21 and its argument's rounding, 2·|x|·u, and may be zero if
// subnormal.
func gatedUnits(dt kernels.DType) []operation {
	var out []operation
	for _, c := range []struct{ rows, inner, guard int }{
		{1, 1, looseGuard}, {1, 64, alignedGuard}, {1, 5632, alignedGuard}, {1, 14336, alignedGuard}, {3, 65, looseGuard},
		{17, 130, alignedGuard}, {300, 96, alignedGuard}, {33, 5632, alignedGuard}, {2, 4095, looseGuard},
	} {
		out = append(out, operation{
			name:     fmt.Sprintf("rows %d inner %d at %d", c.rows, c.inner, c.guard),
			required: c.guard == alignedGuard,
			bind: func(d OperationsDevice, m *memory) (kernels.Launch, error) {
				rng := rand.New(rand.NewPCG(4, uint64(c.rows*c.inner)))
				l := lay{m: m, guard: c.guard}
				v := normals(rng, c.rows*2*c.inner, 4)
				for i := range c.rows {
					for j, x := range []float64{0, -100, 100, -88, -20, 20, 1e-4, -87.5} {
						if j < c.inner {
							v[i*2*c.inner+(j*37+i)%c.inner] = x
						}
					}
				}
				in, result := l.put("GateUp", dt, v), l.blank("Out", dt, c.rows*c.inner)
				if l.err != nil {
					return nil, l.err
				}
				result.want = make([]float64, result.n)
				bounds, values := make([]float64, result.n), in.values()
				for i := range result.want {
					at := i/c.inner*2*c.inner + i%c.inner
					x, up := values[at], values[at+c.inner]
					want := x / (1 + math.Exp(-x)) * up
					result.want[i] = want
					bounds[i] = rounding(dt, want) + (0x1p-21+(8+2*math.Abs(x))*u32)*math.Abs(want) + 0x1p-125*(1+math.Abs(x*up))
				}
				result.bound = func(i int) float64 { return bounds[i] }
				good := kernels.GatedUnit{Rows: c.rows, Inner: c.inner, DType: dt, GateUp: in.Operand, Out: result.Operand}
				return launched(good, d.Activate, "Rows Inner")
			},
		})
	}
	return out
}

// choices are exact. A block runs the launch several times, like a decoder with constant logits.
func choices(dt kernels.DType) []operation {
	var out []operation
	for _, c := range []struct {
		vocab  int
		logits string
		at     []int // of the largest
		// history is its number of entries; 0 for none.
		position, history, launches, guard int
	}{
		{1, "normal", []int{0}, 0, 1, 1, looseGuard},
		{2, "normal", []int{1}, 0, 0, 1, alignedGuard},
		{2, "normal", []int{0, 1}, 3, 4, 1, alignedGuard},
		{100, "normal", []int{99}, 7, 5, 3, looseGuard},
		{1000, "negative", []int{999, 998, 500}, 12, 16, 5, alignedGuard},
		{1023, "nan", []int{0}, 1, 2, 4, looseGuard},
		{4099, "nan", []int{4096, 4098}, 1, 0, 1, alignedGuard},
		{32000, "normal", []int{0, 31999}, 4095, 4096, 2, alignedGuard},
		{32000, "normal", []int{31999}, 4095, 4096, 1, alignedGuard},
		{32000, "normal", []int{15999, 16000, 16001, 24000}, 0, 1, 2, alignedGuard},
		{32768, "level", []int{0}, 0, 8, 1, alignedGuard},
		{32003, "infinite", []int{32002}, 0, 8, 1, alignedGuard},
		{32003, "infinite nan", []int{2}, 0, 8, 1, alignedGuard},
		{128256, "normal", []int{128255}, 100, 64, 1, alignedGuard},
		{128256, "normal", []int{77777, 100000}, 100, 64, 1, alignedGuard},
	} {
		out = append(out, operation{
			name:     fmt.Sprintf("vocab %d %s largest at %v position %d history %d", c.vocab, c.logits, c.at, c.position, c.history),
			required: c.guard == alignedGuard,
			launches: c.launches,
			bind: func(d OperationsDevice, m *memory) (kernels.Launch, error) {
				rng := rand.New(rand.NewPCG(5, uint64(c.vocab)))
				l := lay{m: m, guard: c.guard}
				v, largest := normals(rng, c.vocab, 1), 60.0
				for i := range v {
					switch c.logits {
					case "negative":
						v[i], largest = -100-math.Abs(v[i]), -99.5
					case "nan":
						if i%3 == 1 {
							v[i] = math.NaN()
						}
					case "level":
						v[i], largest = -3, -3
					case "infinite", "infinite nan":
						v[i], largest = math.Inf(-1), -1000
						if c.logits == "infinite nan" {
							largest = math.Inf(-1)
							if i < 2 {
								v[i] = math.NaN()
							}
						}
					}
				}
				for _, i := range c.at {
					v[i] = largest
				}
				first := c.at[0]
				for _, i := range c.at {
					first = min(first, i)
				}
				logits := l.put("Logits", dt, v)
				token, position := l.blank("Token", kernels.INT32, 1), l.put("Position", kernels.INT32, []float64{float64(c.position)})
				good := kernels.TokenChoice{Vocab: c.vocab, DType: dt, Logits: logits.Operand, Token: token.Operand,
					Position: position.Operand}
				token.want, position.want = []float64{float64(first)}, []float64{float64(c.position + c.launches)}
				if c.history > 0 {
					history := l.blank("History", kernels.INT32, c.history)
					if l.err != nil {
						return nil, l.err
					}
					history.want = history.values()
					for i := range c.launches {
						history.want[(c.position+i)%c.history] = float64(first)
					}
					good.History, good.HistoryLen = history.Operand, c.history
				}
				if l.err != nil {
					return nil, l.err
				}
				if c.history == 0 {
					return launched(good, d.Choose, "Vocab")
				}
				return launched(good, d.Choose, "Vocab",
					wrong[kernels.TokenChoice]{"history", func(c *kernels.TokenChoice) { c.HistoryLen = 0 }})
			},
		})
	}
	return out
}
