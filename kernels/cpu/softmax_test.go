package cpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestSoftmaxGate(t *testing.T) {
	devices := map[string]*Device{}
	for _, isa := range []string{"", "avx2", "portable"} {
		t.Setenv("GEMMAUDIT_ISA", isa)
		devices[isa] = open(t, 2)
	}
	t.Setenv("GEMMAUDIT_ISA", "")
	devices["past the cache"] = open(t, 2)
	devices["past the cache"].spec.LastLevelCacheBytes = 1
	devices["without bf16"] = open(t, 2)
	devices["without bf16"].features.AVX512BF16 = false
	for dt, on := range map[kernels.DType]map[string][]string{
		kernels.FP32: {"": {"block", "reread", "naive"}, "portable": {"block", "reread", "naive"}, "past the cache": {"block"}},
		kernels.FP16: {"": {"block", "reread", "naive"}, "avx2": {"block", "reread", "naive"}, "past the cache": {"block"}},
		kernels.BF16: {"": {"block", "reread", "naive"}, "avx2": {"block", "reread", "naive"}, "past the cache": {"reread"},
			"without bf16": {"block"}},
	} {
		for i, p := range kernels.SoftmaxProblems(dt) {
			if testing.Short() && i%4 > 0 {
				continue
			}
			check, err := kernels.NewSoftmaxCheck(p, 7)
			if err != nil {
				t.Fatal(err)
			}
			for name, d := range devices {
				for _, kernel := range on[name] {
					if _, err := check.Margin(t.Context(), d, softmaxKernel(t, d, kernel)); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	}
}

func softmaxKernel(t *testing.T, d *Device, name string) kernels.Kernel {
	t.Helper()
	for _, k := range d.Kernels(kernels.Softmax) {
		if k.Name() == name {
			return k
		}
	}
	t.Fatalf("there is no kernel %s", name)
	return nil
}

func softmaxOf(t *testing.T, d *Device, kernel string, p kernels.Task) []byte {
	t.Helper()
	n := p.M * p.Columns
	in, out := alloc(t, d, n*p.DType.Size()), alloc(t, d, n*p.DType.Size())
	if err := in.Fill(kernels.Normal, p.DType, int64(n), 3); err != nil {
		t.Fatal(err)
	}
	l, err := softmaxKernel(t, d, kernel).Bind(p, kernels.Operand{Buffer: in}, kernels.NothingStored{}, kernels.Operand{Buffer: out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, n*p.DType.Size())
	if err := out.Download(0, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func alloc(t testing.TB, d *Device, bytes int) kernels.Buffer {
	t.Helper()
	b, err := d.Alloc(int64(bytes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Neither the number of threads nor non-temporal stores may change a bit.
func TestSoftmaxThreads(t *testing.T) {
	one, three := open(t, 1), open(t, 3)
	past := open(t, 3)
	past.spec.LastLevelCacheBytes = 1
	for _, p := range []kernels.Task{
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 5}}, M: 7},
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.BF16, Dims: kernels.Dims{Columns: 100}}, M: 100},
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP16, Dims: kernels.Dims{Columns: 3001}}, M: 11},
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 50_001}}, M: 2},
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.BF16, Dims: kernels.Dims{Columns: 40_000, Queries: 30_000}},
			M: 4},
		{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: kernels.FP16, Dims: kernels.Dims{Columns: 99_999}}, M: 1},
	} {
		for _, kernel := range []string{"block", "reread", "naive"} {
			want := softmaxOf(t, one, kernel, p)
			for name, d := range map[string]*Device{"three threads": three, "past the cache": past} {
				if string(softmaxOf(t, d, kernel, p)) != string(want) {
					t.Errorf("%s: %v: %s: other bits than one thread", kernel, p, name)
				}
			}
		}
	}
}

func TestSoftmaxRefuses(t *testing.T) {
	d := open(t, 1)
	block, err := kernels.Find(d, kernels.Softmax, "block")
	if err != nil {
		t.Fatal(err)
	}
	s := kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP16, Dims: kernels.Dims{Columns: 1<<20 + 1}}
	for _, c := range []struct {
		task kernels.Task
		want string
	}{
		{kernels.Task{Subject: s, M: 1},
			"kernel block does not support fp16: it keeps rows of up to 1048576 columns, the problem has 1048577"},
		{kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.INT8, Dims: kernels.Dims{Columns: 4}}, M: 1},
			"kernel block does not support int8: softmax is computed in fp32, fp16 and bf16"},
		{kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP16, Dims: kernels.Dims{Columns: 4}}, M: 1,
			Threads: 2},
			"kernel block does not support fp16: softmax runs on all 1 threads of the device"},
	} {
		var no *kernels.Unsupported
		if err := block.Supports(c.task); !errors.As(err, &no) || err.Error() != c.want {
			t.Errorf("%v, expected %s", err, c.want)
		}
	}
	small := alloc(t, d, 16)
	task := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 4}}, M: 2}
	_, err = d.Kernels(kernels.Softmax)[0].Bind(task, kernels.Operand{Buffer: small}, kernels.NothingStored{},
		kernels.Operand{Buffer: small})
	if err == nil {
		t.Error("an operand that is too small was taken")
	}
}

// BenchmarkSoftmax alternates softmax of 256 MiB with the fastest copy of as much memory, as
// BenchmarkSoftmax/dtype/columns/kernel. "copy" is the median share of the copy bandwidth; both count bytes
// read and written.
func BenchmarkSoftmax(b *testing.B) {
	d := open(b, 0)
	through, err := newStreams(d.pool, d.Spec())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(through.close)
	way, err := through.choose(b.Context(), d.memory.copiers)
	if err != nil {
		b.Fatal(err)
	}
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		for _, columns := range []int{1, 3, 8, 16, 33, 64, 128, 256, 257, 1000, 1024, 1025, 4096, 4097, 16384, 16385, 65536, 65537, 262144,
			262145, 1 << 20} {
			for _, k := range d.Kernels(kernels.Softmax) {
				if k.Supports(kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt,
					Dims: kernels.Dims{Columns: columns}}, M: 1}) != nil || k.Name() == "auto" {
					continue
				}
				b.Run(fmt.Sprintf("%s/c%d/%s", dt, columns, k.Name()), func(b *testing.B) {
					benchSoftmax(b, d, k, dt, columns, func() float64 { return through.pass(way) }, through.part)
				})
			}
		}
	}
}

// benchSoftmax times one kernel. pass copies part bytes and returns bytes/s, read and written.
func benchSoftmax(b *testing.B, d *Device, k kernels.Kernel, dt kernels.DType, columns int, pass func() float64, part int64) {
	const bytes = 256 << 20 // of input
	p := kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: dt, Dims: kernels.Dims{Columns: columns}},
		M: bytes / dt.Size() / columns}
	n := p.M * columns * dt.Size()
	in, out := kernels.Operand{Buffer: alloc(b, d, n)}, kernels.Operand{Buffer: alloc(b, d, n)}
	if err := in.Buffer.Fill(kernels.Normal, dt, int64(p.M*columns), 1); err != nil {
		b.Fatal(err)
	}
	l, err := k.Bind(p, in, kernels.NothingStored{}, out)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var rates, shares []float64
	for range b.N {
		var copying float64 // seconds to copy as many bytes
		passes := max(int64(n)/part, 1)
		for range passes {
			copying += 2 * float64(n) / float64(passes) / pass()
		}
		span, err := d.Execute(context.Background(), []kernels.Launch{l}, 1)
		if err != nil {
			b.Fatal(err)
		}
		rates, shares = append(rates, 2*float64(n)/span.Seconds), append(shares, copying/span.Seconds)
	}
	b.StopTimer()
	slices.Sort(shares)
	b.ReportMetric(undisturbed(rates)/1e9, "GB/s")
	b.ReportMetric(shares[len(shares)/2], "copy")
}
