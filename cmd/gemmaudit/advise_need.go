package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// layerProducts lists the products of a layer as engines compute them, most fused first.
var layerProducts = [][]string{
	{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
	{"qkv_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	{"q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"},
	{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
}

const headProduct = "lm_head"

// need returns the products in a pass of the model. planned holds the runs' series, which name the model if
// no flag does.
func (o *adviseOptions) need(planned []results.PlannedSeries) (advice.Need, advice.Subject, error) {
	var need advice.Need
	var subject advice.Subject
	spec := o.model
	if spec == "" {
		var err error
		if spec, err = plannedModel(planned); err != nil {
			return need, subject, err
		}
	}
	model, err := sweep.FindModel(spec)
	if err != nil {
		return need, subject, badFlag("model", err)
	}
	if model.Layers == 0 {
		return need, subject,
			usagef("--model: the number of layers of %s is unknown: expected num_hidden_layers in its config.json", model.Name)
	}
	if err := model.Uniform(); err != nil {
		return need, subject, hint(badFlag("model", err), "advise needs a model with identical layers, and runs of all their products")
	}
	sets := layerProducts
	if i := strings.LastIndexByte(spec, ':'); i >= 0 && !strings.ContainsAny(spec[i:], `/\`) {
		if sets, err = namedProducts(spec[i+1:]); err != nil {
			return need, subject, err
		}
	}
	need = advice.Need{Model: model.Name, Count: model.Layers, Vocab: model.Vocab, Kernel: o.kernel}
	for _, set := range sets {
		if len(sets) > 1 && slices.ContainsFunc(set, func(name string) bool { return !slices.Contains(model.ProjectionNames(), name) }) {
			continue // the checkpoint stores them in one matrix
		}
		products, err := layersOf(model, o.tp, set)
		if err != nil {
			return need, subject, badFlag("model", err)
		}
		need.Layers = append(need.Layers, products)
	}
	head, err := model.Projections(o.tp, headProduct)
	if err != nil {
		return need, subject, badFlag("model", err)
	}
	need.Head = advice.Product{Name: headProduct, N: head[0].N, K: head[0].K, Count: 1}
	heads, err := model.Attention(o.tp)
	if err != nil {
		return need, subject, badFlag("model", err)
	}
	need.Heads = heads[0].Heads
	if o.dtype != "" {
		if need.DType, err = kernels.ParseDType(o.dtype); err != nil {
			return need, subject, badFlag("dtype", err)
		}
	}
	if o.sequences != "all" {
		n, err := strconv.Atoi(o.sequences)
		if err != nil || n < 1 || n > results.MaxM {
			return need, subject, usagef("--sequences: %q, expected all or 1 to %d", o.sequences, results.MaxM)
		}
		need.Sequences = n
	}
	subject = advice.Subject{Model: model.Name, Layers: model.Layers, Sequences: need.Sequences}
	if o.tp > 1 {
		subject.TP = o.tp
	}
	return need, subject, nil
}

// layersOf returns products summed over all layers of a model.
func layersOf(model sweep.Model, tp int, names []string) ([]advice.Product, error) {
	targets, err := model.Projections(tp, names...)
	if err != nil {
		return nil, err
	}
	out := make([]advice.Product, len(targets))
	for i, t := range targets {
		out[i] = advice.Product{Name: t.Projection, N: t.N, K: t.K, Count: model.Layers}
	}
	return out, nil
}

// namedProducts returns the products that a selector names: a whole layer, with or without the head.
func namedProducts(selector string) ([][]string, error) {
	names := slices.DeleteFunc(strings.Split(strings.ToLower(selector), "+"), func(s string) bool { return s == headProduct })
	slices.Sort(names)
	for _, set := range layerProducts {
		sorted := slices.Sorted(slices.Values(set))
		if slices.Equal(sorted, names) {
			return [][]string{set}, nil
		}
	}
	var expected []string
	for _, set := range layerProducts {
		expected = append(expected, strings.Join(set, "+"))
	}
	return nil, usagef("--model: %q is not a whole layer, expected %s", selector, strings.Join(expected, ", or "))
}

func plannedModel(planned []results.PlannedSeries) (string, error) {
	var models []string
	for _, s := range planned {
		if s.Model != "" && !slices.Contains(models, s.Model) {
			models = append(models, s.Model)
		}
	}
	switch len(models) {
	case 1:
		if _, err := sweep.FindModel(models[0]); err != nil {
			return "",
				hint(usagef("the runs are of model %s, which is not built in", models[0]), "give --model the path of its config.json")
		}
		return models[0], nil
	case 0:
		return "", hint(usagef("the runs have no model name"), "give --model, as in --model mistral-7b")
	}
	return "", hint(usagef("the runs are of %d models: %s", len(models), strings.Join(models, ", ")), "give --model")
}
