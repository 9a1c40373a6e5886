package kerneltest

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// quantiser is a simulated kernel that takes weights as integers with scales, too.
type quantiser struct{ *gemm }

var _ kernels.QuantisedGemm = quantiser{}

// SupportsQuantised implements [kernels.QuantisedGemm]: what is supported with plain weights is
// with quantised ones.
func (g quantiser) SupportsQuantised(q kernels.QuantisedProblem) error {
	r, err := q.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: g.cfg.Name, DType: q.DType, Reason: err.Error()}
	}
	return g.Supports(r.Problem)
}

// PrepareQuantised implements [kernels.QuantisedGemm].
func (g quantiser) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	b, ok := raw.(*buffer)
	if need := q.Raw().Bytes; !ok || b.Bytes() < need {
		return nil, fmt.Errorf("%s: weights %v need %d bytes of a buffer of this device", g.cfg.Name, q, need)
	}
	if err := g.device.idle("prepare weights"); err != nil {
		return nil, err
	}
	g.device.mu.Lock()
	defer g.device.mu.Unlock()
	g.device.weights++
	return &weights{device: g.device, raw: b, bytes: q.Raw().Bytes, id: g.device.weights}, nil
}

// BindQuantised implements [kernels.QuantisedGemm]. A launch costs what GemmConfig.Quantised says.
func (g quantiser) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	l, err := g.bind(kernels.Batch{Problem: q.Problem, Products: 1}, a, w, c)
	if err != nil {
		return nil, err
	}
	l.cost = func() float64 { return g.cfg.Quantised(q.Problem) }
	return l, nil
}
