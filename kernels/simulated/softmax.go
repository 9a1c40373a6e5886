package simulated

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// softmax is a kernel of a session on a machine of softmax.
type softmax struct {
	device *Device
	name   string
}

func (k *softmax) Name() string     { return k.name }
func (k *softmax) Describe() string { return "simulated softmax of known time" }

// Supports refuses all but the machine's rows, without a mask.
func (k *softmax) Supports(p kernels.SoftmaxProblem) error {
	cfg := k.device.machine.cfg
	p, err := p.Normalized()
	switch {
	case err != nil:
		return &kernels.Unsupported{Kernel: k.name, DType: p.DType, Reason: err.Error()}
	case p.DType != cfg.DType || p.Columns != cfg.Columns || p.Queries != 0 || p.Log:
		return &kernels.Unsupported{Kernel: k.name, DType: p.DType, Reason: fmt.Sprintf("this machine knows only softmax %s c%d", cfg.DType, cfg.Columns)}
	}
	return nil
}

// Bind implements [kernels.SoftmaxKernel].
func (k *softmax) Bind(p kernels.SoftmaxProblem) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	in, okIn := p.In.Buffer.(*buffer)
	out, okOut := p.Out.Buffer.(*buffer)
	if !okIn || !okOut {
		return nil, fmt.Errorf("%s: %v: operands are not on this device", k.name, p)
	}
	for _, o := range []struct {
		name   string
		have   int64
		offset int
	}{{"In", in.Bytes(), p.In.Offset}, {"Out", out.Bytes(), p.Out.Offset}} {
		need := (int64(o.offset) + int64(p.Rows)*int64(p.Columns)) * int64(p.DType.Size())
		if o.offset < 0 || need > o.have {
			return nil, fmt.Errorf("%s: %v: %s needs %d bytes from offset %d on, its buffer has %d", k.name, p, o.name, need, o.offset, o.have)
		}
	}
	return k.device.launch(k.name, p.Rows, in, out), nil
}
