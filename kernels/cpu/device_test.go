package cpu

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestOpenRefusesWhatItCannotDo(t *testing.T) {
	if _, err := Open(-1); err == nil || !strings.Contains(err.Error(), "-1 threads") {
		t.Errorf("Open(-1) = %v, want an error that names -1 threads", err)
	}
	t.Setenv("GEMMAUDIT_ISA", "sse5")
	devices, missing := Provider{}.Open()
	if len(devices) != 0 || len(missing) != 1 || !strings.Contains(missing[0].Reason, `"sse5"`) {
		t.Errorf("Open with GEMMAUDIT_ISA=sse5 = %v, %v, want one missing device that names it", devices, missing)
	}
}

func TestGemmsAreListedInOrder(t *testing.T) {
	t.Setenv("GEMMAUDIT_ISA", "portable")
	dev := open(t, 1)
	want := []string{"auto", "gemv", "tiled", "scaled", "naive"}
	var got []string
	for _, g := range dev.Kernels(kernels.GEMM) {
		got = append(got, g.Name())
	}
	if len(got) < len(want) || strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
		t.Errorf("kernels are %v, want %v first", got, want)
	}
}

func fill(t testing.TB, dev *Device, d kernels.DType, n int, seed uint64) *Buffer {
	t.Helper()
	b, err := dev.alloc(int64(n) * int64(d.Size()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Fill(kernels.Normal, d, int64(n), seed); err != nil {
		t.Fatal(err)
	}
	return b
}

func contents(t testing.TB, b *Buffer) []byte {
	t.Helper()
	out := make([]byte, b.Bytes())
	if err := b.Download(0, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFillDoesNotDependOnThreads(t *testing.T) {
	one, three := open(t, 1), open(t, 3)
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		const n = 200_003
		a, b := fill(t, one, d, n, 7), fill(t, three, d, n, 7)
		if !bytes.Equal(contents(t, a), contents(t, b)) {
			t.Errorf("%s: one and three threads fill differently", d)
		}
		if bytes.Equal(contents(t, a), contents(t, fill(t, one, d, n, 8))) {
			t.Errorf("%s: seeds 7 and 8 fill alike", d)
		}
	}
}

func TestFillIsNormal(t *testing.T) {
	const n = 1 << 20
	dev := open(t, 2)
	b := fill(t, dev, kernels.FP32, n, 1)
	var sum, squares, fourth float64
	for _, x := range unsafe.Slice((*float32)(b.data), n) {
		v := float64(x)
		sum, squares, fourth = sum+v, squares+v*v, fourth+v*v*v*v
	}
	mean, variance := sum/n, squares/n
	// Tolerances are six standard errors: 1/sqrt(n) for the mean, sqrt(2/n) for the variance. A sum of six
	// uniforms has the fourth moment 3 - 1.2/6.
	if math.Abs(mean) > 6e-3 || math.Abs(variance-1) > 9e-3 || math.Abs(fourth/n-2.8) > 0.05 {
		t.Errorf("mean %.4f, variance %.4f, fourth moment %.3f, want 0, 1, 2.8", mean, variance, fourth/n)
	}
	small := fill(t, dev, kernels.INT8, n, 1)
	squares = 0
	for _, x := range unsafe.Slice((*int8)(small.data), n) {
		squares += float64(x) * float64(x)
	}
	if sigma := math.Sqrt(squares / n); math.Abs(sigma-32) > 0.5 {
		t.Errorf("sigma of int8 is %.2f, want 32", sigma)
	}
}

func TestBufferErrors(t *testing.T) {
	dev := open(t, 1)
	for _, n := range []int64{0, -5, math.MaxInt64} {
		if b, err := dev.Alloc(n); err == nil || b != nil {
			t.Errorf("Alloc(%d): %v, %v; expected no buffer and an error", n, b, err)
		}
	}
	b := fill(t, dev, kernels.FP32, 4, 1)
	for name, err := range map[string]error{
		"upload beyond":     b.Upload(12, make([]byte, 5)),
		"download negative": b.Download(-1, make([]byte, 1)),
		"offset overflow":   b.Download(math.MaxInt64, make([]byte, 1)),
		"fill too many":     b.Fill(kernels.Normal, kernels.FP32, 5, 1),
		"fill fp4":          b.Fill(kernels.Normal, kernels.FP4, 1, 1),
		"fill unknown":      b.Fill("cauchy", kernels.FP32, 1, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b.Close()
	if err := b.Upload(0, []byte{1}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("upload to a closed buffer: %v", err)
	}
}

func TestBindChecksOperands(t *testing.T) { onEachISA(t, bindChecksOperands) }

func bindChecksOperands(t *testing.T, _ string) {
	dev := open(t, 2)
	for _, name := range []string{"auto", "gemv", "tiled", "naive"} {
		g := dev.gemm(name)
		p := kernels.Task{Subject: kernels.Product(kernels.BF16, 40, 70), M: 4, LDA: 80, LDC: 50}
		a, raw, c := fill(t, dev, p.DType, 3*80+70, 1), fill(t, dev, p.DType, 40*70, 2), fill(t, dev, p.DType, 3*50+40, 3)
		w, err := g.Prepare(p, raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { w.Close() })
		if _, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c}); err != nil {
			t.Errorf("%s: operands that just fit: %v", name, err)
		}
		larger, threads, other := p, p, p
		larger.N, threads.Threads, other.DType = 41, 3, kernels.FP16
		for what, bind := range map[string]func() error{
			"short A": func() error {
				return second(g.Bind(p, kernels.Operand{Buffer: a, Offset: 1}, w, kernels.Operand{Buffer: c}))
			},
			"short C": func() error {
				return second(g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c, Offset: 1}))
			},
			"negative": func() error {
				return second(g.Bind(p, kernels.Operand{Buffer: a, Offset: -1}, w, kernels.Operand{Buffer: c}))
			},
			"no buffer":   func() error { return second(g.Bind(p, kernels.Operand{}, w, kernels.Operand{Buffer: c})) },
			"no weights":  func() error { return second(g.Bind(p, kernels.Operand{Buffer: a}, nil, kernels.Operand{Buffer: c})) },
			"other N":     func() error { return second(g.Bind(larger, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})) },
			"other dtype": func() error { return second(g.Bind(other, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})) },
			"three threads": func() error {
				return second(g.Bind(threads, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c}))
			},
			"short B": func() error { q := p; q.LDB = 41; _, err := g.Prepare(q, raw); return err },
		} {
			if err := bind(); err == nil {
				t.Errorf("%s: %s: no error", name, what)
			}
		}
	}
}

func second(_ kernels.Launch, err error) error { return err }

// In tiled, one thread sums each output in an order that depends only on K.
func TestThreadsDoNotChangeBits(t *testing.T) { onEachISA(t, threadsDoNotChangeBits) }

func threadsDoNotChangeBits(t *testing.T, _ string) {
	dev := open(t, 3)
	g := dev.gemm("tiled")
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		p := kernels.Task{Subject: kernels.Product(d, 333, 1500), M: 61}
		a, raw := fill(t, dev, d, p.M*p.K, 1), fill(t, dev, d, p.N*p.K, 2)
		w, err := g.Prepare(p, raw)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		var want []byte
		for threads := 1; threads <= 3; threads++ {
			p.Threads = threads
			c := fill(t, dev, d, p.M*p.N, 3)
			l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dev.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
				t.Fatal(err)
			}
			got := contents(t, c)
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: %d threads give other bits than one", d, threads)
			}
		}
	}
}

// Launches with different thread counts in one block must all write their outputs.
func TestExecuteRotates(t *testing.T) {
	dev := open(t, 3)
	g := dev.gemm("naive")
	var launches []kernels.Launch
	var outputs []*Buffer
	for threads := 1; threads <= 3; threads++ {
		p := kernels.Task{Subject: kernels.Product(kernels.INT8, 5, 2), M: 3, Threads: threads}
		w, err := g.Prepare(p, fill(t, dev, kernels.INT8, 10, 2))
		if err != nil {
			t.Fatal(err)
		}
		c, err := dev.alloc(60)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := g.Bind(p, kernels.Operand{Buffer: fill(t, dev, kernels.INT8, 6, 1)}, w, kernels.Operand{Buffer: c})
		if err != nil {
			t.Fatal(err)
		}
		launches, outputs = append(launches, l), append(outputs, c)
	}
	if span, err := dev.Execute(context.Background(), launches, 2); err != nil || span.Seconds <= 0 {
		t.Fatalf("Execute = %+v, %v", span, err)
	}
	first := contents(t, outputs[0])
	if !bytes.Equal(contents(t, outputs[1]), first) {
		t.Error("the second launch gave another product than the first")
	}
	if !bytes.Equal(contents(t, outputs[2]), make([]byte, 60)) {
		t.Error("two launches of three ran the third")
	}
	if _, err := dev.Execute(context.Background(), launches, 300); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(contents(t, outputs[2]), first) {
		t.Error("300 launches of three did not run the third")
	}
}

func TestWithThreads(t *testing.T) {
	var dev kernels.Threaded = open(t, 3)
	for n, allowed := range map[int]bool{-1: false, 0: false, 1: true, 3: true, 4: false} {
		d, err := dev.WithThreads(n)
		if (err == nil) != allowed {
			t.Errorf("%d threads of 3: %v", n, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "expected 1 to 3") {
				t.Errorf("%d threads of 3: %v", n, err)
			}
			continue
		}
		if got := d.(kernels.Threaded).Threads(); got != n {
			t.Errorf("%d threads, expected %d", got, n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFreeMemory(t *testing.T) {
	var dev kernels.MemoryTeller = open(t, 1)
	if free, ok := dev.FreeMemory(); ok != (runtime.GOOS == "linux") || ok && (free < 1<<20 || free > dev.(*Device).Spec().MemoryBytes) {
		t.Errorf("%d bytes are free (%v) of %d", free, ok, dev.(*Device).Spec().MemoryBytes)
	}
}

// Requests that the system would grant but kill the process for must fail.
func TestAllocAsksForFreeMemory(t *testing.T) {
	dev := open(t, 1)
	free, ok := dev.FreeMemory()
	if !ok {
		t.Skip("the system does not tell")
	}
	b, err := dev.Alloc(free + free/8 + askLimit)
	if err == nil {
		b.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("%v, expected that it is more than what is free", err)
	}
}

func TestExecuteErrors(t *testing.T) {
	dev := open(t, 1)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := dev.Execute(cancelled, []kernels.Launch{&launch{}}, 1); err == nil {
		t.Error("Execute ran with a cancelled context")
	}
	if _, err := dev.Execute(context.Background(), nil, 1); err == nil {
		t.Error("Execute of nothing succeeded")
	}
	if _, err := dev.Execute(context.Background(), []kernels.Launch{nil}, 1); err == nil {
		t.Error("Execute of another device's launch succeeded")
	}
}

// A very long block must stop with its context, with all threads at the same launch and ready for the next
// block.
func TestExecuteStopsBetweenLaunches(t *testing.T) { onEachISA(t, executeStopsBetweenLaunches) }

func executeStopsBetweenLaunches(t *testing.T, _ string) {
	dev := open(t, 3)
	bind := func(t *testing.T, kernel string, threads int) (kernels.Launch, *Buffer) {
		g, err := kernels.Find(dev, kernels.GEMM, kernel)
		if err != nil {
			t.Skip(err)
		}
		p := kernels.Task{Subject: kernels.Product(kernels.FP32, 5, 2), M: 3, Threads: threads}
		w, err := g.Prepare(p, fill(t, dev, kernels.FP32, 10, 2))
		if err != nil {
			t.Fatal(err)
		}
		c := fill(t, dev, kernels.FP32, 15, 3)
		l, err := g.Bind(p, kernels.Operand{Buffer: fill(t, dev, kernels.FP32, 6, 1)}, w, kernels.Operand{Buffer: c})
		if err != nil {
			t.Fatal(err)
		}
		return l, c
	}
	for name, of := range map[string][]string{"own": {"naive", "gemv", "tiled"}, "library": {"openblas"}, "both": {"openblas", "tiled"}} {
		t.Run(name, func(t *testing.T) {
			var launches []kernels.Launch
			var outputs []*Buffer
			for i, kernel := range of {
				l, c := bind(t, kernel, 3-i)
				launches, outputs = append(launches, l), append(outputs, c)
			}
			for i := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Duration(i)*37*time.Microsecond, cancel)
				if _, err := dev.Execute(ctx, launches, 1<<40); !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted: %v", err)
				}
				for _, c := range outputs {
					if err := c.Fill(kernels.Zeros, kernels.FP32, 15, 0); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := dev.Execute(t.Context(), launches, len(launches)); err != nil {
					t.Fatal(err)
				}
				for k, c := range outputs {
					if bytes.Equal(contents(t, c), make([]byte, 60)) {
						t.Fatalf("launch %d did not run after an interruption", k)
					}
				}
			}
		})
	}
}

func TestDisturbance(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		stolen time.Duration
		off    offCPU
		want   string
	}{
		{0, offCPU{}, ""},
		{10 * ms, offCPU{}, "stolen 10 ms"},
		{0, offCPU{preempted: 1}, "preempted once"},
		{20 * ms, offCPU{preempted: 3}, "stolen 20 ms, preempted 3 times"},
		{0, offCPU{preempted: 3, told: true, block: 10 * ms}, ""},
		{0, offCPU{preempted: 3, told: true, block: 10 * ms, lost: 20 * time.Microsecond}, ""},
		{0, offCPU{preempted: 3, told: true, block: 10 * ms, lost: 2100 * time.Microsecond}, "preempted 3 times: lost 2.1 of 10 ms"},
		{0, offCPU{told: true, block: 310 * ms, lost: 300 * ms}, "stopped: lost 300 of 310 ms"},
		{0, offCPU{told: true, block: 10 * ms, suspended: 90 * time.Second}, "suspended for 90 s"},
		{0, offCPU{preempted: 1, told: true, block: 10 * ms, lost: 5 * ms, suspended: 2 * time.Second},
			"suspended for 2 s, preempted once: lost 5.0 of 10 ms"},
	} {
		if got := test.off.disturbance(test.stolen).String(); got != test.want {
			t.Errorf("%+v.disturbance(%v) = %q, want %q", test.off, test.stolen, got, test.want)
		}
	}
}
