package kernels

import (
	"errors"
	"testing"
)

// crowd is a kernel of which several goroutines can ask at once, each a copy of its own.
type crowd struct {
	hostGemm
	refuses error
}

func (*crowd) Choice(Problem) (Choice, error) { return Choice{}, nil }

func (g *crowd) Tellers(n int) ([]ChoiceTeller, error) {
	if g.refuses != nil {
		return nil, g.refuses
	}
	out := []ChoiceTeller{g}
	for len(out) < min(n, 3) {
		out = append(out, &crowd{})
	}
	return out, nil
}

// TestTellers: a kernel that has copies to ask gives as many as it has, itself first, and any other is asked alone.
func TestTellers(t *testing.T) {
	refused := errors.New("no handle")
	for _, c := range []struct {
		gemm    Gemm
		n, want int
		err     error
	}{{&crowd{}, 2, 2, nil}, {&crowd{}, 8, 3, nil}, {&hostGemm{}, 8, 1, nil}, {&crowd{refuses: refused}, 8, 0, refused}} {
		i := product{c.gemm}
		got, err := Tellers(i, c.n)
		if !errors.Is(err, c.err) || len(got) != c.want || len(got) > 0 && got[0] != Implementation(i) {
			t.Errorf("%T, %d asked for: %d, %v", c.gemm, c.n, len(got), err)
		}
	}
	if got, err := Tellers(softmax{&hostSoftmax{}, &hostDevice{}}, 4); err != nil || len(got) != 1 {
		t.Errorf("softmax: %d, %v", len(got), err)
	}
}
