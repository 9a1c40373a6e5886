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
	raw      kernels.Buffer             // nil once no kernel needs it
	shared   bool                       // raw is the embedding's
	prepared map[string]kernels.Weights // by kernel
}

// problem is the product of rows rows with the projection.
func (p *projection) problem(dtype kernels.DType, rows int) kernels.Problem {
	return kernels.Problem{Shape: kernels.Shape{M: rows, N: p.n, K: p.k}, DType: dtype, BLayout: kernels.Transposed}
}

// prepare brings the projection into the form of a kernel, once.
func (m *Model) prepare(p *projection, kernel string) (kernels.Gemm, kernels.Weights, error) {
	g, err := kernels.FindGemm(m.dev, kernel)
	if err != nil {
		return nil, nil, err
	}
	if w, ok := p.prepared[kernel]; ok {
		return g, w, nil
	}
	problem := p.problem(m.dtype, 1)
	if p.raw == nil {
		return nil, nil, fmt.Errorf("prepare %s n%d k%d for kernel %s: its weights are held for other kernels only", p.part, p.n, p.k, kernel)
	}
	w, err := g.PrepareWeights(problem, p.raw)
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
	if action.Kind == table.Kernel {
		kernel = action.Kernel
	}
	g, w, err := m.prepare(p, kernel)
	if err != nil {
		return nil, err
	}
	var launches []kernels.Launch
	for _, part := range action.Parts(rows) {
		problem := p.problem(m.dtype, part)
		if err := g.Supports(problem); err != nil {
			return nil, err
		}
		l, err := g.Bind(problem, a, w, c)
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
	return table.Product{Kernel: m.kernel, DType: string(m.dtype), Layout: table.NK, N: p.n, K: p.k}
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
			if p.part != PartHead && g.Supports(p.problem(m.dtype, rows)) != nil {
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
