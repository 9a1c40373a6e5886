package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func (b *planner) target(d kernels.Device, t Target) error {
	if t.NotMeasured == "" && t.Experts > 0 && len(d.Kernels(t.Operation)) == 0 {
		t.NotMeasured = fmt.Sprintf("%s has no kernel of grouped products", d.Spec().ID)
	}
	if t.NotMeasured != "" {
		part := t.part()
		b.add(Note{What: part.String(), LeftOut: true, Why: t.NotMeasured, Part: part})
		return nil
	}
	dtypes, chosen := b.options.DTypes, true
	if t.DType != "" {
		dtypes = []kernels.DType{t.DType}
	}
	if len(dtypes) == 0 {
		dtypes, chosen = b.dtypes(d, t), false
	}
	ms := t.rowsFor(b.grid, b.options.Tokens || t.Model != "")
	if t.M > 0 {
		ms = Batches{t.M}
		if b.options.Neighbours {
			ms = withNeighbours(t.M)
		}
	}
	taken := map[kernels.DType]int{}
	for _, g := range b.kernels(d, t.Operation) {
		for _, dtype := range dtypes {
			if dtype.Bits() == 0 {
				return fmt.Errorf("unknown dtype %q: expected one of %v", dtype, kernels.DTypes())
			}
			if b.preset.MaxKernels > 0 && len(b.options.Kernels) == 0 && taken[dtype] >= b.preset.MaxKernels {
				b.leftOut(fmt.Sprintf("kernel %s/%s on %s", g.Name(), dtype, d.Spec().ID), "preset %s takes %d kernels of a type",
					b.preset.Name, b.preset.MaxKernels)
				continue
			}
			added := false
			for _, weights := range b.weightsOf(d, t) {
				if !fits(dtype, weights) && slices.ContainsFunc(dtypes, func(d kernels.DType) bool { return fits(d, weights) }) {
					continue
				}
				subject, err := t.subject(dtype, b.options.Layout, weights)
				if err != nil && len(b.options.Weights) == 0 && weights != (kernels.WeightFormat{}) {
					b.note(t.Name, "its weights are planned plain, not as they are stored: %v", err)
					subject, err = t.subject(dtype, b.options.Layout, kernels.WeightFormat{})
				}
				if err != nil && !chosen && dtype != kernels.FP16 && dtype != kernels.BF16 {
					b.leftOut(g.Name()+" on "+d.Spec().ID, "%v", err)
					continue
				}
				if err != nil {
					return err
				}
				added = b.series(d, g, t, subject, ms, chosen) || added
			}
			if added {
				taken[dtype]++
			}
		}
	}
	return nil
}

func (b *planner) weights() []kernels.WeightFormat {
	if len(b.options.Weights) == 0 {
		return []kernels.WeightFormat{{}}
	}
	return b.options.Weights
}

// weightsOf returns the requested forms of a target's weights, or its stored one if a kernel supports it.
func (b *planner) weightsOf(d kernels.Device, t Target) []kernels.WeightFormat {
	if len(b.options.Weights) > 0 {
		return b.options.Weights
	}
	if t.Stored == (kernels.WeightFormat{}) || b.takes(d, t, t.Stored, kernels.FP16, kernels.BF16, t.Stored.Activations()) {
		return []kernels.WeightFormat{t.Stored}
	}
	part := t.Model
	if t.Experts > 0 { // a device may take the format in other products
		part = t.Name
	}
	b.note(part, "its weights are stored as %v, which no kernel on %s takes: planned plain", t.Stored, d.Spec().ID)
	return []kernels.WeightFormat{{}}
}

// fits reports whether weights of a format can have activations of a type.
func fits(d kernels.DType, weights kernels.WeightFormat) bool {
	if a := weights.Activations(); a != "" {
		return d == a
	}
	return weights == (kernels.WeightFormat{}) || d == kernels.FP16 || d == kernels.BF16
}

// dtypes returns a target's stored type if a kernel supports it, else the preset's, and those that requested weights need.
func (b *planner) dtypes(d kernels.Device, t Target) []kernels.DType {
	if a := t.Stored.Activations(); a != "" && len(b.options.Weights) == 0 && b.takes(d, t, t.Stored, a) {
		return []kernels.DType{a}
	}
	out := b.dtypesOfPlain(d, t)
	for _, w := range b.options.Weights {
		if a := w.Activations(); a != "" && !slices.Contains(out, a) {
			out = append(slices.Clone(out), a)
		}
	}
	return out
}

// dtypesOfPlain returns the types of products with weights of any format that does not determine them.
func (b *planner) dtypesOfPlain(d kernels.Device, t Target) []kernels.DType {
	if t.StoredType == "" || len(b.options.Weights) > 0 {
		return b.preset.dtypes(d)
	}
	if b.takes(d, t, kernels.WeightFormat{}, t.StoredType) {
		return []kernels.DType{t.StoredType}
	}
	b.note(t.Model, "its weights are stored as %s, which no kernel on %s takes: planned as other types", t.StoredType, d.Spec().ID)
	return b.preset.dtypes(d)
}

func (b *planner) takes(d kernels.Device, t Target, weights kernels.WeightFormat, dtypes ...kernels.DType) bool {
	return slices.ContainsFunc(dtypes, func(dtype kernels.DType) bool {
		s, err := t.subject(dtype, b.options.Layout, weights)
		return err == nil && slices.ContainsFunc(d.Kernels(t.Operation), func(k kernels.Kernel) bool {
			return k.Supports(kernels.Task{Subject: s, M: 1}) == nil
		})
	})
}

// series adds the supported ms of a subject; chosen is true for a requested data type. It reports whether it
// added a series.
func (b *planner) series(d kernels.Device, g kernels.Kernel, of Target, subject kernels.Subject, ms Batches, chosen bool) bool {
	s := PlannedSeries{Name: of.Name, Model: of.Model, SeriesKey: results.SeriesKey{
		Device: d.Spec().ID, Kernel: g.Name(), Subject: subject, Regime: b.plan.Regime,
		Threads: b.options.Threads, PackInside: b.options.PackInside && subject.Operation.HasWeights(),
	}}
	if !d.Spec().Kind.Facts().Host {
		s.Threads = 0
	}
	if f, wrong := d.Spec().WrongResults(g.Name(), subject.DType); wrong && subject.Operation.HasWeights() {
		what := fmt.Sprintf("kernel %s/%s on %s", g.Name(), subject.DType, d.Spec().ID)
		if !slices.Contains(b.options.Kernels, g.Name()) {
			b.leftOut(what, "its results are wrong: %s", f.Text)
			return false
		}
		b.note(what, "measured since it is named, but its results are wrong: %s", f.Text)
	}
	s.Infer = b.infer && infers(subject.Operation, ms)
	kept, err := b.supported(g, s, ms)
	var no *kernels.Unsupported
	if errors.As(err, &no) && len(kept) == 0 && chosen && slices.Contains(b.options.Kernels, g.Name()) {
		b.refused = append(b.refused, refusal{d, g.Name(), subject.DType, err}) // the user requested both by name
	}
	if err != nil && len(kept) > 0 {
		b.cut(s, kept, ms, err)
	} else if err != nil {
		b.note(g.Name()+" on "+d.Spec().ID, "%v", err)
		b.tried(g.Name()+" on "+d.Spec().ID, err)
	}
	if len(kept) == 0 || b.merge(s, kept) {
		return false
	}
	s.Ms = kept
	b.plan.Series = append(b.plan.Series, s)
	return true
}

// merge adds ms to an existing equal series. Projections of one model often have equal shapes, and each M of
// a recorded workload is a target.
func (b *planner) merge(also PlannedSeries, ms Batches) bool {
	key := also.SeriesKey
	i, there := b.at[key]
	if !there {
		if b.at == nil {
			b.at, b.merged = map[results.SeriesKey]int{}, map[int]bool{}
		}
		b.at[key] = len(b.plan.Series)
		return false
	}
	s := &b.plan.Series[i]
	s.Name = bothNames(s.Name, also.Name)
	if !b.merged[i] {
		s.Ms, b.merged[i] = slices.Clone(s.Ms), true // which others share
	}
	s.Ms = append(s.Ms, ms...)
	return true
}

// bothNames joins two names of one model in the syntax of [ParseModel]: "llama3-8b:k_proj+v_proj". For
// different models or ranks it returns the first.
func bothNames(a, b string) string {
	model, parts, ok := strings.Cut(a, ":")
	otherModel, part, also := strings.Cut(b, ":")
	parts, ranks, _ := strings.Cut(parts, " ")
	part, otherRanks, _ := strings.Cut(part, " ")
	if !ok || !also || model != otherModel || ranks != otherRanks || slices.Contains(strings.Split(parts, "+"), part) {
		return a
	}
	name := model + ":" + parts + "+" + part
	if ranks != "" {
		name += " " + ranks
	}
	return name
}

func (b *planner) sort() {
	for i := range b.merged {
		s := &b.plan.Series[i]
		slices.Sort(s.Ms)
		s.Ms = slices.Compact(s.Ms)
	}
}
