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
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const reachBlock = 10 * time.Millisecond

// workload holds the memory of a benchmark's cases.
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

// raw returns the i-th B of a shape. Libraries may read raw B, so each copy needs its own; our kernels pack
// the first.
func (w *workload) raw(p kernels.Task, i int) (kernels.Buffer, error) {
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
	p        kernels.Task
	bytes    int64
}

// rotation prepares a product with enough copies of the weights to exceed three times the last-level cache,
// or 1/16 of memory if less.
func (w *workload) rotation(kernel string, p kernels.Task) (*rotation, error) {
	g, err := kernels.Find(w.d, kernels.GEMM, kernel)
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
		return g.Prepare(p, raw)
	}, func(a kernels.Operand, b kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
		return g.Bind(p, a, b, c)
	})
}

func (w *workload) integers(p kernels.Task, weights kernels.WeightFormat) (*rotation, error) {
	g, err := kernels.Find(w.d, kernels.GEMM, "auto")
	if err != nil {
		return nil, err
	}
	f, err := weights.For(p.DType, p.K)
	if err != nil {
		return nil, err
	}
	p.Layout = kernels.Transposed
	q := p.WithWeights(f)
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
	return w.rotate(p, func(int) (kernels.Weights, error) { return g.Prepare(q, raw) },
		func(a kernels.Operand, b kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
			return g.Bind(q, a, b, c)
		})
}

// rotate binds copies of the weights; prepare returns the i-th.
func (w *workload) rotate(p kernels.Task, prepare func(i int) (kernels.Weights, error),
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
	once, err := r.run() // warms up pages, code and clocks
	if err != nil {
		return nil, err
	}
	r.n = int(min(max(reachBlock.Seconds()/once, 1), 200))
	return r, nil
}

// run executes one block, starting after the previous block's last copy, and returns seconds per launch.
func (r *rotation) run() (float64, error) {
	turned := slices.Concat(r.launches[r.at:], r.launches[:r.at])
	r.at = (r.at + r.n) % len(r.launches)
	span, err := r.d.Execute(context.Background(), turned, r.n)
	return span.Seconds / float64(r.n), err
}

func (r *rotation) flops() (float64, error) {
	s, err := r.run()
	return r.p.Shape().FLOPs() / s, err
}

func (r *rotation) bandwidth() (float64, error) {
	s, err := r.run()
	return float64(r.bytes) / s, err
}

type goal struct {
	metric string
	a, b   *kerneltest.Series
	least  float64
}

// BenchmarkReach compares kernels with hardware limits and with libraries in one interleaved run. It skips
// missing features with a reason. One iteration is one round: use -benchtime=30x for more.
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
		p := kernels.Task{Subject: kernels.Product(dt, n, k), M: m}
		name := fmt.Sprintf("%s/%s/%v", kernel, dt, p.Shape())
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
	// b.Log truncates a benchmark's output after ten lines.
	fmt.Fprint(os.Stderr, "\n", reachTable(d, all, goals, skipped))
	for _, g := range goals {
		b.ReportMetric(stats.Median(kerneltest.Ratios(g.a, g.b)), g.metric)
	}
	b.ReportMetric(0, "ns/op") // the round's length is meaningless
}

func reachTable(d *Device, all []*kerneltest.Series, goals []goal, skipped []string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %d threads\n", d.Spec().Name, d.Threads())
	for _, s := range all {
		mid, low, high := stats.MedianInterval(s.Samples)
		fmt.Fprintf(&t, "%-34s %9.2f G/s  [%.2f, %.2f]\n", s.Name, mid/1e9, low/1e9, high/1e9)
	}
	for _, g := range goals {
		mid, low, high := stats.MedianInterval(kerneltest.Ratios(g.a, g.b))
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

func TestWorkloadNamesWhatIsMissing(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := newWorkload(nil, d)
	p := kernels.Task{Subject: kernels.Product(kernels.FP8, 1, 1), M: 1}
	var unsupported *kernels.Unsupported
	if _, err := w.rotation("tiled", p); !errors.As(err, &unsupported) {
		t.Errorf("fp8 on tiled: %v", err)
	}
	if _, err := w.rotation("nonesuch", p); err == nil {
		t.Error("a kernel that does not exist was prepared")
	}
}

// openReader sets up reading memory with the fastest pattern until the benchmark ends; pass reads it once and
// returns bytes/s.
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

// meanOf samples the rate of n passes from their mean time, like the launches of a block.
func meanOf(n int, pass func() float64) func() (float64, error) {
	return func() (float64, error) {
		var perByte float64
		for range n {
			perByte += 1 / pass()
		}
		return float64(n) / perByte, nil
	}
}
