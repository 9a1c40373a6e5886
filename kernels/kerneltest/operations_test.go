package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type goDevice struct {
	kernels.Device
	kind  kernels.Kind
	fault string
	runs  int
	// For type lacks it refuses embeddings of lacksFrom rows or more.
	lacks     kernels.DType
	lacksFrom int
}

type goBuffer struct {
	kernels.Buffer
	mem []byte
}

func (b *goBuffer) Bytes() int64                       { return int64(len(b.mem)) }
func (b *goBuffer) Upload(off int64, v []byte) error   { copy(b.mem[off:], v); return nil }
func (b *goBuffer) Download(off int64, v []byte) error { copy(v, b.mem[off:]); return nil }
func (b *goBuffer) Close() error                       { return nil }

type goLaunch func()

func (goLaunch) Label() string { return "" }

func (d *goDevice) Spec() kernels.Spec { return kernels.Spec{Kind: d.kind} }

func (d *goDevice) Alloc(n int64) (kernels.Buffer, error) {
	return &goBuffer{mem: make([]byte, n)}, nil
}

func (d *goDevice) Execute(_ context.Context, l []kernels.Launch, n int) (kernels.Span, error) {
	for i := range n {
		d.runs++
		l[i%len(l)].(goLaunch)()
	}
	return kernels.Span{}, nil
}

type view struct {
	o kernels.Operand
	d kernels.DType
}

func (v view) get(i int) float64 {
	var x [1]float64
	at := (v.o.Offset + i) * v.d.Size()
	if err := kernels.Decode(v.d, v.o.Buffer.(*goBuffer).mem[at:], x[:]); err != nil {
		panic(err)
	}
	return x[0]
}

func (v view) put(i int, x float64) {
	at := (v.o.Offset + i) * v.d.Size()
	if err := kernels.Encode(v.d, []float64{x}, v.o.Buffer.(*goBuffer).mem[at:]); err != nil {
		panic(err)
	}
}

type checker struct {
	d   *goDevice
	err error
}

func (c *checker) operand(name string, o kernels.Operand, dt kernels.DType, n int) view {
	b, ok := o.Buffer.(*goBuffer)
	if !ok || o.Offset < 0 || (o.Offset+n)*dt.Size() > len(b.mem) {
		if c.d.fault != "unchecked "+name {
			c.err = errors.Join(c.err, fmt.Errorf("operand %s does not fit", name))
		}
	}
	return view{o, dt}
}

func (c *checker) size(name string, ok bool) {
	if !ok && c.d.fault != "unchecked "+name {
		c.err = errors.Join(c.err, fmt.Errorf("%s can't be", name))
	}
}

func (c *checker) launch(dt kernels.DType, l goLaunch) (kernels.Launch, error) {
	c.size(string(dt), dt != kernels.INT8)
	if c.err != nil {
		return nil, c.err
	}
	return l, nil
}

func (d *goDevice) Embed(e kernels.Embedding) (kernels.Launch, error) {
	if e.DType == d.lacks && e.Rows >= d.lacksFrom {
		return nil, fmt.Errorf("embedding: %w", &kernels.Unsupported{Kernel: "embed", DType: e.DType, Reason: "there is no unit for it"})
	}
	c := checker{d: d}
	c.size("rows", e.Rows > 0)
	c.size("hidden", e.Hidden > 0)
	c.size("vocab", e.Vocab > 0)
	tokens, table := c.operand("Tokens", e.Tokens, kernels.INT32, e.Rows), c.operand("Table", e.Table, e.DType, e.Vocab*e.Hidden)
	x := c.operand("X", e.X, kernels.FP32, e.Rows*e.Hidden)
	return c.launch(e.DType, func() {
		for i := range e.Rows * e.Hidden {
			id := int(tokens.get(i / e.Hidden))
			switch {
			case d.fault == "clamps tokens":
				x.put(i, table.get(min(max(id, 0), e.Vocab-1)*e.Hidden+i%e.Hidden))
			case id < 0 || id >= e.Vocab:
				x.put(i, 0)
			default:
				x.put(i, table.get(id*e.Hidden+i%e.Hidden))
			}
		}
		if d.fault == "last element" {
			x.put(e.Rows*e.Hidden-1, math.NaN())
		}
		if d.fault == "past the end" {
			x.put(e.Rows*e.Hidden, 0)
		}
		if d.fault == "before the beginning" {
			x.put(-1, 0)
		}
		if d.fault == "writes the table" {
			table.put(0, table.get(0)+float64(d.runs))
		}
	})
}

func (d *goDevice) Normalize(n kernels.Normalization) (kernels.Launch, error) {
	c := checker{d: d}
	c.size("rows", n.Rows > 0)
	c.size("hidden", n.Hidden > 0)
	c.size("from row", n.FromRow >= 0 && n.FromRow < n.Rows)
	x, weight := c.operand("X", n.X, kernels.FP32, n.Rows*n.Hidden), c.operand("Weight", n.Weight, n.DType, n.Hidden)
	out := c.operand("Out", n.Out, n.DType, (n.Rows-n.FromRow)*n.Hidden)
	var delta view
	if n.Delta.Buffer != nil {
		delta = c.operand("Delta", n.Delta, n.DType, n.Rows*n.Hidden)
	}
	return c.launch(n.DType, func() {
		for i := range n.Rows {
			if d.fault == "adds from FromRow" && i < n.FromRow {
				continue
			}
			var sum float64
			for j := range n.Hidden {
				if at := i*n.Hidden + j; n.Delta.Buffer != nil {
					x.put(at, x.get(at)+delta.get(at))
				}
				if d.fault != "drops the tail of sums" || j < n.Hidden/8*8 || n.Hidden < 8 {
					sum += x.get(i*n.Hidden+j) * x.get(i*n.Hidden+j)
				}
			}
			r := 1 / math.Sqrt(sum/float64(n.Hidden)+n.Epsilon)
			if d.fault == "epsilon outside" {
				r = 1 / (math.Sqrt(sum/float64(n.Hidden)) + n.Epsilon)
			}
			for j := range n.Hidden {
				v := x.get(i*n.Hidden+j) * r
				if d.fault == "rounds twice" {
					b := view{kernels.Operand{Buffer: &goBuffer{mem: make([]byte, 4)}}, n.DType}
					b.put(0, v)
					v = b.get(0)
				}
				if d.fault == "drifts" {
					v *= 1 + 1e-7*float64(d.runs)
				}
				if i >= n.FromRow {
					out.put((i-n.FromRow)*n.Hidden+j, v*weight.get(j))
				}
			}
		}
	})
}

func (d *goDevice) Rotate(r kernels.Rotation) (kernels.Launch, error) {
	c, h := checker{d: d}, r.Heads
	c.size("rows", r.Rows > 0)
	c.size("heads", h.Validate() == nil)
	c.size("positions", r.Positions > 0)
	c.size("capacity", r.Cache.Capacity > 0 && r.Cache.Capacity%kernels.CacheGranule == 0)
	qkv, position := c.operand("QKV", r.QKV, r.DType, r.Rows*h.Width()), c.operand("Position", r.Position, kernels.INT32, 1)
	table := c.operand("Table", r.Table, kernels.FP32, r.Positions*h.Dim)
	keys, values := c.operand("Keys", r.Cache.Keys, r.DType, h.KV*r.Cache.Capacity*h.Dim),
		c.operand("Values", r.Cache.Values, r.DType, h.KV*r.Cache.Capacity*h.Dim)
	return c.launch(r.DType, func() {
		half := h.Dim / 2
		for i := range r.Rows {
			p := int(position.get(0)) + i
			if d.fault == "next position" && p+1 < r.Positions {
				p++
			}
			slot := p % r.Cache.Capacity
			if d.fault == "slot of the first" {
				slot = (int(position.get(0))%r.Cache.Capacity + i) % r.Cache.Capacity
				if i > 0 {
					slot = 0
				}
			}
			for head := range h.Query + 2*h.KV {
				from := i*h.Width() + head*h.Dim
				to := ((head-h.Query)%h.KV*r.Cache.Capacity + slot) * h.Dim
				for e := range half {
					a, b := qkv.get(from+e), qkv.get(from+e+half)
					cos, sin := table.get((p*half+e)*2), table.get((p*half+e)*2+1)
					if d.fault == "turns the other way" {
						sin = -sin
					}
					x, y := a*cos-b*sin, b*cos+a*sin
					switch {
					case head < h.Query:
						qkv.put(from+e, x)
						qkv.put(from+e+half, y)
					case head < h.Query+h.KV:
						keys.put(to+e, x)
						keys.put(to+e+half, y)
					case d.fault != "no values":
						values.put(to+e, a)
						values.put(to+e+half, b)
					}
				}
			}
		}
	})
}

func (d *goDevice) Activate(g kernels.GatedUnit) (kernels.Launch, error) {
	c := checker{d: d}
	c.size("rows", g.Rows > 0)
	c.size("inner", g.Inner > 0)
	in, out := c.operand("GateUp", g.GateUp, g.DType, g.Rows*2*g.Inner), c.operand("Out", g.Out, g.DType, g.Rows*g.Inner)
	return c.launch(g.DType, func() {
		for i := range g.Rows * g.Inner {
			at := i/g.Inner*2*g.Inner + i%g.Inner
			x, up := in.get(at), in.get(at+g.Inner)
			switch d.fault {
			case "halves swapped":
				x, up = up, x
			case "gelu":
				x *= 1.702
				up /= 1.702
			case "overflows":
				if e := math.Exp(-x); e > 1e38 {
					x = math.NaN()
				}
			}
			out.put(i, x/(1+math.Exp(-x))*up)
		}
	})
}

func (d *goDevice) Choose(ch kernels.TokenChoice) (kernels.Launch, error) {
	c := checker{d: d}
	c.size("vocab", ch.Vocab > 0)
	logits, token := c.operand("Logits", ch.Logits, ch.DType, ch.Vocab), c.operand("Token", ch.Token, kernels.INT32, 1)
	position := c.operand("Position", ch.Position, kernels.INT32, 1)
	var history view
	if ch.History.Buffer != nil {
		c.size("history length", ch.HistoryLen > 0)
		history = c.operand("History", ch.History, kernels.INT32, ch.HistoryLen)
	}
	return c.launch(ch.DType, func() {
		best := -1
		for i := range ch.Vocab {
			x := logits.get(i)
			switch {
			case math.IsNaN(x) && d.fault != "takes NaN":
			case best < 0 || x > logits.get(best) || d.fault == "last of equal ones" && x == logits.get(best) ||
				d.fault == "takes NaN" && math.IsNaN(x):
				best = i
			}
		}
		at := int(position.get(0))
		token.put(0, float64(best))
		if d.fault != "stands still" {
			position.put(0, float64(at+1))
		}
		if d.fault == "history after" {
			at++
		}
		if ch.History.Buffer != nil {
			history.put(at%ch.HistoryLen, float64(best))
		}
	})
}

var operationCases = map[string]func(kernels.DType) []operation{
	"embed": embeddings, "normalize": normalizations, "rotate": rotations, "gate": gatedUnits, "choose": choices,
}

func TestOperationsPassACorrectDevice(t *testing.T) { Operations(t, &goDevice{}) }

// A type refused in every case counts as lacking, except fp32, fp16 and all types of a CPU.
func TestOperationsOfALackingType(t *testing.T) {
	for _, c := range []struct {
		kind    kernels.Kind
		dtype   kernels.DType
		from    int
		lacking bool
	}{
		{kernels.CUDA, kernels.BF16, 0, true},
		{kernels.CUDA, kernels.BF16, 2, false},
		{kernels.CUDA, kernels.FP16, 0, false},
		{kernels.CUDA, kernels.FP32, 0, false},
		{kernels.CPU, kernels.BF16, 0, false},
	} {
		o := holdOperations(t.Context(), &goDevice{kind: c.kind, lacks: c.dtype, lacksFrom: c.from}, c.dtype, embeddings(c.dtype))
		if (o.lacking != nil) != c.lacking || (len(o.failed) > 0) == c.lacking {
			t.Errorf("%s without %s from %d rows on: lacking %v, failed %v", c.kind, c.dtype, c.from, o.lacking, o.failed)
		}
	}
	o := holdOperations(t.Context(), &goDevice{kind: kernels.CUDA, lacks: kernels.FP16}, kernels.BF16, embeddings(kernels.BF16))
	if o.lacking != nil || len(o.failed) > 0 {
		t.Errorf("a device with bf16: lacking %v, failed %v", o.lacking, o.failed)
	}
}

func TestOperationsCatchFaults(t *testing.T) {
	all := []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16}
	for _, c := range []struct {
		op, fault, want string
		dtypes          []kernels.DType
	}{
		{"embed", "clamps tokens", "X: element", all},
		{"embed", "last element", "X: element", all},
		{"embed", "past the end", "X: element", all},
		{"embed", "before the beginning", "X: element -1", all},
		{"embed", "writes the table", "Table: element 0 of", all},
		{"normalize", "adds from FromRow", "X: element", all},
		{"normalize", "drops the tail of sums", "Out: element", all},
		{"normalize", "epsilon outside", "Out: element", all},
		{"normalize", "rounds twice", "Out: element", all[1:]},
		{"normalize", "drifts", "Out differs from run to run", all[:1]},
		{"rotate", "next position", "QKV: element", all},
		{"rotate", "slot of the first", "element", all},
		{"rotate", "turns the other way", "QKV: element", all},
		{"rotate", "no values", "Values: element", all},
		{"gate", "halves swapped", "Out: element", all},
		{"gate", "gelu", "Out: element", all},
		{"gate", "overflows", "is NaN", all},
		{"choose", "last of equal ones", "Token: element", all},
		{"choose", "takes NaN", "Token: element", all},
		{"choose", "stands still", "Position: element", all},
		{"choose", "history after", "History: element", all},
		{"embed", "unchecked Tokens", "Tokens that can't be", all},
		{"normalize", "unchecked Delta", "Delta that can't be", all},
		{"normalize", "unchecked from row", "from that can't be", all},
		{"rotate", "unchecked capacity", "capacity that can't be", all},
		{"gate", "unchecked int8", "int8 that can't be", all},
		{"choose", "unchecked history length", "history that can't be", all},
	} {
		for _, dt := range c.dtypes {
			t.Run(fmt.Sprintf("%s/%s/%s", c.op, c.fault, dt), func(t *testing.T) {
				var last error
				for _, o := range operationCases[c.op](dt) {
					err := o.run(t.Context(), &goDevice{fault: c.fault})
					if err != nil && strings.Contains(err.Error(), c.want) {
						return
					}
					last = errors.Join(last, err)
				}
				t.Errorf("no case failed with %q; failures were: %v", c.want, last)
			})
		}
	}
}
