// Package table defines lookup tables for inference engines. For a product C[M,N] = A[M,K] · B[K,N] a table
// says whether to run it unchanged, split over M, padded to a larger M, with another kernel, or with another
// algorithm of a library.
//
// A table is valid for the machine, library versions and conditions in its [Validators]. Compare them before
// use, like `gemmaudit table check`, which also measures every entry again. A table consists of series, one
// for each [Product], with intervals of M. Every M outside the intervals has the series' default action, and
// products without a series run unchanged.
//
// An interval covers all M from From to To inclusive. If only every Step-th M was measured, the Ms between
// two neighbors are covered only if both have the same action; the interval's Step gives the density. Where
// Step changes, the Ms between belong to the interval that ends at the larger neighbor. In a Filled interval
// a sample of the Ms between was also measured. An action's sizes (leading parts of a split, padded M) apply
// to every M of the interval.
//
// The package imports only the standard library.
package table

import (
	"cmp"
	"slices"
)

// Schema is the format's name and version, stored in every table. [Parse] converts earlier versions; unknown
// values stay empty.
const Schema = "gemmaudit/table/v4"

// schemaV3 had no algorithms, only in-place padding, and neither numerics nor swept ranges.
const schemaV3 = "gemmaudit/table/v3"

// schemaV2 had no layout of the weights, which was [K,N], and no weight format.
const schemaV2 = "gemmaudit/table/v2"

// schemaV1 had no features among its validators, and the program's version next to them.
const schemaV1 = "gemmaudit/table/v1"

// Kind is a way to execute a product.
type Kind string

// The kinds of actions.
const (
	Direct Kind = "direct" // one unchanged launch
	Split  Kind = "split"  // launches over parts of M into one output
	Pad    Kind = "pad"    // one launch with a larger M
	Kernel Kind = "kernel" // one launch of another kernel
	// Algorithm is one launch of a library's algorithm, regardless of its heuristic.
	Algorithm Kind = "algorithm"
)

// PadKind is how a padded product's rows get room.
type PadKind string

// The kinds of pads.
const (
	// InPlace uses existing room after the rows, in input and output; its contents are multiplied and
	// discarded.
	InPlace PadKind = "in-place"
	// Copied first copies the rows to a buffer with room. The caller allocates an output with room; its first
	// rows are the result, without copying back. If the rows already have room, skip the copy for a larger
	// gain.
	Copied PadKind = "copied"
)

// Attributes select a library's algorithm: cuBLASLt's configuration attributes
// (cublasLtMatmulAlgoConfigAttributes_t). All zeros mean none.
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

// list returns the attributes in the order of generated source.
func (a Attributes) list() []int {
	return []int{a.ID, a.Tile, a.Stages, a.SplitK, a.Reduction, a.Swizzle, a.Custom, a.Inner, a.Cluster}
}

// Action is how to run a product. The zero value runs it unchanged.
type Action struct {
	Kind Kind `json:"kind"`
	// First holds the sizes of a split's leading parts. The rest of M is the last part.
	First []int `json:"first,omitempty"`
	// PadTo is the launched M; extra rows are discarded.
	PadTo int `json:"pad_to,omitempty"`
	// Pad says whether a padded product's rows are copied.
	Pad PadKind `json:"pad,omitempty"`
	// Kernel is the replacement kernel's name, or an algorithm's library.
	Kernel string `json:"kernel,omitempty"`
	// Algorithm is the library's algorithm to launch.
	Algorithm Attributes `json:"algorithm,omitzero"`
}

// Parts returns the Ms of the launches for a product of m rows, in order. Without a split applicable to m
// there is one launch.
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

// Equal reports whether two actions execute a product in the same way.
func (a Action) Equal(b Action) bool {
	return a.kind() == b.kind() && a.PadTo == b.PadTo && a.Pad == b.Pad && a.Kernel == b.Kernel && a.Algorithm == b.Algorithm &&
		slices.Equal(a.First, b.First)
}

func (a Action) kind() Kind { return cmp.Or(a.Kind, Direct) }

// Proof is the measurement of an action at one M, executed as in use and interleaved with the direct product.
type Proof struct {
	M        int     `json:"m"`
	DirectUS float64 `json:"direct_us"` // microseconds of the direct product
	RemedyUS float64 `json:"remedy_us"` // microseconds of the action, all launches
	// GainLo, GainMid and GainHi are direct ÷ remedy with confidence bounds.
	GainLo  float64 `json:"gain_lo"`
	GainMid float64 `json:"gain_mid"`
	GainHi  float64 `json:"gain_hi"`
	// Numerics is the action's effect on the result; nil if not tested.
	Numerics *Numerics `json:"numerics,omitempty"`
}

// Numerics compares an action's result with the direct product's, in rows spread over the product.
type Numerics struct {
	// DirectError and RemedyError are root-mean-square errors relative to a float64 product, divided by its
	// root mean square.
	DirectError float64 `json:"direct_error"`
	RemedyError float64 `json:"remedy_error"`
	// SameBits means that all compared elements equal the direct product's bit for bit.
	SameBits bool `json:"same_bits"`
	// BatchInvariant means that the action gives a row the same bits at all OtherMs; DirectBatchInvariant is
	// the same for the direct product.
	BatchInvariant       bool  `json:"batch_invariant"`
	DirectBatchInvariant bool  `json:"direct_batch_invariant"`
	OtherMs              []int `json:"other_ms,omitempty"`
	// Rows is the number of compared rows, Columns the number of columns with an exact result.
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
}

// Interval is a range of M with one action.
type Interval struct {
	From int `json:"from"` // the first M
	To   int `json:"to"`   // the last M, inclusive
	// Step is the distance of the measured Ms, counted back from To; 0 and 1 mean every M. From is measured
	// or directly follows the previous interval.
	Step int `json:"step,omitempty"`
	// Filled means that the ends, and a sample of the unswept Ms between, were measured and paid: the action
	// is valid for every M.
	Filled bool    `json:"filled,omitempty"`
	Action Action  `json:"action"`
	Proofs []Proof `json:"proofs,omitempty"` // ascending in M
}

// FirstMeasured returns the first measured M of the interval, by its Step.
func (iv Interval) FirstMeasured() int {
	return iv.From + (iv.To-iv.From)%max(1, iv.Step)
}

// Product identifies a series: C[M,N] = A[M,K] · B with a kernel, for every M.
type Product struct {
	Kernel string `json:"kernel"` // the kernel that would run it
	DType  string `json:"dtype"`  // of A
	// Weights is the format of quantized B, empty otherwise.
	Weights string `json:"weights,omitempty"`
	// Layout is the storage of B: "kn" for [K,N] as in torch.mm, "nk" for [N,K] as in linear layers. Results
	// do not transfer between layouts.
	Layout string `json:"layout"`
	N      int    `json:"n"`
	K      int    `json:"k"`
	// Epilogue is what the kernel does with the product in the same launch, such as "bias+gelu"; empty for nothing. Readers of
	// before December 2026 refuse a table that has one.
	Epilogue string `json:"epilogue,omitempty"`
}

// The layouts.
const (
	KN = "kn"
	NK = "nk"
)

// Series is the actions for one product.
type Series struct {
	Product
	// FromM and ToM are the first and last swept M; 0 if unknown.
	FromM int `json:"from_m,omitempty"`
	ToM   int `json:"to_m,omitempty"`
	// Served is the number of integers in that range with a non-default action.
	Served int `json:"served,omitempty"`
	// Default is for every M outside the intervals.
	Default   Action     `json:"default"`
	Intervals []Interval `json:"intervals"` // ascending and disjoint
}

// Validators are a table's measurement conditions, compared as text. Empty means unknown.
type Validators struct {
	Device    string            `json:"device"`
	Driver    string            `json:"driver,omitempty"`
	Libraries map[string]string `json:"libraries,omitempty"` // name to version
	Kernel    string            `json:"kernel,omitempty"`    // of the operating system
	Regime    string            `json:"regime,omitempty"`
	// ClockPolicy is how clocks were controlled: a governor, a lock, a power limit.
	ClockPolicy string `json:"clock_policy,omitempty"`
	Arch        string `json:"arch,omitempty"`
	CPUModel    string `json:"cpu_model,omitempty"`
	// Features are the device's instruction sets, in any order: they change which code a kernel runs.
	Features []string `json:"features,omitempty"`
	// Gemmaudit is the program's version, which determines its own kernels.
	Gemmaudit string `json:"gemmaudit,omitempty"`
	// Cores is the number of the device's cores (multiprocessors); Threads is the number of CPU threads per
	// launch, 0 for all.
	Cores   int `json:"cores,omitempty"`
	Threads int `json:"threads,omitempty"`
}

// Table is a lookup table with its conditions.
type Table struct {
	Schema     string     `json:"schema"`
	Created    string     `json:"created"` // RFC 3339
	Validators Validators `json:"validators"`
	// Series is sorted by distinct product.
	Series []Series `json:"series"`
	// Advice is sorted by product, then M. Readers of before December 2026 refuse a table that has any.
	Advice []Advice `json:"advice,omitempty"`
}

// Compare orders products by their fields in sequence.
func (p Product) Compare(o Product) int {
	return cmp.Or(cmp.Compare(p.Kernel, o.Kernel), cmp.Compare(p.DType, o.DType), cmp.Compare(p.Weights, o.Weights),
		cmp.Compare(p.Layout, o.Layout), cmp.Compare(p.N, o.N), cmp.Compare(p.K, o.K),
		cmp.Compare(p.Epilogue, o.Epilogue))
}

// Sort sorts series and intervals as [Table.Lookup] and [Table.Validate] require.
func (t *Table) Sort() {
	slices.SortStableFunc(t.Series, func(a, b Series) int { return a.Compare(b.Product) })
	for i := range t.Series {
		slices.SortStableFunc(t.Series[i].Intervals, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	}
}

// Lookup returns the action for a product of m rows: its interval's, the series' default, or without a series
// Direct. The table must be valid. Lookup does not allocate; the result shares First with the table.
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

// Lookup returns the action for a product of m rows, the default outside intervals.
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

// Served returns how many Ms in all swept ranges have a non-default action, and the number of Ms in them.
func (t *Table) Served() (served, of int) {
	for i := range t.Series {
		if s := &t.Series[i]; s.ToM > 0 {
			served, of = served+s.Served, of+s.ToM-s.FromM+1
		}
	}
	return served, of
}

// Recount updates each series' Served from its intervals.
func (t *Table) Recount() {
	for i := range t.Series {
		if s := &t.Series[i]; s.ToM > 0 {
			s.Served = s.Count()
		}
	}
}

// Count returns the number of integers in intervals with a non-default action.
func (s *Series) Count() int {
	n := 0
	for _, iv := range s.Intervals {
		if !iv.Action.Equal(s.Default) {
			n += iv.To - iv.From + 1
		}
	}
	return n
}
