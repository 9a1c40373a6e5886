package cpu

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// flash is attention with online softmax over tiles of keys (Dao et al. 2022); it never stores all scores of
// a row.
type flash struct{ dev *Device }

func (d *Device) attentions() []kernels.AttentionKernel { return []kernels.AttentionKernel{flash{d}} }

func (f flash) Name() string { return "flash" }

func (f flash) Describe() string { return "online softmax over tiles of keys" }

// Attends implements kernels.AttentionKernel.
func (f flash) Attends(a kernels.Attention) error {
	if a.Heads.Dim > mostHeadDim {
		return &kernels.Unsupported{Kernel: f.Name(), DType: a.DType,
			Reason: fmt.Sprintf("heads of %d elements, at most %d are taken", a.Heads.Dim, mostHeadDim)}
	}
	return nil
}

// Attend implements kernels.AttentionKernel.
func (f flash) Attend(a kernels.Attention) (kernels.Launch, error) { return f.dev.Attend(a) }
