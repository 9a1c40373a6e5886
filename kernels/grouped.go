package kernels

import (
	"fmt"
	"math"
	"slices"
)

var dimGrouped = []Dim{
	dimN, dimK,
	{Name: "groups", Short: "g", In: func(d *Dims) *int { return &d.Groups }},
	{Name: "top_k", Short: "t", Optional: true, Routes: true, In: func(d *Dims) *int { return &d.TopK }},
	{Name: "skew", Short: "s", Optional: true, Routes: true, In: func(d *Dims) *int { return &d.Skew }},
	{Name: "draw", Short: "d", Optional: true, Routes: true, In: func(d *Dims) *int { return &d.Draw }},
	{Name: "routing", Short: "r", Optional: true, Routes: true, In: func(d *Dims) *int { return &d.Routing }},
}

// groupedDefinition defines products of rows that are sorted by group: C[i] = A[i] · B[group of row i], with A [M,K] and C
// [M,N] contiguous, and B as Groups matrices [N,K] or [K,N] in turn. [Subject.GroupRows] says how many rows a group has;
// launches read the weights of groups with rows only. Quantized weights are the raw weights of each group in turn: see [Task.Raw].
// Scales of activations are those of a product with all rows: see [Task.ActivationScales].
func groupedDefinition() Definition {
	return Definition{
		Name: "grouped", Title: "grouped matrix product", Swept: "rows of all groups", Operand: "weights", Weights: true,
		Dims: dimGrouped, Along: dimGrouped[:3], Scaled: []Dim{dimN, dimK}, Parts: ExpertProjections,
		Expected: "n, k and g groups, as in n28672k4096g8, possibly m, and the routing: t2 experts of a token drawn with skew s100 " +
			"and seed d1, as in n28672k4096g8t2s100d1",
		Probes: []Dims{{N: 4096, K: 4096, Groups: 8}}, Least: []Dims{{N: 1, K: 1, Groups: 1}},
		FLOPs:  func(s Subject, m float64) float64 { return 2 * m * float64(s.N) * float64(s.K) },
		Input:  func(s Subject, m float64) float64 { return m * float64(s.K) },
		Output: func(s Subject, m float64) float64 { return m * float64(s.N) },
		Ladder: gemmLadder,
		// More rows are at least as many of each group, drawn ones those of further tokens. Recorded ones may be any.
		Pads: func(s Subject) bool { return s.OverM() && s.Routing == 0 },
	}
}

// activeWeights returns the bits that a launch reads.
func activeWeights(s Subject, m float64) float64 {
	return float64(s.ActiveGroups(int(m))) * s.weightBits()
}

// heldWeights returns the bits of the weights of all groups.
func heldWeights(s Subject) float64 { return 8 * float64(s.Groups) * float64(s.oneGroup().Stored(1)) }

// normalizeGrouped checks a task's sizes. Operands are contiguous.
func normalizeGrouped(t Task) (Task, error) {
	if err := t.checkContiguous("grouped"); err != nil {
		return t, err
	}
	if t.Quantized() {
		if _, err := t.OneGroup().Normalized(); err != nil {
			return t, err
		}
	}
	if err := t.placeScales(); err != nil {
		return t, err
	}
	_, err := t.GroupRows(t.M)
	return t, err
}

// groupedExtents is [Task.Extents] of a grouped product.
func groupedExtents(t Task) (in, stored, out int64) {
	in = t.InputElements(t.M)
	if a, ok := t.ActivationScales(); ok {
		in = a.end(t)
	}
	return in, t.Stored(t.M), t.OutputElements(t.M)
}

// oneGroup is the product of a group as its weights know it.
func (s Subject) oneGroup() Subject {
	one := Product(s.DType, s.N, s.K).In(s.Layout)
	one.Weights = s.Weights
	return one
}

// OneGroup is a product of one group as its weights know it.
func (t Task) OneGroup() Task {
	return Task{Subject: t.oneGroup(), M: 1, Threads: t.Threads, PackInside: t.PackInside}
}

// checkContiguous checks the sizes of a product of contiguous operands; kind is grouped or fused.
func (t Task) checkContiguous(kind string) error {
	switch err := t.Shape().Validate(); {
	case err != nil:
		return err
	case t.Threads < 0:
		return fmt.Errorf("%v: %d threads, expected at least 1", t, t.Threads)
	case t.LDA > t.K || t.LDC > t.N || t.StrideA != 0 || t.StrideB != 0 || t.StrideC != 0:
		return fmt.Errorf("%v: operands of a %s product are contiguous", t, kind)
	}
	return t.Validate()
}

// GroupedPart is the product of one group with rows.
type GroupedPart struct {
	Task  // a single product
	Group int
	Row   int // first row in A and C
}

// GroupedParts returns the products of a normalized grouped task, without idle groups.
func (t Task) GroupedParts() ([]GroupedPart, error) {
	rows, err := t.GroupRows(t.M)
	if err != nil {
		return nil, err
	}
	var parts []GroupedPart
	row := 0
	for group, m := range rows {
		if m > 0 {
			of := t.OneGroup()
			of.M = m
			if t.Scaled() {
				of.LDScales = t.LDScales
				of.ScalesAt = t.ScalesAt + row*t.Weights.Scale.Size() - row*t.K*t.DType.Bits()/8
			}
			parts = append(parts, GroupedPart{Task: of, Group: group, Row: row})
		}
		row += m
	}
	return parts, nil
}

// Grouped returns the normalized task if it is a grouped product that a kernel with the extras may compute, otherwise the reason
// as an [*Unsupported].
func (t Task) Grouped(kernel string, extras Extras) (Task, error) {
	if t.Operation != GroupedGEMM {
		return t, t.Unsupported(kernel, "it computes grouped products")
	}
	return t.Supported(kernel, extras)
}

// groupedReference is a task's output and [ErrorBound].
func groupedReference(t Task, in, stored []float64) (want, bound []float64) {
	return t.groupedWay().products(t, in, stored)
}

// groupOfRows returns the group of each row of a normalized task.
func (t Task) groupOfRows() []int {
	groups := make([]int, 0, t.M)
	rows, _ := t.GroupRows(t.M) // of a normalized task
	for group, n := range rows {
		groups = append(groups, slices.Repeat([]int{group}, n)...)
	}
	return groups
}

// groupedWay says which parts of the operands meet; faults change it.
type groupedWay struct {
	groups []int // of the weights of each row
	// activation returns the row and the group of K whose scale elements of A have.
	activation func(row, k int) (int, int)
	// weight returns the group, and the groups of N and of K, whose scale and zero point weights have.
	weight func(group, n, k int) (int, int, int)
}

func (t Task) groupedWay() groupedWay {
	return groupedWay{
		groups:     t.groupOfRows(),
		activation: func(row, k int) (int, int) { return row, k },
		weight:     func(group, n, k int) (int, int, int) { return group, n, k },
	}
}

// products multiplies each row with the weights of its group.
func (w groupedWay) products(t Task, in, stored []float64) (want, bound []float64) {
	a, b, rounding := in, stored, 0.0
	if t.Quantized() {
		a, b = w.values(t, in, stored)
	}
	if t.Quantized() && !t.Scaled() {
		rounding = t.DType.UnitRoundoff() // a kernel may round a code times its scale to the type of A
	}
	want, bound = make([]float64, t.M*t.N), make([]float64, t.M*t.N)
	stepN, stepK := 1, t.N
	if t.Layout == Transposed {
		stepN, stepK = t.K, 1
	}
	for row, group := range w.groups {
		a, b := a[row*t.K:][:t.K], b[group*t.N*t.K:][:t.N*t.K]
		for n := range t.N {
			sum, magnitude := 0.0, 0.0
			for k, x := range a {
				product := x * b[n*stepN+k*stepK]
				sum += product
				magnitude += math.Abs(product)
			}
			at := row*t.N + n
			want[at], bound[at] = sum, ErrorBound(t, sum, magnitude)+rounding*magnitude
		}
	}
	return want, bound
}
