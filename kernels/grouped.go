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
// launches read the weights of groups with rows only.
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
		Held:   func(s Subject) float64 { return float64(s.Groups) * s.weightBits() },
		Ladder: gemmLadder,
		// More rows are at least as many of each group, drawn ones those of further tokens. Recorded ones may be any.
		Pads: func(s Subject) bool { return s.OverM() && s.Routing == 0 },
	}
}

// activeWeights returns the bits that a launch reads.
func activeWeights(s Subject, m float64) float64 {
	return float64(s.ActiveGroups(int(m))) * s.weightBits()
}

// normalizeGrouped checks a task's sizes. Operands are contiguous.
func normalizeGrouped(t Task) (Task, error) {
	if err := t.checkContiguous("grouped"); err != nil {
		return t, err
	}
	_, err := t.GroupRows(t.M)
	return t, err
}

// checkContiguous checks the sizes of a product of plain, contiguous operands; kind is grouped or fused.
func (t Task) checkContiguous(kind string) error {
	switch err := t.Shape().Validate(); {
	case err != nil:
		return err
	case t.Quantized():
		return fmt.Errorf("%v: %s products have plain weights", t, kind)
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
			of := Task{Subject: Product(t.DType, t.N, t.K).In(t.Layout), M: m, Threads: t.Threads, PackInside: t.PackInside}
			parts = append(parts, GroupedPart{Task: of, Group: group, Row: row})
		}
		row += m
	}
	return parts, nil
}

// Grouped returns the normalized task if it is a grouped product that a kernel may compute, otherwise the reason as an
// [*Unsupported].
func (t Task) Grouped(kernel string) (Task, error) {
	if t.Operation != GroupedGEMM {
		return t, t.Unsupported(kernel, "it computes grouped products")
	}
	return t.Supported(kernel, 0)
}

// groupedReference is a task's output and [ErrorBound].
func groupedReference(t Task, in, stored []float64) (want, bound []float64) {
	return groupedProducts(t, in, stored, t.groupOfRows())
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

// groupedProducts multiplies each row with the weights of its group.
func groupedProducts(t Task, in, stored []float64, groups []int) (want, bound []float64) {
	want, bound = make([]float64, t.M*t.N), make([]float64, t.M*t.N)
	stepN, stepK := 1, t.N
	if t.Layout == Transposed {
		stepN, stepK = t.K, 1
	}
	for row, group := range groups {
		a, b := in[row*t.K:][:t.K], stored[group*t.N*t.K:][:t.N*t.K]
		for n := range t.N {
			sum, magnitude := 0.0, 0.0
			for k, x := range a {
				product := x * b[n*stepN+k*stepK]
				sum += product
				magnitude += math.Abs(product)
			}
			at := row*t.N + n
			want[at], bound[at] = sum, ErrorBound(t, sum, magnitude)
		}
	}
	return want, bound
}

// checkedSizes are rows of groups around the sizes of tiles, with idle groups at both ends and in between.
var checkedSizes = []int{0, 1, 15, 16, 17, 0, 0, 63, 64, 65, 2, 127, 128, 129, 33, 0}

// groupedCases are routings of every kind: idle groups, one row, all rows in one group, more groups than rows.
func groupedCases(dt DType) []Task {
	at := func(m int, d Dims) Task { return Task{Subject: Subject{DType: dt, Dims: d, Layout: Transposed}, M: m} }
	table := RecordedRouting{Groups: len(checkedSizes), Rows: map[int][]int{}}
	sum := 0
	for _, rows := range checkedSizes {
		sum += rows
	}
	table.Rows[sum] = checkedSizes
	one := make([]int, len(checkedSizes))
	one[9] = 70
	table.Rows[70] = one
	hash, err := table.Register()
	if err != nil {
		return nil
	}
	out := []Task{
		at(1, Dims{N: 1, K: 1, Groups: 1}),
		at(1, Dims{N: 48, K: 64, Groups: 4}),
		at(5, Dims{N: 80, K: 96, Groups: 16}),
		at(67, Dims{N: 33, K: 35, Groups: 4}),
		at(96, Dims{N: 128, K: 256, Groups: 8, TopK: 2, Skew: 100, Draw: 1}),
		at(41, Dims{N: 64, K: 128, Groups: 32, TopK: 4, Draw: 7}),
		at(sum, Dims{N: 96, K: 136, Groups: len(checkedSizes), Routing: hash}),
		at(70, Dims{N: 72, K: 64, Groups: len(checkedSizes), Routing: hash}),
	}
	rows := at(40, Dims{N: 40, K: 56, Groups: 3, TopK: 1, Skew: MaxSkew, Draw: 3})
	rows.Layout = RowMajor
	return append(out, rows)
}

// groupedFaults are what schedulers over groups get wrong.
var groupedFaults = []Fault{
	{Name: "the first row of a group has the weights of the group before it", Compute: misrouted(func(groups []int) {
		for row := len(groups) - 1; row > 0; row-- {
			if groups[row] != groups[row-1] {
				groups[row] = groups[row-1]
			}
		}
	})},
	{Name: "the last row of a group has the weights of the next", Compute: misrouted(func(groups []int) {
		for row := range len(groups) - 1 {
			if groups[row] != groups[row+1] {
				groups[row] = groups[row+1]
			}
		}
	})},
	{Name: "an idle group is not skipped", Compute: func(t Task, in, stored []float64) []float64 {
		rows, _ := t.GroupRows(t.M)
		return misrouted(func(groups []int) {
			for row, group := range groups {
				if group > 0 && rows[group-1] == 0 {
					groups[row] = group - 1
				}
			}
		})(t, in, stored)
	}},
	{Name: "the last row of a group is left out", Inject: func(t Task, out []float64) {
		parts, _ := t.GroupedParts()
		for _, p := range parts {
			clear(out[(p.Row+p.M-1)*t.N:][:t.N])
		}
	}},
	{Name: "the weights of the first group serve all", Compute: misrouted(func(groups []int) { clear(groups) })},
}

// misrouted computes with other groups of the rows.
func misrouted(change func(groups []int)) func(t Task, in, stored []float64) []float64 {
	return func(t Task, in, stored []float64) []float64 {
		groups := t.groupOfRows()
		change(groups)
		out, _ := groupedProducts(t, in, stored, groups)
		return out
	}
}
