package mistral

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// projection is one weight matrix, B[N,K] as a linear layer stores it.
type projection struct {
	part     Part
	n, k     int
	tensors  []rowsOf                   // of the checkpoint, one below the other
	format   kernels.WeightFormat       // zero for elements of the model's type
	raw      kernels.Buffer             // nil once no kernel needs it
	shared   bool                       // raw is the embedding's
	prepared map[string]kernels.Weights // by kernel
}

func newProjection(part Part, k int, tensors ...rowsOf) projection {
	p := projection{part: part, k: k, tensors: tensors}
	for _, t := range tensors {
		p.n += t.rows
	}
	return p
}

// problem is the product of rows rows with the projection.
func (p *projection) problem(dtype kernels.DType, rows int) kernels.Problem {
	return kernels.Problem{Shape: kernels.Shape{M: rows, N: p.n, K: p.k}, DType: dtype, BLayout: kernels.Transposed}
}

// plain says that the weights are elements of the model's type.
func (p *projection) plain() bool { return p.format == kernels.WeightFormat{} }

func (p *projection) elements() int64 { return int64(p.n) * int64(p.k) }

// bytes is the size of the weights, scales included.
func (p *projection) bytes(dtype kernels.DType) int64 {
	if p.plain() {
		return p.elements() * int64(dtype.Size())
	}
	return p.format.RawBytes(p.n, p.k)
}

// gemm is the kernel of that name, or "auto" where the kernel takes integers only and the
// projection's weights are plain.
func (m *Model) gemm(p *projection, kernel string) (kernels.Gemm, error) {
	g, err := kernels.FindGemm(m.dev, kernel)
	if err != nil {
		return nil, err
	}
	if _, integers := g.(kernels.QuantisedGemm); integers && p.plain() && m.Weights().Bits > 0 && g.Supports(p.problem(m.dtype, 1)) != nil {
		return kernels.FindGemm(m.dev, "auto")
	}
	return g, nil
}

// noIntegers is the error of a kernel that takes plain weights only.
func (m *Model) noIntegers(g kernels.Gemm, p *projection) error {
	return &kernels.Unsupported{Kernel: g.Name(), DType: m.dtype, Reason: fmt.Sprintf("it takes no weights that are %v", p.format)}
}

// supports says why a kernel can't compute the product of so many rows with a projection.
func (m *Model) supports(g kernels.Gemm, p *projection, rows int) error {
	if p.plain() {
		return g.Supports(p.problem(m.dtype, rows))
	}
	q, ok := g.(kernels.QuantisedGemm)
	if !ok {
		return m.noIntegers(g, p)
	}
	return q.SupportsQuantised(kernels.QuantisedProblem{Problem: p.problem(m.dtype, rows), Weights: p.format})
}

// bind is the launch of the product of so many rows.
func (m *Model) bind(g kernels.Gemm, p *projection, rows int, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := m.supports(g, p, rows); err != nil {
		return nil, err
	}
	if p.plain() {
		return g.Bind(p.problem(m.dtype, rows), a, w, c)
	}
	q, ok := g.(kernels.QuantisedGemm)
	if !ok {
		return nil, m.noIntegers(g, p)
	}
	return q.BindQuantised(kernels.QuantisedProblem{Problem: p.problem(m.dtype, rows), Weights: p.format}, a, w, c)
}

// prepare brings the projection into the form of a kernel, once.
func (m *Model) prepare(p *projection, kernel string) (kernels.Gemm, kernels.Weights, error) {
	g, err := m.gemm(p, kernel)
	if err != nil {
		return nil, nil, err
	}
	if w, ok := p.prepared[kernel]; ok {
		return g, w, nil
	}
	if p.raw == nil {
		return nil, nil, fmt.Errorf("prepare %s n%d k%d for kernel %s: its weights are held for other kernels only", p.part, p.n, p.k, kernel)
	}
	var w kernels.Weights
	if q, ok := g.(kernels.QuantisedGemm); p.plain() {
		w, err = g.PrepareWeights(p.problem(m.dtype, 1), p.raw)
	} else if ok {
		w, err = q.PrepareQuantised(kernels.QuantisedProblem{Problem: p.problem(m.dtype, 1), Weights: p.format}, p.raw)
	} else {
		err = m.noIntegers(g, p)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare %s for kernel %s: %w", p.part, kernel, err)
	}
	if p.prepared == nil {
		p.prepared = map[string]kernels.Weights{}
	}
	p.prepared[kernel] = w
	return g, w, nil
}

// Release gives back the memory of what a kernel made of the weights, where they are also
// held as they were stored: see [Options.KeepRaw]. No session may use it any more.
func (m *Model) Release(kernel string) error {
	var errs []error
	for _, p := range m.projections() {
		if w, ok := p.prepared[kernel]; ok && p.raw != nil {
			delete(p.prepared, kernel)
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}

// close releases what the projection holds.
func (p *projection) close() error {
	var errs []error
	for _, w := range p.prepared {
		errs = append(errs, w.Close())
	}
	p.prepared = nil
	return errors.Join(append(errs, p.release())...)
}

// release gives back the weights as they were stored.
func (p *projection) release() error {
	raw := p.raw
	p.raw = nil
	if raw == nil || p.shared {
		return nil
	}
	return raw.Close()
}

// dispatch makes the launches of C[rows,N] = A[rows,K]·Bᵀ: one, or those that the table
// has for that many rows. A and C have room for as many rows as the
// table pads to.
func (m *Model) dispatch(p *projection, t *table.Table, rows int, a, c kernels.Operand) ([]kernels.Launch, error) {
	kernel := m.kernel
	action := table.Action{Kind: table.Direct}
	if t != nil {
		action = t.Lookup(m.served(p), rows)
	}
	switch action.Kind {
	case table.Kernel:
		kernel = action.Kernel
	case table.Algorithm:
		kernel = kernels.AlgorithmName(action.Kernel, kernels.Algorithm(action.Algorithm))
	}
	g, w, err := m.prepare(p, kernel)
	if err != nil {
		return nil, err
	}
	var launches []kernels.Launch
	for _, part := range action.Parts(rows) {
		l, err := m.bind(g, p, part, a, w, c)
		if err != nil {
			return nil, err
		}
		launches = append(launches, l)
		a.Offset += part * p.k
		c.Offset += part * p.n
	}
	return launches, nil
}

// served is a projection as tables name it.
func (m *Model) served(p *projection) table.Product {
	served := table.Product{Kernel: m.kernel, DType: string(m.dtype), Layout: table.NK, N: p.n, K: p.k}
	if !p.plain() {
		served.Weights = p.format.String()
	}
	return served
}

// largestBatch is the largest number of rows, up to most, that the kernel takes of every
// product, tried by halves: 1 when it takes none.
func (m *Model) largestBatch(most int) int {
	g, err := kernels.FindGemm(m.dev, m.kernel)
	if err != nil {
		return most
	}
	takes := func(rows int) bool {
		for _, p := range m.projections() {
			if p.part != PartHead && m.supports(g, p, rows) != nil {
				return false
			}
		}
		return true
	}
	for most > 1 && !takes(most) {
		most /= 2
	}
	return most
}

// Applied counts the products of a prompt of rows tokens for which the table has
// something else than one launch of the kernel.
func (m *Model) Applied(t *table.Table, rows int) (applied, products int) {
	for _, p := range m.projections() {
		if p.part == PartHead {
			continue // computed for the last token alone
		}
		products++
		if t != nil && t.Lookup(m.served(p), rows).Kind != table.Direct {
			applied++
		}
	}
	return applied, products
}
