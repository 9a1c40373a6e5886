package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// layerProducts lists the products of a layer as engines compute them, most fused first, and last those with experts.
var layerProducts = [][]string{
	{"qkv_proj", "o_proj", "gate_up_proj", "down_proj"},
	{"qkv_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	{"q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"},
	{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
	{"qkv_proj", "o_proj", "router", "experts.gate_up_proj", "experts.down_proj"},
	{"q_proj", "k_proj", "v_proj", "o_proj", "router", "experts.gate_up_proj", "experts.down_proj"},
}

const headProduct = "lm_head"

// NeedOf returns the products in a pass of a model with identical layers, as one of tp ranks runs it. selector
// names the products of a layer, as in "q_proj+k_proj"; without one, each way of engines to fuse them is an
// alternative.
func NeedOf(model sweep.Model, selector string, tp int) (Need, error) {
	if model.Layers == 0 {
		return Need{}, fmt.Errorf("the number of layers of %s is unknown: expected num_hidden_layers in its config.json", model.Name)
	}
	sets := layerProducts
	if selector != "" {
		var err error
		if sets, err = namedProducts(selector); err != nil {
			return Need{}, err
		}
	}
	need := Need{Model: model.Name, Count: model.Layers, Vocab: model.Vocab}
	for _, set := range sets {
		if len(sets) > 1 && slices.ContainsFunc(set, func(name string) bool { return !slices.Contains(model.ProjectionNames(), name) }) {
			continue // the checkpoint stores them in one matrix
		}
		products, err := layersOf(model, tp, set)
		if err != nil {
			return need, err
		}
		if len(products) < len(set) {
			continue // the model's layers have none of them, as where all have experts
		}
		need.Layers = append(need.Layers, products)
	}
	if len(need.Layers) == 0 {
		return need, fmt.Errorf("no set of products is a layer of %s", model.Name)
	}
	head, err := model.Projections(tp, headProduct)
	if err != nil {
		return need, err
	}
	need.Head = Product{Name: headProduct, N: head[0].N, K: head[0].K, Count: 1, Plain: plain(head[0])}
	heads, err := model.Attention(tp)
	if err != nil {
		return need, err
	}
	need.Heads = heads[0].Heads
	need.unquantized()
	return need, nil
}

func plain(t sweep.Target) bool { return t.Stored == (kernels.WeightFormat{}) && t.StoredType == "" }

// unquantized clears Plain if all products of the layers are plain.
func (n *Need) unquantized() {
	for _, set := range n.Layers {
		if slices.ContainsFunc(set, func(p Product) bool { return !p.Plain }) {
			return
		}
	}
	n.Head.Plain = false
	for _, set := range n.Layers {
		for i := range set {
			set[i].Plain = false
		}
	}
}

// layersOf returns products summed over all layers of a model.
func layersOf(model sweep.Model, tp int, names []string) ([]Product, error) {
	targets, err := model.Projections(tp, names...)
	if err != nil {
		return nil, err
	}
	out := make([]Product, len(targets))
	for i, t := range targets {
		out[i] = Product{Name: t.Projection, N: t.N, K: t.K, Count: model.Layers, Experts: t.Experts, Active: t.Active,
			Epilogue: t.Epilogue, Plain: plain(t), Beyond: t.Beyond}
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
	return nil, fmt.Errorf("%q is not a whole layer, expected %s", selector, strings.Join(expected, ", or "))
}
