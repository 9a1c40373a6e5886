package checkpoint

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Quantization describes the quantized weights in config.json.
type Quantization struct {
	Method string // "gptq", "awq", "compressed-tensors" or "fp8"
	Bits   int    // per weight: 4 or 8
	Group  int    // weights of a row per scale, 0 for all
	// Zeros means that zero points are stored; otherwise all are in the middle of the range.
	Zeros bool

	layout layout
	lag    int // subtracted from zero points when stored
	fp8    fp8Scales
}

// layout is the packing of integers in 32-bit words.
type layout uint8

const (
	// layoutGPTQ has tensors of [in, out]: a word holds consecutive inputs of a weight, or consecutive
	// outputs of zero points, the first in the lowest bits.
	layoutGPTQ layout = iota
	// layoutAWQ has tensors of [in, out]: a word holds eight outputs in the order 0, 2, 4, 6, 1, 3, 5, 7.
	layoutAWQ
	// layoutPacked has tensors of [out, in]: a word holds consecutive inputs of a weight,
	// or consecutive outputs of zero points.
	layoutPacked
	// layoutFP8 has elements of F8_E4M3, [out, in], and scales of blocks.
	layoutFP8
)

// notes are fields of quantization_config without effect on the weights, by method.
var notes = map[string][]string{
	"gptq": {"backend", "batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_auto_increment", "damp_percent", "dataset",
		"disable_exllama", "exllama_config", "lm_head", "max_input_length", "meta", "model_file_base_name", "model_name_or_path",
		"model_seqlen",
		"module_name_preceding_first_block", "modules_in_block_to_quantize", "mse", "pad_token_id", "static_groups", "tokenizer",
		"true_sequential", "use_cuda_fp16", "use_exllama"},
	"awq": {"backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse", "modules_to_not_convert"},
	// The tensors show which weights are packed.
	"fp8":                {"modules_to_not_convert"},
	"compressed-tensors": {"global_compression_ratio", "ignore", "quantization_status", "version"},
}

func readQuantization(f *fields) *Quantization {
	value, _ := f.take("quantization_config")
	if value == nil || f.err != nil {
		return nil
	}
	q := &Quantization{}
	g := readFields(f.path, f.in+"quantization_config.", value)
	read(g, "quant_method", "a name", &q.Method)
	switch q.Method {
	case "gptq":
		readGPTQ(g, q)
	case "awq":
		readAWQ(g, q)
	case "compressed-tensors":
		readPacked(g, q)
	case "fp8":
		readFP8(g, q)
	default:
		g.failf("quant_method", strconv.Quote(q.Method), "expected gptq, awq, compressed-tensors or fp8")
	}
	for _, name := range notes[q.Method] {
		g.take(name)
	}
	f.err = g.finish()
	return q
}

func (f *fields) only(name, want string) {
	if value, _ := f.take(name); value != nil && !sameJSON(value, want) {
		f.failf(name, brief(value), "only %s is supported", want)
	}
}

// bits reads the bits per weight, which must be one of allowed.
func (f *fields) bits(name string, allowed ...int) int {
	n := f.size(name, 0, 64)
	var names []string
	for _, a := range allowed {
		if n == a {
			return n
		}
		names = append(names, strconv.Itoa(a))
	}
	f.failf(name, n, "expected %s", strings.Join(names, " or "))
	return n
}

// group reads the group size; -1 means a whole row and returns 0.
func (f *fields) group(name string) int {
	n := 0
	if !read(f, name, "an integer", &n) && f.err == nil {
		f.err = refusef(f.path, "%s%s is missing", f.in, name)
	}
	if n == -1 {
		return 0
	}
	if n < 1 || n > maxWidth {
		f.failf(name, n, "expected -1 for a whole row, or 1 to %d", maxWidth)
	}
	return n
}

func readGPTQ(f *fields, q *Quantization) {
	q.layout, q.Zeros, q.lag = layoutGPTQ, true, 1
	q.Bits = f.bits("bits", 4, 8)
	q.Group = f.group("group_size")
	var order, symmetric bool
	read(f, "desc_act", "true or false", &order) // g_idx shows its effect
	read(f, "sym", "true or false", &symmetric)  // the zero points are stored
	f.only("is_marlin_format", "false")
	f.only("pack_dtype", `"int32"`)
	f.only("dynamic", "{}")
	for _, name := range []string{"checkpoint_format", "format"} {
		format := "gptq"
		read(f, name, "a name", &format)
		switch format {
		case "gptq":
		case "gptq_v2":
			q.lag = 0
		default:
			f.failf(name, strconv.Quote(format), "expected gptq or gptq_v2")
		}
	}
}

func readAWQ(f *fields, q *Quantization) {
	q.layout, q.Zeros = layoutAWQ, true
	bits, group := "bits", "group_size"
	if _, old := f.left["w_bit"]; old {
		bits = "w_bit"
	}
	if _, old := f.left["q_group_size"]; old {
		group = "q_group_size"
	}
	q.Bits = f.bits(bits, 4)
	q.Group = f.group(group)
	f.only("zero_point", "true")
	version := "gemm"
	if read(f, "version", "a name", &version); strings.ToLower(version) != "gemm" {
		f.failf("version", strconv.Quote(version), "expected gemm")
	}
}

// floatQuantized is compressed-tensors' format of fp8.
const floatQuantized = `"float-quantized"`

func readPacked(f *fields, q *Quantization) {
	q.layout = layoutPacked
	format := `"pack-quantized"`
	if sameJSON(f.left["format"], floatQuantized) {
		format = floatQuantized
	}
	f.only("format", format)
	f.only("kv_cache_scheme", "{}")
	f.only("sparsity_config", "{}")
	f.only("transform_config", "{}")
	f.only("moe_sparsity_config", "{}")
	var groups map[string]json.RawMessage
	if !read(f, "config_groups", "an object", &groups) && f.err == nil {
		f.err = refusef(f.path, "%sconfig_groups is missing", f.in)
	}
	if len(groups) != 1 {
		f.failf("config_groups", strconv.Itoa(len(groups))+" groups", "expected one, for all weights that are packed")
	}
	if f.err != nil {
		return
	}
	for name, value := range groups {
		in := f.in + "config_groups." + named(name) + "."
		g := readFields(f.path, in, value)
		g.only("format", format)
		if inputs, _ := g.take("input_activations"); inputs != nil && format == floatQuantized {
			dynamic(g, inputs)
		} else if inputs != nil && !sameJSON(inputs, "{}") {
			g.failf("input_activations", brief(inputs), "only {} is supported")
		}
		g.only("output_activations", "{}")
		g.take("targets") // the tensors show
		weights, _ := g.take("weights")
		if weights == nil && g.err == nil {
			g.err = refusef(f.path, "%sweights is missing", in)
		}
		if f.err = g.finish(); f.err != nil {
			return
		}
		if format == floatQuantized {
			f.err = readFloatWeights(readFields(f.path, in+"weights.", weights), q)
			continue
		}
		f.err = readPackedWeights(readFields(f.path, in+"weights.", weights), q)
	}
}

func readPackedWeights(f *fields, q *Quantization) error {
	q.Bits = f.bits("num_bits", 4, 8)
	f.only("type", `"int"`)
	f.only("dynamic", "false")
	f.only("block_structure", "null")
	symmetric := true
	read(f, "symmetric", "true or false", &symmetric)
	q.Zeros = !symmetric
	strategy := "group"
	read(f, "strategy", "a name", &strategy)
	switch strategy {
	case "group":
		if q.Group = f.group("group_size"); q.Group == 0 {
			f.failf("group_size", -1, "expected 1 to %d, as the strategy is group", maxWidth)
		}
	case "channel":
		f.take("group_size")
	default:
		f.failf("strategy", strconv.Quote(strategy), "expected group or channel")
	}
	for _, name := range []string{"actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"} {
		f.take(name) // weight_g_idx and the tensor types show its effect
	}
	return f.finish()
}
