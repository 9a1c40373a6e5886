package kernels

import (
	"context"
	"fmt"
	"math"
)

//docs:begin operation

// Softmax is that of M rows of N elements.
const Softmax = DecoderToken + 1

// softmaxDefinition goes into definitions. Nothing stays in memory from launch to launch, so
// that stored is left out; weights is false, so that there is no layout.
var softmaxDefinition = definition{
	name: "softmax", title: "softmax", swept: "rows", divisible: true,
	dims: []Dim{dimN},
	// The largest, a difference, an exponential, a sum and a quotient for each element.
	flops:  func(s Subject, m float64) float64 { return 5 * m * float64(s.N) },
	input:  func(s Subject, m float64) float64 { return m * float64(s.N) },
	output: func(s Subject, m float64) float64 { return m * float64(s.N) },
}

// plainSoftmax is one way to compute it, in Go.
type plainSoftmax struct{}

func (plainSoftmax) Name() string { return "plain" }
func (plainSoftmax) Describe() string {
	return "one pass for the largest, one for the sum, one to divide"
}

func (plainSoftmax) Supports(t Task) error {
	if t.DType != FP32 {
		return &Unsupported{Kernel: "plain", DType: t.DType, Reason: "it computes in fp32"}
	}
	return t.Validate()
}

// PrepareWeights has nothing to prepare.
func (plainSoftmax) PrepareWeights(Task, Buffer) (Weights, error) { return noWeights{}, nil }

func (k plainSoftmax) Bind(t Task, in Operand, _ Weights, out Operand) (Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return hostLaunch(func() error {
		for row := range t.M {
			largest, sum := math.Inf(-1), 0.0
			for i := range t.N {
				largest = max(largest, in.get(t.DType, row*t.N+i))
			}
			for i := range t.N {
				sum += math.Exp(in.get(t.DType, row*t.N+i) - largest)
			}
			for i := range t.N {
				out.put(t.OutputType(), row*t.N+i, math.Exp(in.get(t.DType, row*t.N+i)-largest)/sum)
			}
		}
		return nil
	}), nil
}

//docs:end

// noWeights is what stays in memory of an operation without such an operand.
type noWeights struct{}

func (noWeights) Bytes() int64 { return 0 }
func (noWeights) Close() error { return nil }

// Another operation is an entry of the table, and something that computes it.
func Example_operation() {
	before := definitions
	definitions = append(definitions[:len(definitions):len(definitions)], softmaxDefinition)
	defer func() { definitions = before }()

	//docs:begin use of an operation
	o, err := ParseOperation("softmax")
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
	for i, v := range []float64{0, 0, 0, 0, 1000, 1000, -1000, -1000} {
		x.put(FP32, i, v)
	}
	l, err := plainSoftmax{}.Bind(t, x, noWeights{}, Operand{Buffer: out})
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
	//docs:end
	// Output:
	// softmax of n4: rows of M 2, 40 FLOPs, 64 bytes
	// 0.25 0.25 0.25 0.25 0.5 0.5 0 0
}
