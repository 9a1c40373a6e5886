package cpu

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// flash is the one way in which the processor computes attention: by online softmax over
// tiles of keys (Dao et al. 2022), which never holds the scores of a row as a whole.
type flash struct{ dev *Device }

var _ kernels.AttentionLister = (*Device)(nil)

// AttentionKernels implements kernels.AttentionLister.
func (d *Device) AttentionKernels() []kernels.AttentionKernel {
	return []kernels.AttentionKernel{flash{d}}
}

func (f flash) Name() string { return "flash" }

func (f flash) Describe() string { return "online softmax over tiles of keys" }

// Supports implements kernels.AttentionKernel.
func (f flash) Supports(a kernels.Attention) error {
	if a.Heads.Dim > mostHeadDim {
		return &kernels.Unsupported{Kernel: f.Name(), DType: a.DType, Reason: fmt.Sprintf("heads of %d elements, at most %d are taken", a.Heads.Dim, mostHeadDim)}
	}
	return nil
}

// Attend implements kernels.AttentionKernel.
func (f flash) Attend(a kernels.Attention) (kernels.Launch, error) { return f.dev.Attend(a) }
