package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/rules"
)

// remedyFlags say which remedies are sought: what the engine has and can do.
type remedyFlags struct {
	kinds     []string
	kernels   []string
	pads      string
	predicted string
	fill      bool
	sameBits  bool
	invariant bool
}

// remedyFlagNames are those of remedyFlags.
var remedyFlagNames = []string{"remedies", "engine-kernels", "pads", "predicted", "fill", "same-bits", "batch-invariant"}

func (f *remedyFlags) register(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	kinds := kindNames()
	flags.StringSliceVar(&f.kinds, "remedies", nil, "kinds of remedies to search: split, pad, kernel (another one), algorithm (another one of a library) (default all)")
	flags.StringSliceVar(&f.kernels, "engine-kernels", nil, "kernels and libraries that the engine has; others are neither searched nor remedies (default all)")
	flags.StringVar(&f.pads, "pads", rules.PadsInPlace, "pads to execute: in-place (room behind the rows), copied (rows are copied first, and timed so), both")
	flags.StringVar(&f.predicted, "predicted", rules.CandidatesLikely, "predicted remedies to execute: likely (by the bounds of the prediction) or all")
	flags.BoolVar(&f.fill, "fill", false, "execute a sample of the Ms between those swept: a table then holds for all of a stretch, or for the swept ones")
	flags.BoolVar(&f.sameBits, "same-bits", false, "only remedies whose result has the bits of the direct product")
	flags.BoolVar(&f.invariant, "batch-invariant", false, "only remedies under which a row has the same bits at other Ms")
	complete(cmd, "remedies", fixed(kinds...))
	complete(cmd, "engine-kernels", a.completeKernels(a.kernelNames))
	complete(cmd, "pads", fixed(rules.PadsInPlace, rules.PadsCopied, rules.PadsBoth))
	complete(cmd, "predicted", fixed(rules.CandidatesLikely, rules.CandidatesAll))
}

func kindNames() []string {
	var out []string
	for _, k := range rules.RemedyKinds() {
		out = append(out, string(k))
	}
	return out
}

// search writes the flags into the options of a search. What is left at its default stays open.
func (f *remedyFlags) search(o *rules.SplitOptions) error {
	all := kindNames()
	for _, name := range f.kinds {
		if !slices.Contains(all, name) {
			return usagef("--remedies: %q, expected split, pad, kernel or algorithm", name)
		}
		if kind := rules.RemedyKind(name); !slices.Contains(o.Kinds, kind) {
			o.Kinds = append(o.Kinds, kind)
		}
	}
	switch {
	case f.pads != rules.PadsInPlace && f.pads != rules.PadsCopied && f.pads != rules.PadsBoth:
		return usagef("--pads: %q, expected in-place, copied or both", f.pads)
	case f.predicted != rules.CandidatesLikely && f.predicted != rules.CandidatesAll:
		return usagef("--predicted: %q, expected likely or all", f.predicted)
	case slices.Contains(f.kernels, ""):
		return usagef("--engine-kernels: a name is empty, expected names as in cublas,cublaslt")
	}
	if len(o.Kinds) == len(all) {
		o.Kinds = nil
	}
	if o.Pads = f.pads; o.Pads == rules.PadsInPlace {
		o.Pads = ""
	}
	o.Candidates, o.Kernels, o.Fill, o.SameBits, o.BatchInvariant = f.predicted, f.kernels, f.fill, f.sameBits, f.invariant
	return nil
}

// differs names the first of the given flags that asks for another search than the one that was
// executed; empty for none.
func (f *remedyFlags) differs(given func(string) bool, is, was rules.SplitOptions) string {
	for _, c := range []struct {
		flag  string
		other bool
	}{
		{"remedies", !sameKinds(is.Kinds, was.Kinds)},
		{"engine-kernels", !slices.Equal(is.Kernels, was.Kernels)},
		{"pads", is.Pads != was.Pads},
		{"predicted", is.Candidates != "" && was.Candidates != "" && is.Candidates != was.Candidates || is.Candidates == rules.CandidatesAll && was.Candidates == ""},
		{"fill", is.Fill != was.Fill},
		{"same-bits", is.SameBits != was.SameBits},
		{"batch-invariant", is.BatchInvariant != was.BatchInvariant},
	} {
		if given(c.flag) && c.other {
			return c.flag
		}
	}
	return ""
}

// sameKinds compares kinds of remedies in any order.
func sameKinds(a, b []rules.RemedyKind) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
