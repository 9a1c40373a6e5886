package support

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The formula of epilogue.cuh in fp32 stays within the error that the gate allows an activation, 2^-20 of its argument.
func TestActivations(t *testing.T) {
	for _, e := range []kernels.Epilogue{kernels.GELU, kernels.TanhGELU, kernels.SiLU} {
		f, worst := epilogueForms[e], 0.0
		for x := float32(-40); x < 40; x += 0.0007 {
			p, square := float32(0), min(x*x, mostSquare)
			for i := len(f.p) - 1; i >= 0; i-- {
				p = p*square + float32(f.p[i])
			}
			got := float64(x / (1 + float32(math.Exp2(float64(-x*p)))))
			worst = max(worst, math.Abs(got-e.Of(float64(x), 0))/math.Abs(float64(x)))
		}
		if worst > 0x1p-21 {
			t.Errorf("%v: error %g of the argument", e, worst)
		}
	}
}

// Every epilogue has a form, and only those with a bias or a residual get addresses.
func TestAppendEpilogue(t *testing.T) {
	for _, e := range kernels.Epilogues() {
		if _, ok := epilogueForms[e.Step()]; !ok {
			t.Errorf("%v has no form", e)
		}
		var args planning.Args
		args.Int32(1)
		AppendEpilogue(&args, e, 0x1000, 0x2008, 32)
		bias, residual := binary.LittleEndian.Uint64(args.Bytes[8:]), binary.LittleEndian.Uint64(args.Bytes[16:])
		whole := binary.LittleEndian.Uint32(args.Bytes[len(args.Bytes)-4:])
		if (bias != 0) != e.HasBias() || (residual != 0) != e.HasResidual() || (whole == 0) != e.HasResidual() || len(args.Bytes) != 60 {
			t.Errorf("%v: bias %#x, residual %#x, whole %d, %d bytes", e, bias, residual, whole, len(args.Bytes))
		}
	}
}
