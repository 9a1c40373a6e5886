package kernels

import (
	"slices"
	"testing"
)

type threadedHost struct{ hostDevice }

func (*threadedHost) Threads() int                      { return 8 }
func (d *threadedHost) WithThreads(int) (Device, error) { return d, nil }

type rowGemm struct {
	hostGemm
	fromEnd func(p Task) bool
	most    int // the largest M
}

func (g *rowGemm) Supports(p Task) error {
	if p.M > g.most {
		return &Unsupported{Kernel: "rows", DType: p.DType, Reason: "M is too large"}
	}
	return nil
}

func (g *rowGemm) Bind(p Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	return hostLaunch(func() error {
		b := w.(hostWeights).Operand
		for i := range p.M {
			for j := range 8 {
				var sum float32
				for k := range p.K {
					if g.fromEnd(p) {
						k = p.K - 1 - k
					}
					sum += float32(a.get(p.DType, i*p.LDA+k) * b.get(p.DType, j*p.LDB+k))
				}
				c.put(p.DType.Output(), i*p.LDC+j, float64(sum))
			}
		}
		return nil
	}), nil
}

func TestRowBits(t *testing.T) {
	ms := []int{1, 2, 3, 4, 7, 8, 13, 16}
	for _, c := range []struct {
		name     string
		d        Device
		fromEnd  func(p Task) bool
		byM      []int
		threads  []int
		byThread []int
	}{
		{"neither", &threadedHost{}, func(Task) bool { return false }, nil, []int{1, 2, 4, 7}, nil},
		{"M", &threadedHost{}, func(p Task) bool { return p.M < 4 }, []int{1, 2, 3}, []int{1, 2, 4, 7}, nil},
		{"threads", &threadedHost{}, func(p Task) bool { return p.Threads == 4 }, nil, []int{1, 2, 4, 7}, []int{4}},
		{"threads at one M", &threadedHost{}, func(p Task) bool { return p.Threads == 1 && p.M == 7 }, nil, []int{1, 2, 4, 7}, []int{1}},
		{"the largest M", &threadedHost{}, func(p Task) bool { return p.M == 16 }, ms[:7], []int{1, 2, 4, 7}, nil},
		{"one shape alone", &threadedHost{}, func(p Task) bool { return p.M == 1 && p.N == 1056 }, []int{1}, []int{1, 2, 4, 7}, nil},
		{"no threads", &hostDevice{}, func(p Task) bool { return p.M == 8 }, []int{8}, nil, nil},
	} {
		found, err := RowBitsOf(t.Context(), c.d, &rowGemm{fromEnd: c.fromEnd, most: 16}, FP32, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(found.Ms, ms) || !slices.Equal(found.ByM, c.byM) || !slices.Equal(found.Threads, c.threads) ||
			!slices.Equal(found.ByThreads, c.byThread) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
	found, err := RowBitsOf(t.Context(), &threadedHost{}, &rowGemm{}, FP32, 1)
	if err != nil || len(found.Ms)+len(found.Threads) > 0 {
		t.Errorf("a kernel that refuses everything: %+v, %v", found, err)
	}
	if _, err := RowBitsOf(t.Context(), &hostDevice{}, &hostGemm{faults: faults{fails: true}}, FP32, 1); err == nil {
		t.Error("a launch that fails was passed over")
	}
}

// Opposite terms must be apart, so that the order of additions matters.
func TestCancel(t *testing.T) {
	for _, k := range []int{16, 66, 1024} {
		p := Task{Subject: Product(FP32, 5, k), M: 3}
		o := newCheckOperands(p, CheckAccuracy, false, 7)
		o.cancel(p)
		for i := range p.M {
			for j := range p.N {
				var terms []float64
				for k := range p.K {
					terms = append(terms, o.a[i*p.K+k]*o.b[k*p.N+j])
				}
				for k := range p.K / 2 {
					if terms[k] == -terms[k+1] {
						t.Fatalf("k %d: terms %d and %d of element (%d,%d) are opposites side by side", p.K, k, k+1, i, j)
					}
				}
				slices.Sort(terms)
				for k, term := range terms {
					if term != -terms[p.K-1-k] {
						t.Fatalf("k %d: %g is left of the terms of element (%d,%d)", p.K, term, i, j)
					}
				}
			}
		}
	}
}
