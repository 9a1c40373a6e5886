package sweep

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// memoryShare is the part of free memory for weights. The rest is for A and C, library workspaces, and the
// system.
const memoryShare = 0.6

func freeMemory(d kernels.Device) int64 {
	if free, known := kernels.FreeMemory(d); known {
		return free
	}
	return 4 << 30 // a modest guess for devices that report nothing
}

// matrixKey identifies a weight matrix, or its equivalent in an operation without weights. Kernels share its
// copies.
type matrixKey struct {
	kernels.Subject
	extent int // see [kernels.Subject.Extent]
}

func matrixOf(c results.Case) matrixKey {
	return matrixKey{c.Stores(), c.Extent(int(rows(c)))}
}

func compareKeys(a, b matrixKey) int {
	return cmp.Or(a.Compare(b.Subject), cmp.Compare(a.extent, b.extent))
}

func (k matrixKey) String() string {
	if k.extent > 0 {
		return fmt.Sprintf("%v up to m%d", k.Subject, k.extent)
	}
	return k.Subject.String()
}

func (k matrixKey) bytes() int64 { return k.Stored(max(1, k.extent)) }

func (k matrixKey) fill(raw kernels.Buffer, dist kernels.Distribution, seed uint64) error {
	return kernels.FillWeights(raw, k.Subject, max(1, k.extent), dist, seed)
}

// formBytes is the maximum size of a kernel's form of one copy, without [packedMargin]; quantized weights may
// be dequantized.
func (k matrixKey) formBytes() int64 {
	plain := k.Subject
	plain.Weights = kernels.WeightFormat{}
	return max(k.bytes(), plain.Stored(max(1, k.extent)))
}

type formKey struct {
	matrixKey
	kernel     string
	threads    int
	packInside bool
}

func formOf(c results.Case) formKey {
	return formKey{matrixOf(c), c.Kernel, c.Threads, c.PackInside}
}

type demand struct {
	key    matrixKey
	forms  []formKey
	copies int
}

const packedMargin = 1.06

// bytes is the memory of all copies in all forms. Which kernels pack is known only later, so it assumes all.
func (d demand) bytes(copies int) int64 {
	raw, form := float64(d.key.bytes()), float64(d.key.formBytes())
	return int64(float64(copies) * (raw + packedMargin*form*float64(len(d.forms))))
}

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

// LeastMemory returns the minimum bytes to measure a case, and the free bytes. The minimum is two copies of
// the weights, raw and packed, plus A and C. The case must be within [MaxDimension].
func LeastMemory(d kernels.Device, c results.Case) (need, free int64) {
	weights := demand{key: matrixOf(c), forms: []formKey{formOf(c)}}
	copies := min(2, rotated(c, d.Spec().LastLevelCacheBytes))
	need = weights.bytes(copies) + inputBytes(c) + outputBytes(c) + besideBytes(c)
	return need, freeMemory(d)
}

// fit reduces the copies of matrices that alone exceed the budget, with a note for each.
func fit(ds []demand, budget int64) []string {
	var notes []string
	for i := range ds {
		d := &ds[i]
		want := d.copies
		for d.copies > 2 && d.bytes(d.copies) > budget {
			d.copies--
		}
		if d.copies < want {
			notes = append(notes,
				fmt.Sprintf("weights %v rotate over %d copies instead of %d: memory holds no more", d.key, d.copies, want))
		}
	}
	return notes
}

// groups assigns matrices to sets that fit the budget, first fit in order.
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
