package kernels_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

//docs:begin kernel

// loops is a kernel in Go. It reads the weights in their stored layout.
type loops struct{ kernels.TellsNothing }

func (loops) Name() string     { return "loops" }
func (loops) Describe() string { return "three loops in Go, sums in float64" }

// Supports returns why a problem is refused.
func (loops) Supports(t kernels.Task) error {
	_, err := t.Product("loops", 0)
	if err == nil && t.DType.Output() == kernels.INT32 {
		err = t.Unsupported("loops", "it computes in floating point")
	}
	return err
}

func (loops) Prepare(_ kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	return readInPlace{raw}, nil
}

// Bind validates everything, so a launch needs no checks.
func (k loops) Bind(p kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand, _ ...kernels.Operand) (kernels.Launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	b, ok := w.(readInPlace)
	if !ok {
		return nil, fmt.Errorf("loops: %v: weights were prepared by another kernel", p.Shape())
	}
	return &product{Task: p, a: a, b: kernels.Operand{Buffer: b.Buffer}, c: c}, nil
}

//docs:end

// readInPlace are weights that were not repacked.
type readInPlace struct{ kernels.Buffer }

// Close leaves the buffer to its owner.
func (readInPlace) Close() error { return nil }

// product is a launch: the problem with its operands.
type product struct {
	kernels.Task
	a, b, c kernels.Operand
}

// Label is empty: the kernel has one algorithm.
func (*product) Label() string { return "" }

// run computes C row by row and does not write between N and LDC.
func (l *product) run() error {
	for i := range l.M {
		row, err := l.read(l.a, i*l.LDA, l.K)
		if err != nil {
			return err
		}
		sums := make([]float64, l.N)
		for n := range l.N {
			for k := range l.K {
				at, err := l.weight(k, n)
				if err != nil {
					return err
				}
				sums[n] += row[k] * at
			}
		}
		out := l.DType.Output()
		bytes := make([]byte, l.N*out.Size())
		if err := kernels.Encode(out, sums, bytes); err != nil {
			return err
		}
		if err := l.c.Buffer.Upload(int64(l.c.Offset+i*l.LDC)*int64(out.Size()), bytes); err != nil {
			return err
		}
	}
	return nil
}

// weight is B[k,n], wherever the layout puts it.
func (l *product) weight(k, n int) (float64, error) {
	at := k*l.LDB + n
	if l.Layout == kernels.Transposed {
		at = n*l.LDB + k
	}
	v, err := l.read(l.b, at, 1)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// read decodes n elements of an operand from element off on.
func (l *product) read(o kernels.Operand, off, n int) ([]float64, error) {
	bytes, values := make([]byte, n*l.DType.Size()), make([]float64, n)
	if err := o.Buffer.Download(int64(o.Offset+off)*int64(l.DType.Size()), bytes); err != nil {
		return nil, err
	}
	return values, kernels.Decode(l.DType, bytes, values)
}

// provider finds the devices of this kind.
type provider struct{}

// Open returns the devices of this machine; without any it returns the reason.
func (provider) Open() ([]kernels.Device, []kernels.Missing) {
	return []kernels.Device{&device{}}, nil
}

// device runs kernels in Go, in the memory of the process.
type device struct{}

func (*device) Spec() kernels.Spec {
	return kernels.Spec{ID: "gopher:0", Kind: "gopher", Name: "goroutine", Units: 1, MemoryBytes: 1 << 30, LastLevelCacheBytes: 1 << 20}
}

func (*device) Kernels(o kernels.Operation) []kernels.Kernel {
	if o != kernels.GEMM {
		return nil
	}
	return []kernels.Kernel{loops{}}
}

// Ceilings are measured by a real device. MFU and the rule roofline use them.
func (*device) Ceilings(context.Context) (kernels.Ceilings, error) {
	return kernels.Ceilings{
		Peaks:         []kernels.Peak{{DType: kernels.FP32, FLOPS: 1e9, Origin: kernels.Computed}},
		ReadBandwidth: 1e9, CopyBandwidth: 1e9,
	}, nil
}

func (*device) Missing() []kernels.Missing {
	return []kernels.Missing{{Name: "gopherblas", Reason: "libgopherblas.so was not found"}}
}

func (*device) Alloc(bytes int64) (kernels.Buffer, error) {
	return &memory{Memory: lazymemory.New(bytes)}, nil
}

// Execute runs n launches back to back and returns their time.
func (*device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	begin := time.Now()
	for i := range n {
		if err := ctx.Err(); err != nil {
			return kernels.Span{}, err
		}
		l, ok := launches[i%len(launches)].(*product)
		if !ok {
			return kernels.Span{}, fmt.Errorf("gopher:0: launch %d was bound on another device", i)
		}
		if err := l.run(); err != nil {
			return kernels.Span{}, err
		}
	}
	return kernels.Span{Seconds: time.Since(begin).Seconds()}, nil
}

func (*device) Telemetry() kernels.Telemetry { return kernels.Telemetry{} }
func (*device) Close() error                 { return nil }

// memory is a buffer of the process.
type memory struct{ lazymemory.Memory }

// Fill writes only zeros, because the example does not measure.
func (m *memory) Fill(dist kernels.Distribution, d kernels.DType, n int64, _ uint64) error {
	if dist != kernels.Zeros {
		return fmt.Errorf("fill with %s: the example has zeros", dist)
	}
	if err := m.CheckFill(d, n); err != nil {
		return err
	}
	return m.Upload(0, make([]byte, n*int64(d.Size())))
}

// A new kind of device is a provider and the devices that it opens.
func Example_device() {
	registry := kernels.NewRegistry(provider{})
	devices, err := registry.Select("gopher:all")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range devices {
		fmt.Println(d.Spec().ID, "is a", d.Spec().Kind.Facts().Name, "with", len(d.Kernels(kernels.GEMM)), "kernel")
	}
	_, err = kernels.Find(devices[0], kernels.GEMM, "gopherblas")
	fmt.Println(err)
	// Output:
	// gopher:0 is a gopher device with 1 kernel
	// kernel "gopherblas" is not available on gopher:0: libgopherblas.so was not found
}

// A kernel is done when it passes the correctness check.
func Example_kernel() {
	ctx, d := context.Background(), &device{}
	for _, dtype := range []kernels.DType{kernels.FP32, kernels.BF16} {
		p := kernels.Task{Subject: kernels.Linear(dtype, 19, 33), M: 7, LDC: 24}
		if err := kernels.CheckGemm(ctx, d, loops{}, p, 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(kernels.CheckGemm(ctx, d, loops{}, kernels.Task{Subject: kernels.Product(kernels.INT8, 1, 1), M: 1}, 1))
	// Output:
	// kernel loops does not support int8: it computes in floating point
}
