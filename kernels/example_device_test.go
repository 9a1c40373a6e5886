package kernels_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

//docs:begin kernel

// loops is the kernel: three loops over operands of any type, with the weights as they are given.
type loops struct{}

// readInPlace are weights that the kernel did not have to change.
type readInPlace struct{ kernels.Buffer }

// Close leaves the buffer to its owner.
func (readInPlace) Close() error { return nil }

// product is a launch: the problem with its operands.
type product struct {
	kernels.Problem
	a, b, c kernels.Operand
}

func (loops) Name() string     { return "loops" }
func (loops) Describe() string { return "three loops in Go, sums in float64" }

// Supports gives the reason for each problem that it refuses.
func (loops) Supports(p kernels.Problem) error {
	if p.DType.Output() == kernels.INT32 {
		return &kernels.Unsupported{Kernel: "loops", DType: p.DType, Reason: "it computes in floating point"}
	}
	return nil
}

func (loops) PrepareWeights(_ kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return readInPlace{raw}, nil
}

// Bind checks here what a launch must not have to check.
func (k loops) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	b, ok := w.(readInPlace)
	if !ok {
		return nil, fmt.Errorf("loops: %v: weights were prepared by another kernel", p.Shape)
	}
	return &product{Problem: p, a: a, b: kernels.Operand{Buffer: b.Buffer}, c: c}, nil
}

// Label is empty: there is no choice to tell.
func (*product) Label() string { return "" }

// run computes C a row at a time, so that nothing between N and LDC is written.
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

//docs:end

// weight is B[k,n], wherever the layout puts it.
func (l *product) weight(k, n int) (float64, error) {
	at := k*l.LDB + n
	if l.BLayout == kernels.Transposed {
		at = n*l.LDB + k
	}
	v, err := l.read(l.b, at, 1)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// read decodes n elements of an operand, from the one that lies off elements behind its first.
func (l *product) read(o kernels.Operand, off, n int) ([]float64, error) {
	bytes, values := make([]byte, n*l.DType.Size()), make([]float64, n)
	if err := o.Buffer.Download(int64(o.Offset+off)*int64(l.DType.Size()), bytes); err != nil {
		return nil, err
	}
	return values, kernels.Decode(l.DType, bytes, values)
}

//docs:begin device

// provider finds the devices of the kind.
type provider struct{}

// Open returns the devices that can be used; a machine without any gives the reason instead.
func (provider) Open() ([]kernels.Device, []kernels.Missing) {
	return []kernels.Device{&device{}}, nil
}

// device runs its kernels in Go, on memory of the process.
type device struct{}

func (*device) Spec() kernels.Spec {
	return kernels.Spec{ID: "gopher:0", Kind: "gopher", Name: "goroutine", Units: 1, MemoryBytes: 1 << 30, LastLevelCacheBytes: 1 << 20}
}

// Ceilings are measured by a real device; MFU and the rule roofline are relative to them.
func (*device) Ceilings(context.Context) (kernels.Ceilings, error) {
	return kernels.Ceilings{
		Peaks:         []kernels.Peak{{DType: kernels.FP32, FLOPS: 1e9, Origin: kernels.Computed}},
		ReadBandwidth: 1e9, CopyBandwidth: 1e9,
	}, nil
}

func (*device) Gemms() []kernels.Gemm { return []kernels.Gemm{loops{}} }

func (*device) Missing() []kernels.Missing {
	return []kernels.Missing{{Name: "gopherblas", Reason: "libgopherblas.so was not found"}}
}

func (*device) Alloc(bytes int64) (kernels.Buffer, error) {
	return &memory{Memory: lazymemory.New(bytes)}, nil
}

// Execute runs n launches with nothing between them and says how long they took.
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

//docs:end

// memory is a buffer of the process.
type memory struct{ lazymemory.Memory }

// Fill writes zeros alone: the example measures nothing.
func (m *memory) Fill(dist kernels.Distribution, d kernels.DType, n int64, _ uint64) error {
	if dist != kernels.Zeros {
		return fmt.Errorf("fill with %s: the example has zeros", dist)
	}
	if err := m.CheckFill(d, n); err != nil {
		return err
	}
	return m.Upload(0, make([]byte, n*int64(d.Size())))
}

// Another kind of device is a provider and what it opens.
func Example_device() {
	//docs:begin use of a device
	registry := kernels.NewRegistry(provider{})
	devices, err := registry.Select("gopher:all")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range devices {
		fmt.Println(d.Spec().ID, "is a", d.Spec().Kind.Facts().Name, "with", len(d.Gemms()), "kernel")
	}
	_, err = kernels.FindGemm(devices[0], "gopherblas")
	fmt.Println(err)
	//docs:end
	// Output:
	// gopher:0 is a gopher device with 1 kernel
	// kernel "gopherblas" is not available on gopher:0: libgopherblas.so was not found
}

// A kernel is done when it passes the correctness check.
func Example_kernel() {
	//docs:begin use of a kernel
	ctx, d := context.Background(), &device{}
	for _, dtype := range []kernels.DType{kernels.FP32, kernels.BF16} {
		p := kernels.Problem{Shape: kernels.Shape{M: 7, N: 19, K: 33}, DType: dtype, BLayout: kernels.Transposed, LDC: 24}
		if err := kernels.CheckGemm(ctx, d, loops{}, p, 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(kernels.CheckGemm(ctx, d, loops{}, kernels.Problem{Shape: kernels.Shape{M: 1, N: 1, K: 1}, DType: kernels.INT8}, 1))
	//docs:end
	// Output:
	// kernel loops does not support int8: it computes in floating point
}
