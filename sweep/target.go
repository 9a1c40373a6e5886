package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// dims returns the target's sizes as the dimensions of its operation.
func (t Target) dims() kernels.Dims {
	d := t.Further
	d.N, d.K, d.Products, d.QueryHeads, d.KVHeads, d.HeadDim = t.N, t.K, t.Products, t.Heads.Query, t.Heads.KV, t.Heads.Dim
	d.Window, d.Columns, d.Queries = t.Window, t.Columns, t.Queries
	return d
}

// sized returns the target with sizes from dimensions.
func (t Target) sized(d kernels.Dims) Target {
	t.N, t.K, t.Products, t.Window, t.Columns, t.Queries = d.N, d.K, d.Products, d.Window, d.Columns, d.Queries
	t.Heads = kernels.Heads{Query: d.QueryHeads, KV: d.KVHeads, Dim: d.HeadDim}
	t.Further = kernels.Dims{Hidden: d.Hidden, Inner: d.Inner, Layers: d.Layers, Vocab: d.Vocab,
		Groups: d.Groups, TopK: d.TopK, Skew: d.Skew, Draw: d.Draw, Routing: d.Routing, Epilogue: d.Epilogue}
	return t
}

func (t Target) subject(d kernels.DType, layout kernels.Layout, weights kernels.WeightFormat) (kernels.Subject, error) {
	s := kernels.Subject{Operation: t.Operation, DType: d}
	all := t.dims()
	for _, dim := range t.Operation.Dims() {
		*dim.In(&s.Dims) = *dim.In(&all)
	}
	if !t.Operation.HasWeights() {
		if weights != (kernels.WeightFormat{}) {
			return s, fmt.Errorf("%v has no weights that could be %v", t.Operation, weights)
		}
		return s, nil
	}
	s.Layout = layout
	var err error
	if s.Weights, err = weights.For(d, t.K); err != nil {
		err = fmt.Errorf("%s %s with weights %v: %w", d, s.Size(), weights, err)
	}
	return s, err
}

// Operations lists the operations that can be swept. The decoder times passes of a whole decoder.
func Operations() []kernels.Operation {
	return slices.DeleteFunc(kernels.Operations(), func(o kernels.Operation) bool { return o.Definition().Composite })
}

// ParseOperations parses names of [Operations] and of their groups: "attention" selects prefill and decode.
func ParseOperations(names []string) ([]kernels.Operation, error) {
	var known, groups []string
	members := map[string][]kernels.Operation{}
	for _, o := range Operations() {
		known = append(known, o.String())
		if g := o.Definition().Group; g != "" {
			members[g] = append(members[g], o)
			if g != o.String() && !slices.Contains(groups, g) {
				groups = append(groups, g)
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g string) bool { return slices.Contains(known, g) })
	var out []kernels.Operation
	for _, name := range names {
		if word := strings.ToLower(strings.TrimSpace(name)); slices.Contains(groups, word) {
			out = append(out, members[word]...)
			continue
		}
		o, err := kernels.ParseOperation(name)
		if err != nil || o.Definition().Composite {
			return nil, fmt.Errorf("unknown operation %q: expected one of %s", name, strings.Join(append(known, groups...), ", "))
		}
		out = append(out, o)
	}
	return out, nil
}

// OperationOf returns the operation of a shape that is given without one: the matrix product, unless exactly one operation
// takes the shape.
func OperationOf(shape string) kernels.Operation {
	standard := kernels.Projections.Operation()
	var of []kernels.Operation
	for _, o := range Operations() {
		if _, err := ParseTargets(o, shape); err == nil {
			of = append(of, o)
		}
	}
	if len(of) == 1 {
		return of[0]
	}
	return standard
}

// ParseTarget parses a shape of an operation: each dimension's letters and its number, in any order, and possibly
// m. Examples are "m512n14336k4096", "q32kv8d128w4096" and "c512q512". See [ParseProduct] for the letters of a
// product.
func ParseTarget(o kernels.Operation, s string) (Target, error) {
	if o.IsProduct() {
		t, err := ParseProduct(s)
		t.Operation = o
		return t, err
	}
	t := Target{Operation: o}
	subject := kernels.Subject{Operation: o, DType: kernels.FP32}
	var fields []sizeField
	var letters []string
	if o.HasEpilogue() {
		subject.Epilogue = kernels.Bias
	}
	for _, d := range o.Dims() {
		if d.Word != nil { // another flag gives it
			continue
		}
		fields = append(fields, sizeField{d.Short, d.In(&subject.Dims), !d.Optional})
		letters = append(letters, d.Short)
	}
	fields = append(fields, sizeField{"m", &t.M, false})
	slices.SortStableFunc(fields, func(a, b sizeField) int { return cmp.Compare(len(b.name), len(a.name)) })
	reason := scanSizes(strings.ToLower(strings.TrimSpace(s)), strings.Join(letters, ", ")+" and m", fields)
	if reason == "" {
		if err := subject.Validate(); err != nil {
			reason = err.Error()
		}
	}
	if reason != "" {
		expected := cmp.Or(o.Definition().Expected, strings.Join(letters, ", ")+" with their numbers")
		return Target{}, &SyntaxError{"shape", s, reason, expected}
	}
	return t.sized(subject.Dims), nil
}

// ModelTargets returns a model's targets for an operation, as one of tp ranks computes it; see [ParseModel],
// [ParseModelHeads] and [ParseModelColumns]. With ep above 1 a rank holds that part of the experts, each whole.
func ModelTargets(o kernels.Operation, spec string, tp, ep int) (targets []Target, err error) {
	switch o.Definition().Parts {
	case kernels.Projections:
		return modelProducts(spec, tp, ep)
	case kernels.ExpertProjections:
		targets, err = modelProducts(spec, tp, ep)
		targets = slices.DeleteFunc(targets, func(t Target) bool { return t.Operation != o })
		if err == nil && len(targets) == 0 {
			err = fmt.Errorf("%s has no experts", spec)
		}
		return targets, err
	case kernels.PromptAttention, kernels.TokenAttention:
		targets, err = ParseModelHeads(spec, tp)
	case kernels.Probabilities, kernels.LogProbabilities:
		var t Target
		t, err = ParseModelColumns(spec, tp)
		targets = []Target{t}
	default:
		err = fmt.Errorf("%v is no part of a model: expected --shape", o)
	}
	for i := range targets {
		targets[i].Operation = o
	}
	return targets, err
}
