package architecture

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Storage is the content of quantization_config about weights.
type Storage struct {
	// Method is quant_method or its equivalent.
	Method string
	// Weights is the format with scales that products are measured with; the zero value for none.
	Weights kernels.WeightFormat
	// DType is the type of weights and activations that products are measured with; empty for none.
	DType kernels.DType
	// Text describes the storage for users: "fp8 in blocks of 128 × 128".
	Text string

	kept []string // modules, or patterns of modules, with plain weights
}

// router is the part that chooses experts, in every architecture.
const router = "router"

// Measured reports whether products can be measured with such weights.
func (s *Storage) Measured() bool { return s.Weights != (kernels.WeightFormat{}) || s.DType != "" }

// Keeps reports whether a weight matrix is stored plain, by its name in the checkpoint. Routers always are, also where the list of
// modules omits them, as GPTQ's does.
func (s *Storage) Keeps(w Weight) bool {
	if w.Part == router {
		return true
	}
	names := []string{w.Of}
	if w.Of == "" {
		names = nil
		dir := "self_attn."
		if strings.Contains(w.Part, "gate_up") {
			dir = "mlp."
		}
		for _, f := range w.Fuses {
			names = append(names, dir+f)
		}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(s.kept, func(pattern string) bool { return keeps(pattern, name, w.PerLayer) })
	})
}

// The module of one layer represents all layers.
func keeps(pattern, module string, perLayer bool) bool {
	pattern = strings.TrimPrefix(pattern, "re:")
	if module == "lm_head" || !perLayer {
		return pattern == module || strings.HasSuffix(pattern, "."+module)
	}
	_, inLayer, found := strings.Cut(pattern, "layers.")
	if found {
		_, inLayer, _ = strings.Cut(inLayer, ".")
	} else {
		inLayer = pattern
	}
	inLayer = strings.Trim(inLayer, "*.$")
	if inLayer == "" {
		return false
	}
	parts := strings.Split(module, ".")
	for i := range parts {
		tail, dir := strings.Join(parts[i:], "."), strings.Join(parts[:i+1], ".")
		for _, name := range []string{tail, dir, parts[i]} {
			if ok, err := path.Match(inLayer, name); ok && err == nil {
				return true
			}
		}
	}
	return false
}

func readStorage(v any) (*Storage, error) {
	q, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: expected an object", brief(v))
	}
	s := &Storage{}
	s.Method, _ = q["quant_method"].(string)
	if algorithm, _ := q["quant_algo"].(string); algorithm != "" && (s.Method == "" || s.Method == "modelopt") {
		s.Method = "modelopt"
		s.Text = strings.ToLower(algorithm)
	}
	for _, name := range []string{"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"} {
		kept, err := texts(q[name])
		if err != nil {
			return nil, fmt.Errorf("%s is %s: %w", name, brief(q[name]), err)
		}
		s.kept = append(s.kept, kept...)
	}
	var err error
	switch s.Method {
	case "gptq":
		s.kept = append(s.kept, "lm_head")
		err = s.integers(q, "bits", "group_size")
		if symmetric, ok := q["sym"].(bool); ok {
			s.Weights = s.Weights.WithZeroPoints(!symmetric)
		}
	case "awq":
		s.kept = append(s.kept, "lm_head")
		err = s.integers(q, either(q, "bits", "w_bit"), either(q, "group_size", "q_group_size"))
		zero, given := q["zero_point"].(bool)
		s.Weights = s.Weights.WithZeroPoints(zero || !given)
	case "compressed-tensors":
		err = s.packed(q)
	case "fp8":
		s.float8(q)
	case "modelopt":
		if s.Text == "fp8" {
			s.DType, s.Text = kernels.FP8, "fp8 with a scale for a matrix"
		}
	case "":
		return nil, missing{"quant_method"}
	default:
		s.Text = s.Method
		if bits, ok := q["bits"].(int); ok {
			s.Text = fmt.Sprintf("%s with %d bits", s.Method, bits)
		}
	}
	if err != nil {
		return nil, err
	}
	if s.Text == "" {
		s.Text = s.Weights.String()
	}
	return s, nil
}

func either(q map[string]any, name, old string) string {
	if q[name] == nil {
		return old
	}
	return name
}

func (s *Storage) integers(q map[string]any, bitsName, groupName string) error {
	bits, ok := q[bitsName].(int)
	if !ok {
		return fmt.Errorf("%s is %s: expected an integer", bitsName, brief(q[bitsName]))
	}
	group, ok := q[groupName].(int)
	if !ok || group == 0 || group < -1 {
		return fmt.Errorf("%s is %s: expected -1, or at least 1", groupName, brief(q[groupName]))
	}
	s.Weights = quantization(bits, group)
	if s.Weights.Bits == 0 {
		s.Text = fmt.Sprintf("%s with %d bits", s.Method, bits)
	}
	return nil
}

// A group of -1 means one scale per column.
func quantization(bits, group int) kernels.WeightFormat {
	if bits != 4 && bits != 8 {
		return kernels.WeightFormat{}
	}
	return kernels.IntegerWeights(bits, max(0, group), false)
}

func (s *Storage) float8(q map[string]any) {
	block, ok := q["weight_block_size"].([]any)
	if ok && len(block) == 2 {
		s.Text = fmt.Sprintf("fp8 with a scale for a block of %s × %s", brief(block[0]), brief(block[1]))
		n, _ := block[0].(int)
		k, _ := block[1].(int)
		if f, err := kernels.ParseWeights(fmt.Sprintf("fp8:%dx%d", k, n)); err == nil && q["activation_scheme"] != "static" {
			s.Weights, s.Text = f, f.String()
		}
		return
	}
	s.DType, s.Text = kernels.FP8, "fp8 with a scale for a matrix"
}

// perToken reports whether the activations of a group of layers have a scale for each row.
func perToken(group map[string]any) bool {
	activations, _ := group["input_activations"].(map[string]any)
	return activations["strategy"] == "token"
}

func (s *Storage) packed(q map[string]any) error {
	groups, ok := q["config_groups"].(map[string]any)
	if !ok || len(groups) == 0 {
		return missing{"config_groups"}
	}
	for _, g := range groups {
		group, _ := g.(map[string]any)
		weights, ok := group["weights"].(map[string]any)
		if !ok {
			return errors.New("config_groups: weights is missing")
		}
		bits, ok := weights["num_bits"].(int)
		if !ok {
			return fmt.Errorf("config_groups: num_bits is %s: expected an integer", brief(weights["num_bits"]))
		}
		kind, _ := weights["type"].(string)
		strategy, _ := weights["strategy"].(string)
		size, _ := weights["group_size"].(int)
		activations := group["input_activations"] != nil
		text := fmt.Sprintf("%s%d by %s", kind, bits, strategy)
		switch {
		case len(groups) > 1:
		case kind == "int" && !activations && (strategy == "channel" || strategy == "group" && size > 0):
			if strategy == "channel" {
				size = 0
			}
			s.Weights = quantization(bits, size)
			if symmetric, ok := weights["symmetric"].(bool); ok {
				s.Weights = s.Weights.WithZeroPoints(!symmetric)
			}
		case kind == "float" && bits == 8 && strategy == "channel" && perToken(group):
			s.Weights, _ = kernels.ParseWeights("fp8:column")
		case kind == "float" && bits == 8 && strategy != "block":
			s.DType = kernels.FP8
		case kind == "int" && bits == 8 && activations:
			s.DType = kernels.INT8
		}
		if s.Text != "" && s.Text != text {
			text = s.Text + ", " + text
		}
		s.Text = text
	}
	if s.Weights.Bits != 0 {
		s.Text = s.Weights.String()
	}
	return nil
}
