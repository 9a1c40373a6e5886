package kernels

import (
	"errors"
	"testing"
)

type crowd struct {
	hostGemm
	refuses error
}

func (*crowd) Choice(Task) (Choice, error) { return Choice{}, nil }

func (g *crowd) Tellers(n int) ([]Kernel, error) {
	if g.refuses != nil {
		return nil, g.refuses
	}
	out := []Kernel{g}
	for len(out) < min(n, 3) {
		out = append(out, &crowd{})
	}
	return out, nil
}

func TestTellers(t *testing.T) {
	refused := errors.New("no handle")
	for _, c := range []struct {
		gemm    Kernel
		n, want int
		err     error
	}{{&crowd{}, 2, 2, nil}, {&crowd{}, 8, 3, nil}, {&hostGemm{}, 8, 1, nil}, {&crowd{refuses: refused}, 8, 0, refused}} {
		got, err := Tellers(c.gemm, c.n)
		if !errors.Is(err, c.err) || len(got) != c.want || len(got) > 0 && got[0] != c.gemm {
			t.Errorf("%T, %d asked for: %d, %v", c.gemm, c.n, len(got), err)
		}
	}
	if got, err := Tellers(&hostSoftmax{}, 4); err != nil || len(got) != 1 {
		t.Errorf("softmax: %d, %v", len(got), err)
	}
}
