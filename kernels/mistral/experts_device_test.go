package mistral

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// graphing is a CPU with fused products and graphs, as GPUs have them.
type graphing struct {
	*cpu.Device
	graphs, fused *int
}

func (d graphing) Graph(ls []kernels.Launch) (kernels.Launch, error) {
	*d.graphs++
	return ls[0], nil
}

func (d graphing) Fuse(kernels.FusedProduct) (kernels.Launch, error) {
	*d.fused++
	return nil, &kernels.Unsupported{Kernel: "fused", Reason: "not here"}
}

func (d graphing) RotateAttend(kernels.Rotation, kernels.Attention) (kernels.Launch, error) {
	*d.fused++
	return nil, &kernels.Unsupported{Kernel: "fused", Reason: "not here"}
}

// The host chooses experts between launches, so a token with experts is neither one graph nor fused.
func TestExpertsNeedTheHost(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, graphs := range map[string]int{"mixtral-8x2": 0, "mistral": 1} {
		c, err := checkpoint.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		as := graphing{d, new(int), new(int)}
		m, err := Load(t.Context(), as, c, Options{DType: kernels.BF16})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewSession(SessionOptions{Positions: 8})
		if err != nil {
			t.Fatal(err)
		}
		if *as.graphs != graphs || (*as.fused > 0) != (graphs > 0) || s.Fused() {
			t.Errorf("%s: %d graphs, %d fused launches tried", name, *as.graphs, *as.fused)
		}
		if graphs == 0 {
			if _, err := s.Step(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
		s.Close()
		m.Close()
		c.Close()
	}
}
