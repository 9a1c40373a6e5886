package sweep

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Model is what a decoder-only transformer says about its weight matrices.
type Model struct {
	Name         string
	Hidden       int // width of the residual stream
	Intermediate int // width of the MLP
	Heads        int // query heads
	KVHeads      int // key and value heads
	HeadDim      int // width of one head
	Vocab        int // rows of lm_head
	Layers       int // decoder layers; 0 where a configuration does not say
}

// builtin are the models known by name, from their published configurations.
var builtin = []Model{
	{"llama3-8b", 4096, 14336, 32, 8, 128, 128256, 32},
	{"llama3-70b", 8192, 28672, 64, 8, 128, 128256, 80},
	{"mistral-7b", 4096, 14336, 32, 8, 128, 32768, 32},
	{"qwen2.5-7b", 3584, 18944, 28, 4, 128, 152064, 28},
}

// ModelNames lists the built-in models, for completion and error messages.
func ModelNames() []string {
	names := make([]string, len(builtin))
	for i, m := range builtin {
		names[i] = m.Name
	}
	return names
}

// projections are the weight matrices of a layer and the output head in the
// order in which a token meets them. shape takes the heads, KV heads and MLP
// columns that one rank of tp holds.
var projections = []struct {
	name   string
	engine bool // part of what a bare model name stands for
	shape  func(m Model, r rank) (n, k int)
}{
	{"qkv_proj", true, func(m Model, r rank) (int, int) { return (r.heads + 2*r.kvHeads) * m.HeadDim, m.Hidden }},
	{"q_proj", false, func(m Model, r rank) (int, int) { return r.heads * m.HeadDim, m.Hidden }},
	{"k_proj", false, func(m Model, r rank) (int, int) { return r.kvHeads * m.HeadDim, m.Hidden }},
	{"v_proj", false, func(m Model, r rank) (int, int) { return r.kvHeads * m.HeadDim, m.Hidden }},
	{"o_proj", true, func(m Model, r rank) (int, int) { return m.Hidden, r.heads * m.HeadDim }},
	{"gate_up_proj", true, func(m Model, r rank) (int, int) { return 2 * r.intermediate, m.Hidden }},
	{"gate_proj", false, func(m Model, r rank) (int, int) { return r.intermediate, m.Hidden }},
	{"up_proj", false, func(m Model, r rank) (int, int) { return r.intermediate, m.Hidden }},
	{"down_proj", true, func(m Model, r rank) (int, int) { return m.Hidden, r.intermediate }},
	{"lm_head", false, func(m Model, r rank) (int, int) { return r.vocab, m.Hidden }},
}

// ProjectionNames lists the selectors behind a model's colon.
func ProjectionNames() []string {
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.name
	}
	return names
}

// rank is one rank's share of a model under tensor parallelism. A share of 0
// means that the dimension does not divide.
type rank struct{ heads, kvHeads, intermediate, vocab int }

// Target is what is to be swept, a weight matrix, an attention or a softmax: its sizes, and where
// they come from.
type Target struct {
	// Name is "llama3-8b:o_proj", with " tp2" when it is split; empty for a bare shape.
	Name string
	// Model and Projection are the parts of it; empty for a bare shape.
	Model, Projection string
	Operation         kernels.Operation
	N, K              int           // of a weight matrix
	Products          int           // of a batch, each with weights of its own; 0 for a single one
	Heads             kernels.Heads // of an attention
	Window            int           // of an attention; 0 for none
	Columns           int           // of a softmax
	Queries           int           // of a softmax with a causal mask; 0 for none
	// M replaces the batch grid when it is not 0.
	M int
}

// MaxTP bounds tensor parallelism.
const MaxTP = 1024

// Projections returns the named weight matrices as one of tp ranks holds them;
// no names stand for the four products of a layer as engines run them.
func (m Model) Projections(tp int, names ...string) ([]Target, error) {
	if tp < 1 || tp > MaxTP {
		return nil, fmt.Errorf("tensor parallelism %d of %s: expected 1 to %d", tp, m.Name, MaxTP)
	}
	share := func(n int) int {
		if n%tp != 0 {
			return 0
		}
		return n / tp
	}
	r := rank{share(m.Heads), share(m.KVHeads), share(m.Intermediate), share(m.Vocab)}
	if tp > m.KVHeads && m.KVHeads > 0 && tp%m.KVHeads == 0 {
		r.kvHeads = 1 // every rank needs a KV head, so heads are replicated
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(ProjectionNames(), name) {
			return nil, fmt.Errorf("unknown projection %q of %s: expected all or one of %s",
				name, m.Name, strings.Join(ProjectionNames(), ", "))
		}
	}
	var out []Target
	for _, p := range projections {
		named := slices.Contains(names, p.name)
		if !named && !slices.Contains(names, "all") && !(len(names) == 0 && p.engine) {
			continue
		}
		if err := m.divides(p.name, tp, r); err != nil {
			return nil, err
		}
		n, k := p.shape(m, r)
		if n > MaxDimension || k > MaxDimension {
			return nil, fmt.Errorf("%s:%s is n%d k%d, expected at most %d", m.Name, p.name, n, k, MaxDimension)
		}
		t := Target{Name: m.Name + ":" + p.name, Model: m.Name, Projection: p.name, N: n, K: k}
		if tp > 1 {
			t.Name += fmt.Sprintf(" tp%d", tp)
		}
		out = append(out, t)
	}
	return out, nil
}

// divides names the dimension that tp ranks can't share when projection needs it.
func (m Model) divides(projection string, tp int, r rank) error {
	needs := map[string][]string{
		"qkv_proj": {"heads", "kv"}, "q_proj": {"heads"}, "k_proj": {"kv"}, "v_proj": {"kv"}, "o_proj": {"heads"},
		"gate_up_proj": {"mlp"}, "gate_proj": {"mlp"}, "up_proj": {"mlp"}, "down_proj": {"mlp"}, "lm_head": {"vocab"},
	}
	for _, need := range needs[projection] {
		var share, total int
		var what string
		switch need {
		case "heads":
			share, total, what = r.heads, m.Heads, "query heads"
		case "kv":
			share, total, what = r.kvHeads, m.KVHeads, "KV heads"
		case "mlp":
			share, total, what = r.intermediate, m.Intermediate, "MLP columns"
		case "vocab":
			share, total, what = r.vocab, m.Vocab, "vocabulary rows"
		}
		if share == 0 {
			return fmt.Errorf("%s:%s can't be split over %d ranks: it has %d %s", m.Name, projection, tp, total, what)
		}
	}
	return nil
}

// ParseModel reads "llama3-8b", "llama3-8b:o_proj+down_proj" or the same with
// the path of a Hugging Face config.json, as one of tp ranks holds it.
func ParseModel(spec string, tp int) ([]Target, error) {
	name, selector := spec, ""
	if i := strings.LastIndexByte(spec, ':'); i >= 0 && !strings.ContainsAny(spec[i:], `/\`) {
		name, selector = spec[:i], spec[i+1:]
		if selector == "" {
			return nil, fmt.Errorf("model %q: nothing follows the colon: expected all or one of %s",
				spec, strings.Join(ProjectionNames(), ", "))
		}
	}
	m, err := findModel(name)
	if err != nil {
		return nil, err
	}
	var names []string
	if selector != "" {
		names = strings.Split(strings.ToLower(selector), "+")
	}
	return m.Projections(tp, names...)
}

// FindModel is a model by name, or by the path of a Hugging Face config.json; what follows a colon,
// as in "llama3-8b:o_proj", is not looked at.
func FindModel(spec string) (Model, error) {
	if i := strings.LastIndexByte(spec, ':'); i >= 0 && !strings.ContainsAny(spec[i:], `/\`) {
		spec = spec[:i]
	}
	return findModel(spec)
}

func findModel(name string) (Model, error) {
	for _, m := range builtin {
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
	}
	if strings.ContainsAny(name, `/\`) || strings.HasSuffix(name, ".json") {
		return ReadModel(name)
	}
	if _, err := os.Stat(name); err == nil && name != "" {
		return ReadModel(name)
	}
	return Model{}, fmt.Errorf("unknown model %q: expected one of %s, or the path of a Hugging Face config.json",
		name, strings.Join(ModelNames(), ", "))
}
