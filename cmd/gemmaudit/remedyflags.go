package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
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
	if len(f.kernels) > 0 {
		o.Kernels = slices.Compact(slices.Sorted(slices.Values(f.kernels)))
	}
	o.Candidates, o.Fill, o.SameBits, o.BatchInvariant = f.predicted, f.fill, f.sameBits, f.invariant
	return nil
}

// searchSetting is what one flag of a search says.
type searchSetting struct{ flag, value string }

// searchSettings are all that tells one search of remedies from another, as their flags have it.
func searchSettings(o rules.SplitOptions) []searchSetting {
	onOff := map[bool]string{false: "off", true: "on"}
	rulesOr := func(v float64) string {
		if v == 0 {
			return "by the rules"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	kinds := make([]string, len(o.Kinds))
	for i, k := range o.Kinds {
		kinds[i] = string(k)
	}
	return []searchSetting{
		{"among", cmp.Or(o.Among, rules.AmongFlagged)},
		{"ratio", rulesOr(o.Ratio)},
		{"max-parts", rulesOr(float64(o.MaxParts))},
		{"remedies", namesOrAll(kinds)},
		{"engine-kernels", namesOrAll(o.Kernels)},
		{"pads", cmp.Or(o.Pads, rules.PadsInPlace)},
		{"predicted", cmp.Or(o.Candidates, rules.CandidatesLikely)},
		{"fill", onOff[o.Fill]},
		{"same-bits", onOff[o.SameBits]},
		{"batch-invariant", onOff[o.BatchInvariant]},
	}
}

// namesOrAll joins names, whose order and number mean nothing.
func namesOrAll(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}

// searchChange is a flag by which two searches differ.
type searchChange struct{ flag, was, is string }

// String words it: "--pads was in-place and is copied".
func (c searchChange) String() string {
	return fmt.Sprintf("--%s was %s and is %s", c.flag, c.was, c.is)
}

// searchChanges lists by what a search differs from the one before.
func searchChanges(is, was rules.SplitOptions) []searchChange {
	var out []searchChange
	before := searchSettings(was)
	for i, now := range searchSettings(is) {
		if now.value != before[i].value {
			out = append(out, searchChange{now.flag, before[i].value, now.value})
		}
	}
	return out
}

// given are the changes whose flags are on the command line.
func given(on func(flag string) bool, changes []searchChange) []searchChange {
	return slices.DeleteFunc(changes, func(c searchChange) bool { return !on(c.flag) })
}

// checkEngineKernels refuses a kernel that nothing knows of: neither what was measured nor, as it is asked only
// then, this machine.
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

// implementations are the names of all kernels of this machine.
func (a *app) implementations() []string {
	var names []string
	for _, d := range a.registry().Devices() {
		for _, o := range kernels.Operations() {
			for _, k := range kernels.Implementations(d, o) {
				if !slices.Contains(names, k.Name()) {
					names = append(names, k.Name())
				}
			}
		}
	}
	return names
}

// measuredKernels are the kernels of series, a library standing for its further choices.
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
