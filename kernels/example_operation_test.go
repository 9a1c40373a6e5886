package kernels

import (
	"context"
	"fmt"
	"math"
)

//docs:begin operation

// RMSNorm divides each of M rows of N elements by the root of the mean of their squares.
const RMSNorm = LogSoftmax + 1

// rmsNormDefinition is the entry of definitions. It has no stored operand and no weights.
var rmsNormDefinition = Definition{
	Name: "rmsnorm", Title: "RMS normalization", Swept: "rows", Divisible: true,
	Dims:   []Dim{dimN},
	FLOPs:  func(s Subject, m float64) float64 { return 3 * m * float64(s.N) },
	Input:  func(s Subject, m float64) float64 { return m * float64(s.N) },
	Output: func(s Subject, m float64) float64 { return m * float64(s.N) },
}

//docs:end

// plainRMSNorm is one way to compute it, in Go.
type plainRMSNorm struct{}

func (plainRMSNorm) Name() string { return "plain" }
func (plainRMSNorm) Describe() string {
	return "one pass for the sum of squares, one to divide"
}

func (plainRMSNorm) Supports(t Task) error {
	if t.DType != FP32 {
		return &Unsupported{Kernel: "plain", DType: t.DType, Reason: "it computes in fp32"}
	}
	return t.Validate()
}

// Prepare returns no weights.
func (plainRMSNorm) Prepare(Task, Buffer) (Weights, error) { return noWeights{}, nil }

func (k plainRMSNorm) Bind(t Task, in Operand, _ Weights, out Operand, _ ...Operand) (Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return hostLaunch(func() error {
		for row := range t.M {
			squares := 0.0
			for i := range t.N {
				x := in.get(t.DType, row*t.N+i)
				squares += x * x
			}
			rms := math.Sqrt(squares / float64(t.N))
			for i := range t.N {
				out.put(t.OutputType(), row*t.N+i, in.get(t.DType, row*t.N+i)/rms)
			}
		}
		return nil
	}), nil
}

// noWeights are the weights of an operation without weights.
type noWeights struct{}

func (noWeights) Bytes() int64 { return 0 }
func (noWeights) Close() error { return nil }

// A new operation is an entry of definitions, and something that computes it.
func Example_operation() {
	_, undefine := Define(rmsNormDefinition)
	defer undefine()

	o, err := ParseOperation("rmsnorm")
	if err != nil {
		fmt.Println(err)
		return
	}
	t := Task{Subject: Subject{Operation: o, DType: FP32, Dims: Dims{N: 4}}, M: 2}
	fmt.Printf("%v of %s: %s of M %d, %.0f FLOPs, %.0f bytes\n", o, t.Size(), o.Swept(), t.M, t.FLOPs(t.M), t.Bytes(t.M))

	d := &hostDevice{}
	in, _ := d.Alloc(4 * t.InputElements(t.M))
	out, _ := d.Alloc(4 * t.OutputElements(t.M))
	x := Operand{Buffer: in}
	for i, v := range []float64{3, 3, 3, 3, -4, 0, 0, 0} {
		x.put(FP32, i, v)
	}
	l, err := plainRMSNorm{}.Bind(t, x, noWeights{}, Operand{Buffer: out})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := d.Execute(context.Background(), []Launch{l}, 1); err != nil {
		fmt.Println(err)
		return
	}
	for i := range t.OutputElements(t.M) {
		fmt.Print(Operand{Buffer: out}.get(FP32, int(i)), " ")
	}
	// Output:
	// rmsnorm of n4: rows of M 2, 24 FLOPs, 64 bytes
	// 1 1 1 1 -2 0 0 0
}
