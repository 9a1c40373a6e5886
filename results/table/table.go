// Package table is what an inference engine needs of gemmaudit: lookup tables
// that say, for a product C[M,N] = A[M,K] · B[K,N], whether to run it as it is,
// in parts over M, padded to a larger M, by another kernel, or by another algorithm of a library.
//
// A table holds for the machine, library versions and conditions in its
// [Validators]; whoever loads one compares them first, as `gemmaudit table check`
// does, which also measures every entry again. It consists of series, one
// for each [Product], and of intervals of M within a series.
// Every M outside the intervals gets the series' default action, and every
// product outside the series is run as it is.
//
// An interval covers all M from From to To, ends included. Where a sweep measured
// only every Step-th M, the Ms between two neighbours on that grid are covered
// only when both neighbours carry the same action; the interval then spans both,
// and its Step says how dense the evidence is; where that changes, the Ms between belong to the interval
// that ends at the larger neighbour. Of an interval that is Filled a sample of the Ms
// between was measured as well. An action with sizes in it (the
// leading parts of a split, the M to pad to) applies the same sizes to every M of
// the interval.
//
// The package imports the standard library only.
package table

import (
	"cmp"
	"slices"
)

// Schema is the name and version of the format, in every table. [Parse] reads
// tables of earlier versions as tables of this one; what they do not tell is open.
const Schema = "gemmaudit/table/v4"

// schemaV3 had no algorithms, padded in place only, and told neither results nor what was swept.
const schemaV3 = "gemmaudit/table/v3"

// schemaV2 named no layout of the weights, which was [K,N], and no format of them.
const schemaV2 = "gemmaudit/table/v2"

// schemaV1 had no features among its validators, and the program's version beside
// them.
const schemaV1 = "gemmaudit/table/v1"

// Kind is a way to execute a product.
type Kind string

// The kinds of actions.
const (
	Direct Kind = "direct" // one launch, as it is
	Split  Kind = "split"  // launches over parts of M into one output
	Pad    Kind = "pad"    // one launch with a larger M
	Kernel Kind = "kernel" // one launch of another kernel
	// Algorithm is one launch of a library's algorithm, whatever its heuristic would choose.
	Algorithm Kind = "algorithm"
)

// PadKind says what becomes of the rows of a padded product before it is launched.
type PadKind string

// The kinds of pads.
const (
	// InPlace leaves them where they are: there is room behind them, in the input and in the
	// output, and what lies there is multiplied and thrown away.
	InPlace PadKind = "in-place"
	// Copied has them copied into a buffer with room first. The output is a buffer with room that
	// whoever launches allocates; its first rows are the result, and nothing is copied back. Who
	// has room behind the rows may leave the copy out: the gain is larger then.
	Copied PadKind = "copied"
)

// Attributes are what a library is told to run an algorithm: the numbers of cuBLASLt's
// configuration attributes (cublasLtMatmulAlgoConfigAttributes_t), as they stand. Zeros are none.
type Attributes struct {
	ID        int `json:"id"`
	Tile      int `json:"tile"`
	Stages    int `json:"stages"`
	SplitK    int `json:"split_k"`
	Reduction int `json:"reduction"`
	Swizzle   int `json:"swizzle"`
	Custom    int `json:"custom"`
	Inner     int `json:"inner"`
	Cluster   int `json:"cluster"`
}

// list is the attributes in the order in which generated source has them.
func (a Attributes) list() []int {
	return []int{a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster}
}

// Action is what to do with a product. The zero value runs it as it is.
type Action struct {
	Kind Kind `json:"kind"`
	// First holds the sizes of the leading parts of a split. What remains of M
	// after them is the last part.
	First []int `json:"first,omitempty"`
	// PadTo is the M that is launched instead, with the extra rows thrown away.
	PadTo int `json:"pad_to,omitempty"`
	// Pad says of a padded product whether its rows are copied.
	Pad PadKind `json:"pad,omitempty"`
	// Kernel is the name of the kernel that is launched instead; of an algorithm, the library.
	Kernel string `json:"kernel,omitempty"`
	// Algorithm is that of the library which is launched instead.
	Algorithm Attributes `json:"algorithm,omitzero"`
}

// Parts returns the Ms of the launches that make up a product of m rows, in
// order. Anything but a split that is applicable to m is one launch.
func (a Action) Parts(m int) []int {
	switch a.Kind {
	case Split:
		rest := m
		for _, part := range a.First {
			rest -= part
		}
		if rest > 0 {
			return append(slices.Clone(a.First), rest)
		}
	case Pad:
		if a.PadTo > m {
			return []int{a.PadTo}
		}
	}
	return []int{m}
}

// Equal says whether two actions execute a product in the same way.
func (a Action) Equal(b Action) bool {
	return a.kind() == b.kind() && a.PadTo == b.PadTo && a.Pad == b.Pad && a.Kernel == b.Kernel && a.Algorithm == b.Algorithm && slices.Equal(a.First, b.First)
}

// kind is the Kind, direct for the zero value.
func (a Action) kind() Kind { return cmp.Or(a.Kind, Direct) }

// Proof is the measurement behind an action at one M: the action executed as it
// would be used, interleaved with the direct product.
type Proof struct {
	M        int     `json:"m"`
	DirectUS float64 `json:"direct_us"` // microseconds of the product as it is
	RemedyUS float64 `json:"remedy_us"` // microseconds of the action, all launches
	// GainLo, GainMid and GainHi are direct ÷ remedy with confidence bounds.
	GainLo  float64 `json:"gain_lo"`
	GainMid float64 `json:"gain_mid"`
	GainHi  float64 `json:"gain_hi"`
	// Numerics is what the action does to the result; nil where nobody looked.
	Numerics *Numerics `json:"numerics,omitempty"`
}

// Numerics is the result of an action beside that of the direct product, of rows that are spread
// over the product.
type Numerics struct {
	// DirectError and RemedyError are the errors against a product in float64: the root of their
	// mean square as a share of that of the exact elements.
	DirectError float64 `json:"direct_error"`
	RemedyError float64 `json:"remedy_error"`
	// SameBits says that the action gives every element of the rows the bits of the direct product.
	SameBits bool `json:"same_bits"`
	// BatchInvariant says that a row has the same bits at OtherMs, computed by the action there,
	// DirectBatchInvariant that it has by the direct product.
	BatchInvariant       bool  `json:"batch_invariant"`
	DirectBatchInvariant bool  `json:"direct_batch_invariant"`
	OtherMs              []int `json:"other_ms,omitempty"`
	// Rows is how many rows were compared, Columns of how many columns there is an exact result.
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
}

// Interval is a range of M with one action.
type Interval struct {
	From int `json:"from"` // the first M
	To   int `json:"to"`   // the last M, included
	// Step is the distance of the Ms that were measured, counted back from To; 0 and 1 mean each. From is one of them,
	// or the M right behind that at which the interval before ends.
	Step int `json:"step,omitempty"`
	// Filled says that both ends, and a sample of the Ms between those that were swept, were measured
	// and paid: the action holds for every M.
	Filled bool    `json:"filled,omitempty"`
	Action Action  `json:"action"`
	Proofs []Proof `json:"proofs,omitempty"` // ascending in M
}

// FirstMeasured is the first M of the interval that was measured, by its Step.
func (iv Interval) FirstMeasured() int {
	return iv.From + (iv.To-iv.From)%max(1, iv.Step)
}

// Product is what a series serves, for every M: C[M,N] = A[M,K] · B by a kernel.
type Product struct {
	Kernel string `json:"kernel"` // that would run it
	DType  string `json:"dtype"`  // of A
	// Weights is the format of B, empty where its elements are of DType.
	Weights string `json:"weights,omitempty"`
	// Layout is how B is stored: "kn" for [K,N] as torch.mm gets it, "nk" for [N,K] as a
	// linear layer stores its weight. What holds for one does not hold for the other.
	Layout string `json:"layout"`
	N      int    `json:"n"`
	K      int    `json:"k"`
}

// The layouts.
const (
	KN = "kn"
	NK = "nk"
)

// Series is the actions for one product.
type Series struct {
	Product
	// FromM and ToM are the first and the last M that were swept; 0 where the table does not tell.
	FromM int `json:"from_m,omitempty"`
	ToM   int `json:"to_m,omitempty"`
	// Served is how many of all integers of that range lie in an interval whose action is not the
	// default.
	Served int `json:"served,omitempty"`
	// Default is for every M outside the intervals.
	Default   Action     `json:"default"`
	Intervals []Interval `json:"intervals"` // ascending and disjoint
}

// Validators are the conditions under which a table was measured, in words
// that are compared as they stand. Empty means unknown.
type Validators struct {
	Device    string            `json:"device"`
	Driver    string            `json:"driver,omitempty"`
	Libraries map[string]string `json:"libraries,omitempty"` // name to version
	Kernel    string            `json:"kernel,omitempty"`    // of the operating system
	Regime    string            `json:"regime,omitempty"`
	// ClockPolicy is how clocks were governed: a governor, a lock, a power limit.
	ClockPolicy string `json:"clock_policy,omitempty"`
	Arch        string `json:"arch,omitempty"`
	CPUModel    string `json:"cpu_model,omitempty"`
	// Features are the device's instruction sets, in any order: with other ones a
	// kernel of the same name is another kernel.
	Features []string `json:"features,omitempty"`
	// Gemmaudit is the version of the program, whose own kernels change with it.
	Gemmaudit string `json:"gemmaudit,omitempty"`
	// Cores are the device's cores (multiprocessors); Threads is how many CPU
	// threads a launch used, 0 for all of them.
	Cores   int `json:"cores,omitempty"`
	Threads int `json:"threads,omitempty"`
}

// Table is a lookup table with the conditions under which it holds.
type Table struct {
	Schema     string     `json:"schema"`
	Created    string     `json:"created"` // RFC 3339
	Validators Validators `json:"validators"`
	// Series is ascending in their products, each once.
	Series []Series `json:"series"`
}

// Compare orders products by their fields, in the order in which they stand.
func (p Product) Compare(o Product) int {
	if c := cmp.Compare(p.Kernel, o.Kernel); c != 0 {
		return c
	}
	if c := cmp.Compare(p.DType, o.DType); c != 0 {
		return c
	}
	if c := cmp.Compare(p.Weights, o.Weights); c != 0 {
		return c
	}
	if c := cmp.Compare(p.Layout, o.Layout); c != 0 {
		return c
	}
	if c := cmp.Compare(p.N, o.N); c != 0 {
		return c
	}
	return cmp.Compare(p.K, o.K)
}

// Sort brings series and their intervals into the order that [Table.Lookup]
// relies on and [Table.Validate] demands.
func (t *Table) Sort() {
	slices.SortStableFunc(t.Series, func(a, b Series) int { return a.Compare(b.Product) })
	for i := range t.Series {
		slices.SortStableFunc(t.Series[i].Intervals, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	}
}

// Lookup returns the action for a product of m rows: that of the interval in
// which m lies, else the series' default, else (no such series) the direct
// product. The table must be valid. Lookup allocates nothing; the result shares
// its First with the table.
func (t *Table) Lookup(p Product, m int) Action {
	lo, hi := 0, len(t.Series)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := t.Series[mid].Compare(p); {
		case c == 0:
			return t.Series[mid].Lookup(m)
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return Action{Kind: Direct}
}

// Lookup returns the action for a product of m rows, the default outside every
// interval.
func (s *Series) Lookup(m int) Action {
	lo, hi := 0, len(s.Intervals)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.Intervals[mid].To < m {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	a := s.Default
	if lo < len(s.Intervals) && s.Intervals[lo].From <= m {
		a = s.Intervals[lo].Action
	}
	a.Kind = a.kind()
	return a
}

// Served is how many of all Ms that were swept over, between the first and the last of each series,
// have an action other than its default; of is how many there are.
func (t *Table) Served() (served, of int) {
	for i := range t.Series {
		if s := &t.Series[i]; s.ToM > 0 {
			served, of = served+s.Served, of+s.ToM-s.FromM+1
		}
	}
	return served, of
}

// Recount brings what each series says that it serves in step with its intervals.
func (t *Table) Recount() {
	for i := range t.Series {
		if s := &t.Series[i]; s.ToM > 0 {
			s.Served = s.Count()
		}
	}
}

// Count is how many integers lie in intervals whose action is not the default.
func (s *Series) Count() int {
	n := 0
	for _, iv := range s.Intervals {
		if !iv.Action.Equal(s.Default) {
			n += iv.To - iv.From + 1
		}
	}
	return n
}
