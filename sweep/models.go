package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/sweep/architecture"
)

// Model is a decoder-only transformer, given by its configuration.
type Model struct {
	Name   string
	Layers int // decoder layers; 0 if the configuration does not give them
	Vocab  int // rows of lm_head
	arch   *architecture.Model
}

var builtin = []struct {
	name, modelType                                   string
	hidden, inner, heads, kvHeads, dim, vocab, layers int
	experts, active                                   int // of each layer; 0 without experts
}{
	{"llama3-8b", "llama", 4096, 14336, 32, 8, 128, 128256, 32, 0, 0},
	{"llama3-70b", "llama", 8192, 28672, 64, 8, 128, 128256, 80, 0, 0},
	{"mistral-7b", "mistral", 4096, 14336, 32, 8, 128, 32768, 32, 0, 0},
	{"qwen2.5-7b", "qwen2", 3584, 18944, 28, 4, 128, 152064, 28, 0, 0},
	{"mixtral-8x7b", "mixtral", 4096, 14336, 32, 8, 128, 32000, 32, 8, 2},
}

// ModelNames lists the built-in models, for completion and error messages.
func ModelNames() []string {
	names := make([]string, len(builtin))
	for i, m := range builtin {
		names[i] = m.name
	}
	return names
}

// ProjectionNames lists the selectors of a built-in model, the names behind the colon. Other models have
// others: see [Model.ProjectionNames].
func ProjectionNames() []string {
	m, err := findModel(builtin[0].name)
	if err != nil {
		return nil
	}
	return m.ProjectionNames()
}

// ProjectionNames lists the model's selectors.
func (m Model) ProjectionNames() []string { return m.arch.Parts() }

func newModel(name string, arch *architecture.Model) Model {
	return Model{Name: name, Layers: arch.Layers, Vocab: arch.Vocab(), arch: arch}
}

// ReadModel reads a Hugging Face config.json, or the one in the folder path. The model is named after a
// file with another name, else after the folder in path, else after its type.
func ReadModel(path string) (Model, error) {
	arch, err := architecture.Read(path)
	if err != nil {
		return Model{}, fmt.Errorf("model configuration: %w", err)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	if file := filepath.Base(path); file != "config.json" {
		return newModel(strings.TrimSuffix(file, ".json"), arch), nil
	}
	name := filepath.Base(filepath.Dir(path))
	if name == "." || name == ".." {
		name = arch.Type
	}
	return newModel(name, arch), nil
}

// Target is a weight matrix, an attention or a softmax to sweep, with its sizes and origin.
type Target struct {
	// Name is "llama3-8b:o_proj", with " tp2" if split; empty for a bare shape.
	Name string
	// Model and Projection are the parts of Name; empty for a bare shape.
	Model, Projection string
	Operation         kernels.Operation
	N, K              int           // of a weight matrix
	Products          int           // of a batch, each with its own weights; 0 for a single product
	Heads             kernels.Heads // of an attention
	Window            int           // of an attention; 0 for none
	Columns           int           // of a softmax
	Further           kernels.Dims  // of other operations
	// Layers is the number of layers that contain the target; 0 if unknown.
	Layers int
	// Epilogue is what the layer does with the product, as far as an engine may fuse it: see [FuseLayers]. Beyond names a step
	// that no epilogue computes; empty for none.
	Epilogue kernels.Epilogue
	Beyond   string
	// Experts is the number of such weight matrices per layer; Active of them process a token.
	Experts, Active int
	// RowsPerToken is the number of groups per token of a grouped product whose rows come from tokens; 0 if unknown.
	RowsPerToken int
	// NotMeasured is the reason why the target is listed but not measured; empty if it is measured.
	NotMeasured string
	// Stored is the quantization of the model's weights, and StoredType the type of weights and activations;
	// zero for plain weights.
	Stored     kernels.WeightFormat
	StoredType kernels.DType
	Queries    int // of a softmax with a causal mask; 0 for none
	// M replaces the batch grid if it is not 0.
	M int
	// DType replaces the sweep's data types if it is not empty.
	DType kernels.DType
}

// MaxTP limits tensor parallelism.
const MaxTP = 1024

// Projections returns the named weight matrices as one of tp ranks holds them; without names, the products of
// a layer as engines run them.
func (m Model) Projections(tp int, names ...string) ([]Target, error) {
	if err := m.checkTP(tp); err != nil {
		return nil, err
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(m.ProjectionNames(), name) {
			return nil, fmt.Errorf("unknown projection %q of %s: expected all or one of %s",
				name, m.Name, strings.Join(m.ProjectionNames(), ", "))
		}
	}
	all := slices.Contains(names, "all")
	weights, err := m.arch.Weights(tp, func(part string, engine bool) bool {
		return all || slices.Contains(names, part) || len(names) == 0 && engine
	})
	if err != nil {
		return nil, fmt.Errorf("%s:%w", m.Name, err)
	}
	out := make([]Target, len(weights))
	for i, w := range weights {
		if w.N > MaxDimension || w.K > MaxDimension {
			return nil, fmt.Errorf("%s:%s is n%d k%d, expected at most %d", m.Name, w.Part, w.N, w.K, MaxDimension)
		}
		t := Target{Name: rankName(m.Name+":"+w.Part, tp), Model: m.Name, Projection: w.Part, N: w.N, K: w.K,
			Layers: w.Layers, Experts: w.Experts, Active: w.Active}
		if w.Experts > 0 {
			t.Operation, t.Further.Groups = kernels.ExpertProjections.Operation(), w.Experts
		}
		if s := m.arch.Stored; s != nil && !s.Keeps(w) {
			t.Stored, t.StoredType = s.Weights, s.DType
		}
		f, err := m.arch.Finish(w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		if t.Beyond = f.Beyond; tp == 1 || !f.Epilogue.HasResidual() { // ranks sum their parts first
			t.Epilogue = f.Epilogue
		}
		out[i] = t
	}
	return out, nil
}

func (m Model) checkTP(tp int) error {
	if tp < 1 || tp > MaxTP {
		return fmt.Errorf("tensor parallelism %d of %s: expected 1 to %d", tp, m.Name, MaxTP)
	}
	return nil
}

func rankName(name string, tp int) string {
	if tp > 1 {
		name += " tp" + strconv.Itoa(tp)
	}
	return name
}

// ParseModel parses "llama3-8b", "llama3-8b:o_proj+down_proj", or a path of a Hugging Face config.json in
// place of the name, for one of tp ranks.
func ParseModel(spec string, tp int) ([]Target, error) {
	name, selector, selects := cutSelector(spec)
	if selects && selector == "" {
		expected := ProjectionNames()
		if m, err := findModel(name); err == nil {
			expected = m.ProjectionNames()
		}
		return nil, fmt.Errorf("model %q: no name after the colon: expected all or one of %s", spec, strings.Join(expected, ", "))
	}
	m, err := findModel(name)
	if err != nil {
		return nil, err
	}
	var names []string
	if selector != "" {
		names = strings.Split(strings.ToLower(selector), "+")
	}
	out, err := m.Projections(tp, names...)
	if err != nil || len(names) > 0 && !slices.Contains(names, "all") {
		return out, err
	}
	attentions, err := m.Attention(tp)
	for _, a := range attentions {
		if a.NotMeasured != "" {
			out = append(out, a)
		}
	}
	return out, err
}

// modelProducts is [ParseModel] with the experts divided among ep ranks.
func modelProducts(spec string, tp, ep int) ([]Target, error) {
	out, err := ParseModel(spec, tp)
	if err != nil || ep <= 1 {
		return out, err
	}
	whole := out
	if tp > 1 {
		if whole, err = ParseModel(spec, 1); err != nil {
			return nil, err
		}
	}
	for i, t := range whole {
		if t.Experts == 0 {
			continue
		}
		if t.Experts%ep != 0 {
			return nil, fmt.Errorf("the experts of %s can't be divided among %d ranks: there are %d", t.Name, ep, t.Experts)
		}
		t.Name += " ep" + strconv.Itoa(ep)
		t.Further.Groups = t.Experts / ep
		t.Active = max(1, t.Active/ep)
		out[i] = t
	}
	return out, nil
}

// FindModel returns a model by name, or by the path of a Hugging Face config.json. It ignores a selector, as
// in "llama3-8b:o_proj".
func FindModel(spec string) (Model, error) {
	name, _, _ := cutSelector(spec)
	return findModel(name)
}

// Selector returns the products that a model's spec names: "o_proj" of "llama3-8b:o_proj".
func Selector(spec string) string {
	_, selector, _ := cutSelector(spec)
	return selector
}

// cutSelector separates a model's name from a selector. A colon before a slash belongs to a path.
func cutSelector(spec string) (name, selector string, found bool) {
	if i := strings.LastIndexByte(spec, ':'); i >= 0 && !strings.ContainsAny(spec[i:], `/\`) {
		return spec[:i], spec[i+1:], true
	}
	return spec, "", false
}

func findModel(name string) (Model, error) {
	for _, b := range builtin {
		if strings.EqualFold(b.name, name) {
			fields := map[string]any{
				"model_type": b.modelType, "hidden_size": b.hidden, "intermediate_size": b.inner, "num_attention_heads": b.heads,
				"num_key_value_heads": b.kvHeads, "head_dim": b.dim, "vocab_size": b.vocab, "num_hidden_layers": b.layers,
			}
			if b.experts > 0 {
				fields["num_local_experts"], fields["num_experts_per_tok"] = b.experts, b.active
			}
			arch, err := architecture.Of(fields)
			if err != nil {
				return Model{}, err
			}
			return newModel(b.name, arch), nil
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

// ModelNotes describes what a model's targets omit: unplanned parts, and the storage of weights.
func ModelNotes(spec string) ([]Note, error) {
	m, err := FindModel(spec)
	if err != nil {
		return nil, err
	}
	var out []Note
	for _, part := range m.arch.Elsewhere {
		out = append(out,
			Note{What: m.Name + ":" + part, LeftOut: true, Why: "only the decoder layers and lm_head of a language model are planned"})
	}
	if s := m.arch.Stored; s != nil {
		why := fmt.Sprintf("its weights are stored as %s, which no kernel takes: they are planned plain", s.Text)
		if s.Measured() {
			why = fmt.Sprintf("its weights are stored as %s and planned so: --weights and --dtype name others", s.Text)
		}
		out = append(out, Note{What: m.Name + ":quantization_config", Why: why})
	}
	return out, nil
}

// Uniform returns why the model's layers differ or can't all be measured, or nil.
func (m Model) Uniform() error {
	if err := m.arch.Uniform(); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return nil
}
