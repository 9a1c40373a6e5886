package support

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The forms of enum ACTIVATION_… in epilogue.cuh.
const (
	activationNone = iota
	activationReLU
	activationSigmoid
)

// epilogueForm is an activation as struct Epilogue of epilogue.cuh has it: x ÷ (1 + 2^-(x·P(x²))), P by its coefficients, where
// form is activationSigmoid.
type epilogueForm struct {
	form int
	p    [6]float64
}

// mostSquare is where x² ends for P: the quotient is 0 or 1 in fp32 there, to 2^-24.
const mostSquare = 25

// epilogueForms are by the epilogue's step. GELU's P is log2(Φ(x) ÷ Φ(-x)) ÷ x, a minimax fit over the error of Φ: 2.2e-7 at most, and
// 2.6e-7 in fp32.
var epilogueForms = map[kernels.Epilogue]epilogueForm{
	0:            {},
	kernels.ReLU: {form: activationReLU},
	kernels.GELU: {form: activationSigmoid, p: [6]float64{
		2.302201509475708, 0.10486811399459839, -0.00012906458869110793, -0.00014546378224622458, 8.959813385445159e-06,
		-1.9236225057284173e-07,
	}},
	kernels.TanhGELU: {form: activationSigmoid, p: [6]float64{
		2 * math.Sqrt2 / math.SqrtPi * math.Log2E, 2 * math.Sqrt2 / math.SqrtPi * 0.044715 * math.Log2E,
	}},
	kernels.SiLU:     {form: activationSigmoid, p: [6]float64{math.Log2E}},
	kernels.Gated:    {form: activationSigmoid, p: [6]float64{math.Log2E}},
	kernels.Residual: {},
}

// AppendEpilogue appends struct Epilogue of epilogue.cuh for the columns of C. bias is the address of N elements and residual of a
// contiguous [M, N], used if e has them.
func AppendEpilogue(to *planning.Args, e kernels.Epilogue, bias, residual uint64, rowBytes int) {
	f := epilogueForms[e.Step()]
	if !e.HasBias() {
		bias = 0
	}
	if !e.HasResidual() {
		residual = 0
	}
	to.Align(8)
	to.Pointer(bias).Pointer(residual)
	for _, c := range f.p {
		to.Float32(c)
	}
	to.Float32(mostSquare).Int32(f.form, planning.OneIf(planning.AlignmentOf(residual, int64(rowBytes)) == 16))
}

// EpilogueCall applies the epilogue of t, a fused product, to the product [M, N] at an address and writes C. Both may be one unless
// the product is gated. residual is the address of [M, N], if t has one.
func EpilogueCall(a planning.Arch, t kernels.Task, product, residual, c, bias uint64) planning.Call {
	size, columns := t.OutputType().Size(), t.OutputColumns()
	pieces := planning.DivideUp(columns, 16/size) // of a row
	up, whole := 0, columns*size%16 == 0 && (product|c)%16 == 0
	if t.Epilogue.IsGated() {
		up = columns
	}
	call := planning.Call{
		Kernel: fmt.Sprintf("ga_epilogue_%s", t.OutputType()), Block: planning.Dim3{X: supportThreads}, Overlap: a.Overlaps(),
		Grid: gridFor(a, int64(t.M)*int64(pieces), supportThreads),
	}
	call.Args.Pointer(c).Pointer(product).Int64(int64(t.M)*int64(pieces)).Int64(int64(t.N)).
		Int32(columns, pieces, up, planning.OneIf(whole))
	AppendEpilogue(&call.Args, t.Epilogue, bias, residual, columns*size)
	return call
}
