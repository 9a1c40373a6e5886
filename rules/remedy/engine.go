package remedy

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// EngineKernels returns a predicate for the kernels of a run that an inference engine can call. These are the
// named kernels, and for a named library its algorithms. If named is nil, they are the libraries' and the
// user-supplied kernels. In an import, and in a run with neither of these, all kernels are callable.
func EngineKernels(data infer.Data, named []string) func(device, kernel string) bool {
	if named != nil {
		return func(_, kernel string) bool { return Options{Kernels: named}.has(kernel) }
	}
	all := func(string, string) bool { return true }
	if data.Meta.Source != "" {
		return all
	}
	specs := data.Specs()
	callable := func(device, kernel string) bool {
		versions := specs(device).Versions
		base, _ := kernels.SplitCandidate(kernel)
		library, _ := kernels.SplitVersion(base)
		if _, ok := versions[kernels.PackageOf(library)]; ok {
			return true
		}
		_, ok := versions[base]
		return ok || slices.Contains(kernels.BroughtKernels(versions), base)
	}
	if !slices.ContainsFunc(data.Series, func(s results.Series) bool { return callable(s.Key.Device, s.Key.Kernel) }) {
		return all
	}
	return callable
}

// Limit removes remedies whose kernel the engine can't call; results of earlier versions contain them. named
// are the engine's kernels, as in [EngineKernels].
func (r *Result) Limit(data infer.Data, named []string) {
	r.engine = EngineKernels(data, named)
	other := func(key results.SeriesKey, kind rules.RemedyKind, kernel string) bool {
		return (kind == rules.RemedyOther || kind == rules.RemedyAlgorithm) && !r.engine(key.Device, kernel)
	}
	for _, rows := range []*[]Row{&r.Splits, &r.Rejected} {
		*rows = slices.DeleteFunc(*rows, func(s Row) bool { return other(s.Series, s.Kind, s.Kernel) })
	}
	r.Stretches = slices.DeleteFunc(r.Stretches, func(s Stretch) bool { return other(s.Series, s.Kind, s.Kernel) })
}

// Callable reports whether an engine can call the kernel of a series.
func (r *Result) Callable(key results.SeriesKey) bool {
	return r.engine == nil || r.engine(key.Device, key.Kernel)
}
