package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// reachBlock is the length of one sample.
const reachBlock = 10 * time.Millisecond

// A workload holds the memory of a benchmark's cases.
type workload struct {
	b    *testing.B
	d    *Device
	raws map[string][]kernels.Buffer
	held int64
}

func newWorkload(b *testing.B, d *Device) *workload {
	return &workload{b: b, d: d, raws: map[string][]kernels.Buffer{}}
}

func (w *workload) alloc(n int, dt kernels.DType, seed uint64) (kernels.Buffer, error) {
	buf, err := w.d.Alloc(int64(n) * int64(dt.Size()))
	if err != nil {
		return nil, err
	}
	w.held += buf.Bytes()
	w.b.Cleanup(func() { buf.Close() })
	if seed == 0 {
		return buf, nil
	}
	return buf, buf.Fill(kernels.Normal, dt, int64(n), seed)
}

// raw is the i-th B of a shape. Libraries may read it where it lies, so that copies
// of theirs need one each; our kernels pack, and share the first.
func (w *workload) raw(p kernels.Problem, i int) (kernels.Buffer, error) {
	key := fmt.Sprint(p.N, p.K, p.DType)
	for len(w.raws[key]) <= i {
		buf, err := w.alloc(p.N*p.K, p.DType, uint64(len(w.raws[key])+1))
		if err != nil {
			return nil, err
		}
		w.raws[key] = append(w.raws[key], buf)
	}
	return w.raws[key][i], nil
}

// rotation is a product whose weights come from memory.
type rotation struct {
	d        *Device
	launches []kernels.Launch
	at, n    int
	p        kernels.Problem
	bytes    int64 // of one copy of the weights
}

// rotation prepares a kernel's product with as many copies of the weights as make
// three times the last-level cache, or a sixteenth of the memory where that is less.
func (w *workload) rotation(kernel string, p kernels.Problem) (*rotation, error) {
	g, err := kernels.FindGemm(w.d, kernel)
	if err != nil {
		return nil, err
	}
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	ours := !slices.Contains([]string{"openblas", "onednn"}, kernel)
	return w.rotate(p, func(i int) (kernels.Weights, error) {
		if ours {
			i = 0
		}
		raw, err := w.raw(p, i)
		if err != nil {
			return nil, err
		}
		return g.PrepareWeights(p, raw)
	}, func(a kernels.Operand, b kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
		return g.Bind(p, a, b, c)
	})
}

// integers is the rotation of auto with weights as integers of a format.
func (w *workload) integers(p kernels.Problem, weights kernels.Quantisation) (*rotation, error) {
	g, err := kernels.FindGemm(w.d, "auto")
	if err != nil {
		return nil, err
	}
	f, err := weights.Format(p.DType, p.K)
	if err != nil {
		return nil, err
	}
	p.BLayout = kernels.Transposed
	q := kernels.QuantisedProblem{Problem: p, Weights: f}
	subject := kernels.Product(p.DType, p.N, p.K)
	subject.Layout, subject.Weights = kernels.Transposed, f
	raw, err := w.d.Alloc(f.RawBytes(p.N, p.K))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	if err := kernels.FillWeights(raw, subject, p.M, kernels.Normal, 1); err != nil {
		return nil, err
	}
	quantised, ok := g.(kernels.QuantisedGemm)
	if !ok {
		return nil, fmt.Errorf("kernel %s takes no integers", g.Name())
	}
	return w.rotate(p, func(int) (kernels.Weights, error) { return quantised.PrepareQuantised(q, raw) },
		func(a kernels.Operand, b kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
			return quantised.BindQuantised(q, a, b, c)
		})
}

// rotate binds copies of the weights, of which prepare makes the i-th.
func (w *workload) rotate(p kernels.Problem, prepare func(i int) (kernels.Weights, error),
	bind func(a kernels.Operand, b kernels.Weights, c kernels.Operand) (kernels.Launch, error)) (*rotation, error) {
	spec := w.d.Spec()
	a, err := w.alloc(p.M*p.K, p.DType, 99)
	if err != nil {
		return nil, err
	}
	c, err := w.alloc(p.M*p.N, p.DType.Output(), 0)
	if err != nil {
		return nil, err
	}
	r := &rotation{d: w.d, p: p, n: 1}
	for copies := 1; len(r.launches) < copies; {
		weights, err := prepare(len(r.launches))
		if err != nil {
			return nil, err
		}
		w.b.Cleanup(func() { weights.Close() })
		l, err := bind(kernels.Operand{Buffer: a}, weights, kernels.Operand{Buffer: c})
		if err != nil {
			return nil, err
		}
		r.bytes = weights.Bytes()
		copies = int(min(3*spec.LastLevelCacheBytes, spec.MemoryBytes/16)/r.bytes) + 1
		r.launches = append(r.launches, l)
	}
	once, err := r.run() // pages, code and clocks
	if err != nil {
		return nil, err
	}
	r.n = int(min(max(reachBlock.Seconds()/once, 1), 200))
	return r, nil
}

// run executes one block, beginning with the copy after the last one's, and returns
// the seconds of a launch.
func (r *rotation) run() (float64, error) {
	turned := slices.Concat(r.launches[r.at:], r.launches[:r.at])
	r.at = (r.at + r.n) % len(r.launches)
	span, err := r.d.Execute(context.Background(), turned, r.n)
	return span.Seconds / float64(r.n), err
}

func (r *rotation) flops() (float64, error) {
	s, err := r.run()
	return r.p.FLOPs() / s, err
}

func (r *rotation) bandwidth() (float64, error) {
	s, err := r.run()
	return float64(r.bytes) / s, err
}

// goal is a ratio of two series and what it is meant to be at least.
type goal struct {
	metric string
	a, b   *kerneltest.Series
	least  float64
}

// BenchmarkReach measures how near the kernels come to what limits them, and to the
// libraries, in one interleaved run. What this machine lacks is left out with the
// reason. One iteration is one round: -benchtime=30x for more.
func BenchmarkReach(b *testing.B) {
	if amxEmulated {
		b.Skip("tiles in software say nothing about speed")
	}
	d := openBench(b)
	w := newWorkload(b, d)
	var all []*kerneltest.Series
	var goals []goal
	var skipped []string
	add := func(name string, sample func() (float64, error)) *kerneltest.Series {
		s := &kerneltest.Series{Name: name, Sample: sample}
		all = append(all, s)
		return s
	}
	product := func(kernel string, dt kernels.DType, m, n, k int, rate func(*rotation) (float64, error)) *kerneltest.Series {
		p := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: dt}
		name := fmt.Sprintf("%s/%s/%v", kernel, dt, p.Shape)
		r, err := w.rotation(kernel, p)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("%s: %v", name, err))
			return nil
		}
		return add(name, func() (float64, error) { return rate(r) })
	}
	meet := func(metric string, s, limit *kerneltest.Series, least float64) {
		if s != nil && limit != nil {
			goals = append(goals, goal{metric, s, limit, least})
		}
	}

	registers := map[kernels.DType]*kerneltest.Series{}
	for _, want := range peakUnits(detect()) {
		if want.dtype == kernels.FP16 {
			continue
		}
		u := d.pool.settledUnit(want.units[len(want.units)-1])
		registers[want.dtype] = add(fmt.Sprintf("registers/%s", want.dtype), func() (float64, error) {
			flops, _ := u.block()
			return flops, nil
		})
	}
	amx := product("amx", kernels.BF16, 1024, 4096, 4096, (*rotation).flops)
	oneDNN := product("onednn", kernels.BF16, 1024, 4096, 4096, (*rotation).flops)
	amxInt8 := product("amx", kernels.INT8, 1024, 4096, 4096, (*rotation).flops)
	tiled := product("tiled", kernels.FP32, 1024, 4096, 4096, (*rotation).flops)
	openBLAS := product("openblas", kernels.FP32, 1024, 4096, 4096, (*rotation).flops)
	meet("amx/registers", amx, registers[kernels.BF16], 0.65)
	meet("amx/onednn", amx, oneDNN, 2)
	meet("amx_int8/registers", amxInt8, registers[kernels.INT8], 0.6)
	meet("tiled/openblas", tiled, openBLAS, 0.9)
	meet("tiled/registers", tiled, registers[kernels.FP32], 0)

	memory, pass := openReader(b, d)
	passes := int(max(1, reachBlock.Seconds()*pass()/float64(memory.part)))
	read := add("read bandwidth", meanOf(passes, pass))
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		meet(fmt.Sprintf("auto_%s/read", dt), product("auto", dt, 1, 14336, 4096, (*rotation).bandwidth), read, 0.85)
	}

	kerneltest.MeasureRounds(b, all)
	// Not by b.Log, which cuts a benchmark's lines off after the tenth.
	fmt.Fprint(os.Stderr, "\n", reachTable(d, all, goals, skipped))
	for _, g := range goals {
		b.ReportMetric(kerneltest.Median(kerneltest.Ratios(g.a, g.b)), g.metric)
	}
	b.ReportMetric(0, "ns/op") // a round's length says nothing
}

// reachTable prints rates and ratios with their intervals.
func reachTable(d *Device, all []*kerneltest.Series, goals []goal, skipped []string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %d threads\n", d.Spec().Name, d.Threads())
	for _, s := range all {
		mid, low, high := kerneltest.Interval(s.Samples)
		fmt.Fprintf(&t, "%-34s %9.2f G/s  [%.2f, %.2f]\n", s.Name, mid/1e9, low/1e9, high/1e9)
	}
	for _, g := range goals {
		mid, low, high := kerneltest.Interval(kerneltest.Ratios(g.a, g.b))
		fmt.Fprintf(&t, "%-34s %9.3f      [%.3f, %.3f]", g.metric, mid, low, high)
		switch {
		case g.least == 0:
		case mid >= g.least:
			fmt.Fprintf(&t, "  reaches %.2f", g.least)
		default:
			fmt.Fprintf(&t, "  MISSES %.2f", g.least)
		}
		t.WriteByte('\n')
	}
	for _, s := range skipped {
		fmt.Fprintf(&t, "skipped: %s\n", s)
	}
	return t.String()
}

func openBench(b *testing.B) *Device {
	b.Helper()
	d, err := Open(0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// The benchmark's parts work on a machine without the kernel that is asked for.
func TestWorkloadNamesWhatIsMissing(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := newWorkload(nil, d)
	p := kernels.Problem{Shape: kernels.Shape{M: 1, N: 1, K: 1}, DType: kernels.FP8}
	var unsupported *kernels.Unsupported
	if _, err := w.rotation("tiled", p); !errors.As(err, &unsupported) {
		t.Errorf("fp8 on tiled: %v", err)
	}
	if _, err := w.rotation("nonesuch", p); err == nil {
		t.Error("a kernel that does not exist was prepared")
	}
}

// openReader prepares memory to be read in the fastest way, until the benchmark ends; pass
// reads it once and returns the rate in bytes a second.
func openReader(b *testing.B, d *Device) (memory *streams, pass func() float64) {
	b.Helper()
	memory, err := newStreams(d.pool, d.Spec())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(memory.close)
	readers, _ := streamsOf(detect())
	way, err := memory.choose(context.Background(), readers)
	if err != nil {
		b.Fatal(err)
	}
	return memory, func() float64 { return memory.pass(way) }
}

// meanOf samples the rate of n passes by their mean time, as of the launches of a block.
func meanOf(n int, pass func() float64) func() (float64, error) {
	return func() (float64, error) {
		var perByte float64
		for range n {
			perByte += 1 / pass()
		}
		return float64(n) / perByte, nil
	}
}
