package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

// remedyFlags select the remedies to search: those that the engine supports.
type remedyFlags struct {
	kinds     []string
	kernels   []string
	pads      string
	predicted string
	fill      bool
	sameBits  bool
	invariant bool
}

func (f *remedyFlags) register(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	kinds := kindNames()
	addFlag(cmd, &f.kinds, "remedies", nil,
		"kinds of remedies: split, pad, pad-n and pad-k (weights), kernel (another kernel), algorithm (of a library) (default all)",
		fixed(kinds...))
	addFlag(cmd, &f.kernels, "engine-kernels", nil, "kernels of your engine, used as remedies (default: libraries and your own)",
		a.completeKernels(a.kernelNames))
	addFlag(cmd, &f.pads, "pads", remedy.PadsInPlace,
		"pads to execute: in-place (needs room behind the rows), copied (includes the copy), both",
		fixed(remedy.PadsInPlace, remedy.PadsCopied, remedy.PadsBoth))
	addFlag(cmd, &f.predicted, "predicted", remedy.CandidatesLikely,
		"predicted remedies to execute: likely (the prediction's bounds allow a gain), all",
		fixed(remedy.CandidatesLikely, remedy.CandidatesAll))
	flags.BoolVar(&f.fill, "fill", false, "also execute sizes between the measured ones, so a table can cover whole stretches of M")
	flags.BoolVar(&f.sameBits, "same-bits", false, "only remedies with bitwise the same result as the direct product")
	flags.BoolVar(&f.invariant, "batch-invariant", false, "only remedies with bitwise the same rows at every M")
}

func kindNames() []string {
	var out []string
	for _, k := range remedy.RemedyKinds() {
		out = append(out, string(k))
	}
	return out
}

// search copies the flags into the options of a search. Defaults stay unset.
func (f *remedyFlags) search(o *remedy.Options) error {
	all := kindNames()
	for _, name := range f.kinds {
		if !slices.Contains(all, name) {
			return usagef("--remedies: %q, expected split, pad, pad-n, pad-k, kernel or algorithm", name)
		}
		if kind := rules.RemedyKind(name); !slices.Contains(o.Kinds, kind) {
			o.Kinds = append(o.Kinds, kind)
		}
	}
	switch {
	case f.pads != remedy.PadsInPlace && f.pads != remedy.PadsCopied && f.pads != remedy.PadsBoth:
		return usagef("--pads: %q, expected in-place, copied or both", f.pads)
	case f.predicted != remedy.CandidatesLikely && f.predicted != remedy.CandidatesAll:
		return usagef("--predicted: %q, expected likely or all", f.predicted)
	case slices.Contains(f.kernels, ""):
		return usagef("--engine-kernels: empty name, expected names as in cublas,cublaslt")
	}
	if len(o.Kinds) == len(all) {
		o.Kinds = nil
	}
	if o.Pads = f.pads; o.Pads == remedy.PadsInPlace {
		o.Pads = ""
	}
	if len(f.kernels) > 0 {
		o.Kernels = slices.Compact(slices.Sorted(slices.Values(f.kernels)))
	}
	o.Candidates, o.Fill, o.SameBits, o.BatchInvariant = f.predicted, f.fill, f.sameBits, f.invariant
	return nil
}

func given(on func(flag string) bool, changes []verdict.SearchChange) []verdict.SearchChange {
	return slices.DeleteFunc(changes, func(c verdict.SearchChange) bool { return !on(c.Flag) })
}

// checkEngineKernels rejects unknown kernels: neither measured nor on this machine, which it queries only if
// necessary.
func checkEngineKernels(names, measured []string, here func() []string) error {
	unknown := func(known []string) int {
		return slices.IndexFunc(names, func(name string) bool {
			base, _ := kernels.SplitCandidate(name)
			return !slices.Contains(known, name) && !slices.Contains(known, base)
		})
	}
	if unknown(measured) < 0 {
		return nil
	}
	known := slices.Clone(measured)
	for _, name := range here() {
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	if i := unknown(known); i >= 0 {
		return usagef("--engine-kernels: unknown kernel %q, expected some of %s", names[i], strings.Join(known, ", "))
	}
	return nil
}

func (a *app) implementations() []string {
	var names []string
	for _, d := range a.registry().Devices() {
		for _, o := range kernels.Operations() {
			for _, k := range d.Kernels(o) {
				if !slices.Contains(names, k.Name()) {
					names = append(names, k.Name())
				}
			}
		}
	}
	return names
}

// measuredKernels returns the kernels of series; a library represents its algorithms too.
func measuredKernels(series []results.SeriesKey) []string {
	var names []string
	for _, key := range series {
		name, _ := kernels.SplitCandidate(key.Kernel)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
