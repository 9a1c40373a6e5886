package kerneltest

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// SoftmaxConfig describes a simulated kernel of softmax, which takes its time and computes
// nothing.
type SoftmaxConfig struct {
	Name string
	// MaxColumns is the largest number of columns that is supported; 0 supports every one.
	MaxColumns int
	// Cost is the seconds of a launch.
	Cost func(p kernels.SoftmaxProblem) float64
}

// softmax is a simulated kernel.
type softmax struct {
	device *Device
	cfg    SoftmaxConfig
}

func (k *softmax) Name() string     { return k.cfg.Name }
func (k *softmax) Describe() string { return "simulated softmax of declared cost" }

func (k *softmax) Supports(p kernels.SoftmaxProblem) error {
	if _, err := p.Normalized(); err != nil {
		return &kernels.Unsupported{Kernel: k.cfg.Name, DType: p.DType, Reason: err.Error()}
	}
	if k.cfg.MaxColumns > 0 && p.Columns > k.cfg.MaxColumns {
		return &kernels.Unsupported{Kernel: k.cfg.Name, DType: p.DType,
			Reason: fmt.Sprintf("%d columns, at most %d are declared for this simulation", p.Columns, k.cfg.MaxColumns)}
	}
	return nil
}

// Bind checks that both operands lie within their buffers.
func (k *softmax) Bind(p kernels.SoftmaxProblem) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	for _, o := range []struct {
		name string
		at   kernels.Operand
	}{{"In", p.In}, {"Out", p.Out}} {
		if o.at.Buffer == nil || o.at.Offset < 0 {
			return nil, fmt.Errorf("%s: %s has no buffer or a negative offset", k.cfg.Name, o.name)
		}
		need := (int64(o.at.Offset) + int64(p.Rows)*int64(p.Columns)) * int64(p.DType.Size())
		if need > o.at.Buffer.Bytes() {
			return nil, fmt.Errorf("%s: %s needs %d bytes, its buffer has %d", k.cfg.Name, o.name, need, o.at.Buffer.Bytes())
		}
	}
	return &launch{device: k.device, cost: func() float64 { return k.cfg.Cost(p) }, info: LaunchInfo{
		Kernel: k.cfg.Name, Softmax: p, AOffset: p.In.Offset, COffset: p.Out.Offset,
	}}, nil
}
