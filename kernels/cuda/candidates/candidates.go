// Package candidates has the data for calibrating a card: cases, each family's candidate plans for a case,
// and the file of their times. It needs no GPU.
package candidates

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/gemv"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/mma"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Case is one execution of a subject.
type Case struct {
	kernels.Subject
	M int `json:"m"`
}

// String returns a case's name: "gemm bf16 n4096 k4096 nk m64".
func (c Case) String() string {
	return fmt.Sprintf("%v %s %s%s m%d", c.Operation, c.DType, c.Size(), c.Traits(), c.M)
}

// Validate returns an error that names the first invalid field.
func (c Case) Validate() error {
	if c.M < 1 {
		return fmt.Errorf("m is %d, expected at least 1", c.M)
	}
	return c.Subject.Validate()
}

// Expected is a candidate plan of a family, and its modeled seconds.
type Expected struct {
	Label   string
	Seconds float64
}

// Products returns the product families whose choice uses a card's constants.
func Products() []gemm.Family {
	return []gemm.Family{hopper.Family{}, mma.Family{}, mma.WMMA{}, gemv.Family{}}
}

// Attentions returns the attention families whose choice uses a card's constants.
func Attentions() []planning.Family[attention.Problem, attention.Addresses] {
	var choosers []planning.Family[attention.Problem, attention.Addresses]
	for _, f := range attention.Families() {
		if _, ok := f.(planning.Chooser[attention.Problem, attention.Addresses]); ok {
			choosers = append(choosers, f)
		}
	}
	return choosers
}

// Product returns the problem of a GEMM case, with operands aligned as buffers are.
func (c Case) Product() (gemm.Problem, error) {
	p, err := kernels.Task{Subject: kernels.Product(c.DType, c.N, c.K).In(c.Layout), M: c.M}.Normalized()
	if err != nil {
		return gemm.Problem{}, err
	}
	return gemm.NewProblem(p,
		planning.AlignmentOf(0, int64(p.LDA)*int64(p.DType.Size())),
		planning.AlignmentOf(0, int64(p.LDC)*int64(p.DType.Output().Size()))), nil
}

// Attention returns the problem of an attention case.
func (c Case) Attention() (attention.Problem, error) {
	return attention.NewProblem(c.Task().Attention())
}

// Task returns the case as a kernels.Task.
func (c Case) Task() kernels.Task { return kernels.Task{Subject: c.Subject, M: c.M} }

// Families returns the names of the families for an operation, the best first.
func Families(o kernels.Operation) []string {
	var names []string
	switch o {
	case kernels.GEMM:
		for _, f := range Products() {
			names = append(names, f.Name())
		}
	case kernels.AttentionPrefill, kernels.AttentionDecode:
		for _, f := range Attentions() {
			names = append(names, f.Name())
		}
	}
	return names
}

// Expect lists a family's candidate plans for a case on a GPU, in the family's order. The list is empty if
// the family does not support the case. An unknown family or an invalid case is an error.
func Expect(a planning.Arch, c Case, family string) ([]Expected, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	switch c.Operation {
	case kernels.GEMM:
		p, err := c.Product()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		return expect(a, Products(), family, p)
	case kernels.AttentionPrefill, kernels.AttentionDecode:
		p, err := c.Attention()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		return expect(a, Attentions(), family, p)
	}
	return nil, fmt.Errorf("%v: no family chooses for %v", c, c.Operation)
}

func expect[P, A any](a planning.Arch, among []planning.Family[P, A], family string, p P) ([]Expected, error) {
	for _, f := range among {
		if f.Name() != family {
			continue
		}
		if f.Supports(a, p) != "" {
			return nil, nil
		}
		var all []Expected
		for _, plan := range f.(planning.Chooser[P, A]).Candidates(a, p) {
			all = append(all, Expected{plan.Label, plan.Seconds})
		}
		return all, nil
	}
	return nil, fmt.Errorf("no family %q chooses by constants of a card", family)
}

// The grid: products of model layers, from one token to a long prompt.
var (
	gridLayers   = [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}} // N, K
	gridTypes    = []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8, kernels.FP8}
	gridHalves   = []kernels.DType{kernels.BF16, kernels.FP16}
	gridHeadDims = []int{128, 64}
)

const gridBatches, gridContexts = 24, 9

// Grid returns the cases of a calibration in an order drawn by seed, so an early stop has a fair sample.
func Grid(seed uint64) []Case {
	var all []Case
	for _, d := range gridTypes {
		for _, nk := range gridLayers {
			for _, m := range spaced(1, 8192, gridBatches) {
				s := kernels.Product(d, nk[0], nk[1])
				s.Layout = kernels.Transposed
				all = append(all, Case{s, m})
			}
		}
	}
	for _, d := range gridHalves {
		for _, dim := range gridHeadDims {
			heads := kernels.Dims{QueryHeads: 32, KVHeads: 8, HeadDim: dim}
			for _, m := range spaced(128, 16384, gridContexts) {
				all = append(all, Case{kernels.Subject{Operation: kernels.AttentionPrefill, DType: d, Dims: heads}, m})
			}
			for _, m := range spaced(128, 32768, gridContexts) {
				all = append(all, Case{kernels.Subject{Operation: kernels.AttentionDecode, DType: d, Dims: heads}, m})
			}
		}
	}
	rand.New(rand.NewPCG(seed, gridStream)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// gridStream separates this use of a seed from others.
const gridStream = 0x67726964

// spaced returns n numbers from low to high in equal ratios, without duplicates.
func spaced(low, high, n int) []int {
	var all []int
	for i := range n {
		m := int(math.Round(float64(low) * math.Pow(float64(high)/float64(low), float64(i)/float64(n-1))))
		if len(all) == 0 || m > all[len(all)-1] {
			all = append(all, m)
		}
	}
	return all
}
