package kerneltest

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// AttentionConfig describes a simulated kernel of attention, which takes its time and
// computes nothing.
type AttentionConfig struct {
	Name string
	// MaxRows is the largest number of rows that is supported; 0 supports every one.
	MaxRows int
	// Cost is the seconds of a launch.
	Cost func(a kernels.Attention) float64
}

// attention is a simulated kernel.
type attention struct {
	device *Device
	cfg    AttentionConfig
}

func (k *attention) Name() string     { return k.cfg.Name }
func (k *attention) Describe() string { return "simulated attention of declared cost" }

func (k *attention) Supports(a kernels.Attention) error {
	if k.cfg.MaxRows > 0 && a.Rows > k.cfg.MaxRows {
		return &kernels.Unsupported{Kernel: k.cfg.Name, DType: a.DType, Reason: fmt.Sprintf("%d rows, at most %d are declared for this simulation", a.Rows, k.cfg.MaxRows)}
	}
	return nil
}

// Attend checks that every operand lies within its buffer.
func (k *attention) Attend(a kernels.Attention) (kernels.Launch, error) {
	if err := k.Supports(a); err != nil {
		return nil, err
	}
	size, width := int64(a.DType.Size()), int64(a.Heads.Query*a.Heads.Dim)
	cache := int64(a.Heads.KV) * int64(a.Cache.Capacity) * int64(a.Heads.Dim)
	if a.Length > a.Cache.Capacity && a.Window == 0 {
		return nil, fmt.Errorf("%s: %d tokens in a cache of %d", k.cfg.Name, a.Length, a.Cache.Capacity)
	}
	for _, o := range []struct {
		name           string
		at             kernels.Operand
		elements, size int64
	}{
		{"Q", a.Q, int64(a.Rows-1)*int64(a.LDQ) + width, size}, {"out", a.Out, int64(a.Rows) * width, size},
		{"keys", a.Cache.Keys, cache, size}, {"values", a.Cache.Values, cache, size}, {"position", a.Position, 1, 4},
	} {
		if o.at.Buffer == nil || o.at.Offset < 0 {
			return nil, fmt.Errorf("%s: %s has no buffer or a negative offset", k.cfg.Name, o.name)
		}
		if need := (int64(o.at.Offset) + o.elements) * o.size; need > o.at.Buffer.Bytes() {
			return nil, fmt.Errorf("%s: %s needs %d bytes, its buffer has %d", k.cfg.Name, o.name, need, o.at.Buffer.Bytes())
		}
	}
	return &launch{device: k.device, cost: func() float64 { return k.cfg.Cost(a) }, info: LaunchInfo{
		Kernel: k.cfg.Name, Attention: a, AOffset: a.Q.Offset, COffset: a.Out.Offset,
	}}, nil
}
