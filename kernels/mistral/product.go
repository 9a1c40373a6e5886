package mistral

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// projection is one weight matrix, B[N,K] as in a linear layer.
type projection struct {
	part     Part
	n, k     int
	tensors  []rowsOf                   // the checkpoint's tensors, one below the other
	format   kernels.WeightFormat       // zero if unquantized
	raw      kernels.Buffer             // nil once no kernel needs it
	shared   bool                       // raw belongs to the embedding
	prepared map[string]kernels.Weights // by kernel
}

func newProjection(part Part, k int, tensors ...rowsOf) projection {
	p := projection{part: part, k: k, tensors: tensors}
	for _, t := range tensors {
		p.n += t.rows
	}
	return p
}

func (p *projection) task(dtype kernels.DType, rows int) kernels.Task {
	t := kernels.Task{Subject: kernels.Linear(dtype, p.n, p.k), M: rows}
	t.Weights = p.format
	return t
}

func (p *projection) plain() bool { return p.format == kernels.WeightFormat{} }

func (p *projection) elements() int64 { return int64(p.n) * int64(p.k) }

func (p *projection) bytes(dtype kernels.DType) int64 {
	if p.plain() {
		return p.elements() * int64(dtype.Size())
	}
	return p.format.RawBytes(p.n, p.k)
}

// gemm returns the named kernel, or "auto" if that kernel supports only quantized weights and the projection
// is unquantized, or is a router, which may be narrower than the kernel supports.
func (m *Model) gemm(p *projection, kernel string) (kernels.Kernel, error) {
	g, err := kernels.FindProduct(m.dev, kernel)
	if err != nil {
		return nil, err
	}
	if p.part == PartRouter && g.Supports(p.task(m.dtype, 1)) != nil {
		return kernels.FindProduct(m.dev, "auto")
	}
	if q := m.firstOfIntegers(); q != nil && p.plain() && g.Supports(p.task(m.dtype, 1)) != nil && g.Supports(q.task(m.dtype, 1)) == nil {
		return kernels.FindProduct(m.dev, "auto")
	}
	return g, nil
}

// prepare converts the projection to a kernel's format, once.
func (m *Model) prepare(p *projection, kernel string) (kernels.Kernel, kernels.Weights, error) {
	g, err := m.gemm(p, kernel)
	if err != nil {
		return nil, nil, err
	}
	if w, ok := p.prepared[kernel]; ok {
		return g, w, nil
	}
	if p.raw == nil {
		return nil, nil,
			fmt.Errorf("prepare %s n%d k%d for kernel %s: its weights are held for other kernels only", p.part, p.n, p.k, kernel)
	}
	w, err := g.Prepare(p.task(m.dtype, 1), p.raw)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare %s for kernel %s: %w", p.part, kernel, err)
	}
	if p.prepared == nil {
		p.prepared = map[string]kernels.Weights{}
	}
	p.prepared[kernel] = w
	return g, w, nil
}

// Release frees a kernel's copy of the weights if the stored ones are kept: see [Options.KeepRaw]. No session
// may use the kernel afterwards.
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

func (p *projection) close() error {
	var errs []error
	for _, w := range p.prepared {
		errs = append(errs, w.Close())
	}
	p.prepared = nil
	return errors.Join(append(errs, p.release())...)
}

func (p *projection) release() error {
	raw := p.raw
	p.raw = nil
	if raw == nil || p.shared {
		return nil
	}
	return raw.Close()
}

// dispatch returns the launches of C[rows,N] = A[rows,K]·Bᵀ: one, or those of the table's entry. A and C must
// have room for the rows that the table pads to.
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
	return m.bind(p, kernel, action.Parts(rows), a, c)
}

// bind returns the launches of a product whose rows are divided into parts.
func (m *Model) bind(p *projection, kernel string, parts []int, a, c kernels.Operand) ([]kernels.Launch, error) {
	g, w, err := m.prepare(p, kernel)
	if err != nil {
		return nil, err
	}
	var launches []kernels.Launch
	for _, part := range parts {
		l, err := g.Bind(p.task(m.dtype, part), a, w, c)
		if err != nil {
			return nil, err
		}
		launches = append(launches, l)
		a.Offset += part * p.k
		c.Offset += part * p.n
	}
	return launches, nil
}

func (m *Model) served(p *projection) table.Product {
	served := table.Product{Kernel: m.kernel, DType: string(m.dtype), Layout: table.NK, N: p.n, K: p.k}
	if !p.plain() {
		served.Weights = p.format.String()
	}
	return served
}

// largestBatch returns the largest number of rows, up to most, that the kernel supports for every product,
// found by halving; 1 if none.
func (m *Model) largestBatch(most int) int {
	g, err := kernels.FindProduct(m.dev, m.kernel)
	if err != nil {
		return most
	}
	takes := func(rows int) bool {
		for _, p := range m.projections() {
			if p.part != PartHead && g.Supports(p.task(m.dtype, rows)) != nil {
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

// Applied counts the products of a prompt of rows tokens, and those that the table changes.
func (m *Model) Applied(t *table.Table, rows int) (applied, products int) {
	for _, p := range m.projections() {
		if p.part == PartHead || p.part == PartRouter || p.part == PartExperts {
			continue // computed for the last token only, or for rows that only the pass knows
		}
		products++
		if t != nil && t.Lookup(m.served(p), rows).Kind != table.Direct {
			applied++
		}
	}
	return applied, products
}
