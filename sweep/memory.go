package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// memoryShare is the part of a device's free memory that weights may take. The
// rest is for A and C, for what libraries allocate, and for the system.
const memoryShare = 0.6

// freeMemory is what a device has left, as well as it can be known.
func freeMemory(d kernels.Device) int64 {
	if free, known := kernels.FreeMemory(d); known {
		return free
	}
	return 4 << 30 // a device that tells nothing gets a modest share
}

// matrixKey is a weight matrix, or what takes its place in an operation without weights:
// kernels share its copies.
type matrixKey struct {
	kernels.Subject
	extent int // see [kernels.Subject.Extent]
}

func matrixOf(c results.Case) matrixKey {
	return matrixKey{c.Subject, c.Extent(int(rows(c)))}
}

// compareKeys orders weight matrices.
func compareKeys(a, b matrixKey) int {
	return cmp.Or(a.Compare(b.Subject), cmp.Compare(a.extent, b.extent))
}

func (k matrixKey) String() string {
	if k.extent > 0 {
		return fmt.Sprintf("%v up to m%d", k.Subject, k.extent)
	}
	return k.Subject.String()
}

// bytes is the size of one copy.
func (k matrixKey) bytes() int64 { return k.Stored(max(1, k.extent)) }

// fill gives one copy its content.
func (k matrixKey) fill(raw kernels.Buffer, dist kernels.Distribution, seed uint64) error {
	return kernels.FillWeights(raw, k.Subject, max(1, k.extent), dist, seed)
}

// formBytes is what a kernel's form of one copy takes at most, but for [packedMargin]: that of
// quantised weights may be the plain elements that they stand for.
func (k matrixKey) formBytes() int64 {
	plain := k.Subject
	plain.Weights = kernels.WeightFormat{}
	return max(k.bytes(), plain.Stored(max(1, k.extent)))
}

// formKey is a form of a weight matrix: what one kernel makes of it.
type formKey struct {
	matrixKey
	kernel     string
	threads    int
	packInside bool
}

func formOf(c results.Case) formKey {
	return formKey{matrixOf(c), c.Kernel, c.Threads, c.PackInside}
}

// demand is what the weights of one matrix ask of memory.
type demand struct {
	key    matrixKey
	forms  []formKey
	copies int
}

// packedMargin is what packing adds to a matrix, by padding to whole panels.
const packedMargin = 1.06

// bytes is the memory of all copies in all forms. Every kernel is taken to hold
// a packed copy, since which ones don't is known only afterwards.
func (d demand) bytes(copies int) int64 {
	raw, form := float64(d.key.bytes()), float64(d.key.formBytes())
	return int64(float64(copies) * (raw + packedMargin*form*float64(len(d.forms))))
}

// demands lists the weight matrices of cases in order of first use.
func demands(cases []results.Case, llc int64) []demand {
	var out []demand
	at := map[matrixKey]int{}
	for _, c := range cases {
		key := matrixOf(c)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, demand{key: key})
		}
		d := &out[i]
		d.copies = max(d.copies, rotated(c, llc))
		if f := formOf(c); !slices.Contains(d.forms, f) {
			d.forms = append(d.forms, f)
		}
	}
	return out
}

// LeastMemory is what measuring a case takes on a device at the least, in bytes,
// and what the device has for it: two copies of the weights, raw and packed, that
// take turns, and A and C. The case is one that [MaxDimension] allows.
func LeastMemory(d kernels.Device, c results.Case) (need, free int64) {
	weights := demand{key: matrixOf(c), forms: []formKey{formOf(c)}}
	copies := min(2, rotated(c, d.Spec().LastLevelCacheBytes))
	need = weights.bytes(copies) + inputBytes(c) + outputBytes(c)
	return need, freeMemory(d)
}

// fit reduces the copies of matrices that don't fit the budget on their own, and
// returns a note for each.
func fit(ds []demand, budget int64) []string {
	var notes []string
	for i := range ds {
		d := &ds[i]
		want := d.copies
		for d.copies > 2 && d.bytes(d.copies) > budget {
			d.copies--
		}
		if d.copies < want {
			notes = append(notes, fmt.Sprintf("weights %v rotate over %d copies instead of %d: memory holds no more", d.key, d.copies, want))
		}
	}
	return notes
}

// groups deals matrices to sets that fit the budget together, first fit in
// order. Each demand gets the number of its set.
func groups(ds []demand, budget int64) (of map[matrixKey]int, count int) {
	of = map[matrixKey]int{}
	var used []int64
	for _, d := range ds {
		need := d.bytes(d.copies)
		g := slices.IndexFunc(used, func(u int64) bool { return u+need <= budget })
		if g < 0 {
			g = len(used)
			used = append(used, 0)
		}
		used[g] += need
		of[d.key] = g
	}
	return of, len(used)
}
