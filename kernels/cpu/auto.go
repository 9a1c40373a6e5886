package cpu

import (
	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotAuto] = newAuto }

// auto picks among our kernels.
type auto struct{ dev *Device }

func newAuto(d *Device) (kernels.Gemm, *kernels.Missing) { return &auto{d}, nil }

func (*auto) Name() string { return "auto" }

func (*auto) Describe() string { return "picks among gemv, amx and tiled" }

func (k *auto) Supports(p kernels.Problem) error { return k.dev.supports(k.Name(), p) }

func (k *auto) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.pack(p, raw)
}

func (k *auto) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	name := "tiled"
	if p.M <= gemvRows {
		name = "gemv"
	}
	l, err := k.dev.gemm(name).Bind(p, a, w, c)
	if err != nil {
		return nil, err
	}
	l.(*launch).label = name
	return l, nil
}
