package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// quantizedFixtures are the folders of scripts/make_quantized_fixtures.py.
var quantizedFixtures = []string{"gptq", "gptq-v2", "gptq-8bit", "awq", "packed", "packed-zeros", "packed-rows"}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// The expected integers were packed by numpy.
func TestQuantized(t *testing.T) {
	for _, name := range quantizedFixtures {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			c, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var expected map[string]struct {
				Shape                        []int
				Bits, Group                  int
				Values, Zeros, Scales, Dense string
			}
			data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
			if err == nil {
				err = json.Unmarshal(data, &expected)
			}
			if err != nil {
				t.Fatal(err)
			}
			packed := 0
			for _, w := range c.Config().Weights() {
				if len(w.Shape) != 2 {
					continue
				}
				q, err := c.Quantized(w.Name, w.Shape[0], w.Shape[1])
				if err != nil {
					t.Fatal(err)
				}
				want, ok := expected[w.Name]
				if (q != nil) != ok {
					t.Fatalf("%s: integers %t, want %t", w.Name, q != nil, ok)
				}
				if q == nil {
					continue
				}
				packed++
				if q.Name != w.Name || q.N != want.Shape[0] || q.K != want.Shape[1] || q.Bits != want.Bits || q.Group != want.Group {
					t.Errorf("%s: [%d %d] of %d bits in groups of %d, want %v", q.Name, q.N, q.K, q.Bits, q.Group, want)
				}
				scales := make([]float64, q.N*q.Groups())
				if err := kernels.Decode(q.ScaleDType, q.Scales, scales); err != nil {
					t.Fatal(err)
				}
				var single, zeros []byte
				for _, s := range scales {
					single = binary.LittleEndian.AppendUint32(single, math.Float32bits(float32(s)))
				}
				for _, z := range q.Zeros {
					zeros = binary.LittleEndian.AppendUint16(zeros, uint16(z))
				}
				dense, err := c.Tensor(w.Name, w.Shape...)
				if err != nil {
					t.Fatal(err)
				}
				for part, pair := range map[string][2]string{
					"values": {digest(q.Values), want.Values}, "scales": {digest(single), want.Scales},
					"weights": {digest(dense.Data), want.Dense},
				} {
					if pair[0] != pair[1] {
						t.Errorf("%s: other %s", w.Name, part)
					}
				}
				if (q.Zeros == nil) != (want.Zeros == "") || q.Zeros != nil && digest(zeros) != want.Zeros {
					t.Errorf("%s: other zero points", w.Name)
				}
				if dense.DType != kernels.FP32 || !slices.Equal(dense.Shape, w.Shape) {
					t.Errorf("%s: %s %v", w.Name, dense.DType, dense.Shape)
				}
			}
			if packed != len(expected) || packed < 7 {
				t.Errorf("%d weights are packed, want %d", packed, len(expected))
			}
		})
	}
}

func quantizedFolder(t *testing.T, name string) (config string, tensors map[string]stored) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name, configFile))
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join("testdata", name, singleFile))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseFile(singleFile, content)
	if err != nil {
		t.Fatal(err)
	}
	tensors = map[string]stored{}
	for name, e := range entries {
		tensors[name] = stored(e)
	}
	return compact.String(), tensors
}

func TestBadQuantizations(t *testing.T) {
	for _, c := range []struct{ fixture, old, new, want string }{
		{"gptq", `"quant_method":"gptq"`, `"quant_method":"aqlm"`,
			`quantization_config.quant_method is "aqlm": expected gptq, awq, compressed-tensors or fp8`},
		{"gptq", `"quant_method":"gptq"`, `"bits_of":3,"quant_method":"gptq"`,
			`unknown field quantization_config.bits_of with value 3: it may change what the model computes`},
		{"gptq", `"bits":4,`, `"bits":3,`, `quantization_config.bits is 3: expected 4 or 8`},
		{"gptq", `"bits":4,`, ``, `quantization_config.bits is missing`},
		{"gptq", `"group_size":32,`, ``, `quantization_config.group_size is missing`},
		{"gptq", `"group_size":32,`, `"group_size":0,`,
			`quantization_config.group_size is 0: expected -1 for a whole row, or 1 to 1048576`},
		{"gptq", `"group_size":32,`, `"group_size":"32",`, `quantization_config.group_size is "32": expected an integer`},
		{"gptq", `"sym":true`, `"sym":1`, `quantization_config.sym is 1: expected true or false`},
		{"gptq-v2", `"gptq_v2"`, `"marlin"`, `quantization_config.checkpoint_format is "marlin": expected gptq or gptq_v2`},
		{"gptq-v2", `"int32"`, `"int16"`, `quantization_config.pack_dtype is "int16": only "int32" is supported`},
		{"gptq-v2", `"sym":false`, `"sym":false,"dynamic":{"-:.*q_proj":{}}`,
			`quantization_config.dynamic is {"-:.*q_proj":{}}: only {} is supported`},
		{"gptq-8bit", `"is_marlin_format":false`, `"is_marlin_format":true`,
			`quantization_config.is_marlin_format is true: only false is supported`},
		{"awq", `"version":"gemm"`, `"version":"gemv"`, `quantization_config.version is "gemv": expected gemm`},
		{"awq", `"bits":4`, `"w_bit":8`, `quantization_config.w_bit is 8: expected 4`},
		{"awq", `"zero_point":true`, `"zero_point":false`, `quantization_config.zero_point is false: only true is supported`},
		{"packed", `"format":"pack-quantized"`, `"format":"nvfp4-pack-quantized"`,
			`quantization_config.format is "nvfp4-pack-quantized": only "pack-quantized" is supported`},
		{"packed", `"strategy":"group"`, `"strategy":"block"`,
			`quantization_config.config_groups.group_0.weights.strategy is "block": expected group or channel`},
		{"packed", `"group_size":32`, `"group_size":-1`,
			`quantization_config.config_groups.group_0.weights.group_size is -1: expected 1 to 1048576, as the strategy is group`},
		{"packed", `"type":"int"`, `"type":"float"`,
			`quantization_config.config_groups.group_0.weights.type is "float": only "int" is supported`},
		{"packed", `"type":"int"`, `"type":"int","twist":1`,
			`unknown field quantization_config.config_groups.group_0.weights.twist with value 1: it may change what the model computes`},
		{"packed", `"input_activations":null`, `"input_activations":{"num_bits":8}`,
			`quantization_config.config_groups.group_0.input_activations is {"num_bits":8}: only {} is supported`},
		{"packed", `"config_groups":{`, `"config_groups":{"group_1":{},`,
			`quantization_config.config_groups is 2 groups: expected one, for all weights that are packed`},
		{"packed", `"config_groups":{"group_0":`, `"config_groups":{"group_0":null},"ignored":{"group_0":`,
			`quantization_config.config_groups.group_0.not a JSON object: null`},
		{"packed", `"kv_cache_scheme":null`, `"kv_cache_scheme":{"num_bits":8}`,
			`quantization_config.kv_cache_scheme is {"num_bits":8}: only {} is supported`},
	} {
		config, _ := quantizedFolder(t, c.fixture)
		if strings.Count(config, c.old) != 1 {
			t.Fatalf("%s is %d times in %s", c.old, strings.Count(config, c.old), c.fixture)
		}
		_, err := parseConfig("config.json", []byte(strings.Replace(config, c.old, c.new, 1)))
		if want := "config.json: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.new, err, want)
		}
	}
}

func TestBadPackedTensors(t *testing.T) {
	const layer = "model.layers.0.mlp.down_proj."
	cut := func(name string, shape ...int) func(map[string]stored) {
		return func(all map[string]stored) {
			s := all[name]
			n := 1
			for _, d := range shape {
				n *= d
			}
			old := 1
			for _, d := range s.shape {
				old *= d
			}
			all[name] = stored{s.dtype, shape, s.data[:len(s.data)/old*n]}
		}
	}
	put := func(name string, at int, value uint32) func(map[string]stored) {
		return func(all map[string]stored) {
			s := all[name]
			data := slices.Clone(s.data)
			binary.LittleEndian.PutUint32(data[at:], value)
			all[name] = stored{s.dtype, s.shape, data}
		}
	}
	as := func(name, dtype string) func(map[string]stored) {
		return func(all map[string]stored) { all[name] = stored{dtype, all[name].shape, all[name].data} }
	}
	drop := func(name string) func(map[string]stored) {
		return func(all map[string]stored) { delete(all, name) }
	}
	same := func(map[string]stored) {}
	for _, c := range []struct {
		fixture  string
		spoil    func(map[string]stored)
		old, new string // in the config
		want     string
	}{
		{"gptq", same, `"group_size":32`, `"group_size":36`,
			`tensor "model.layers.0.self_attn.q_proj.qweight": 64 columns, which groups of 36 do not divide`},
		{"gptq", same, `"group_size":32`, `"group_size":128`,
			`tensor "model.layers.0.self_attn.q_proj.qweight": 64 columns, which groups of 128 do not divide`},
		{"gptq", same, `"group_size":32`, `"group_size":64`,
			`tensor "model.layers.0.self_attn.q_proj.qzeros": shape [2 8], expected [1 8]`},
		{"gptq", same, `"bits":4`, `"bits":8`, `tensor "model.layers.0.self_attn.q_proj.qweight": shape [8 64], expected [16 64]`},
		{"gptq", cut(layer+"scales", 2, 64), "", "", `tensor "` + layer + `scales": shape [2 64], expected [3 64]`},
		{"gptq", cut(layer+"scales", 64, 3), "", "", `tensor "` + layer + `scales": shape [64 3], expected [3 64]`},
		{"gptq", as(layer+"scales", "I16"), "", "", `tensor "` + layer + `scales": of type "I16", expected F16 or BF16 or F32`},
		{"gptq", as(layer+"qweight", "F32"), "", "", `tensor "` + layer + `qweight": of type "F32", expected I32`},
		{"gptq", drop(layer + "qzeros"), "", "", `tensor "` + layer + `qzeros": missing, expected shape [3 8]`},
		{"gptq", drop(layer + "qweight"), "", "", `tensor "` + layer + `weight": missing, expected shape [64 96]`},
		{"gptq", put(layer+"g_idx", 4*33, 0), "", "",
			`tensor "` + layer + `g_idx": column 33 is in group 0, expected 1: act-order (desc_act, actorder group) is not supported`},
		{"gptq", put(layer+"g_idx", 0, 1<<31), "", "",
			`tensor "` + layer +
				`g_idx": column 0 is in group -2147483648, expected 0: act-order (desc_act, actorder group) is not supported`},
		{"gptq", cut(layer+"g_idx", 95), "", "", `tensor "` + layer + `g_idx": shape [95], expected [96]`},
		{"gptq", put(layer+"bias", 4, 0x3c00), "", "", `tensor "` + layer + `bias": element 2 is 1: a llama model has no biases`},
		{"awq", same, `"quant_method":"awq"`, `"quant_method":"gptq"`, `unknown field quantization_config.modules_to_not_convert`},
		{"awq", cut(layer+"qzeros", 3, 7), "", "", `tensor "` + layer + `qzeros": shape [3 7], expected [3 8]`},
		{"awq", func(all map[string]stored) { all[layer+"weight"] = all["lm_head.weight"] }, "", "",
			`tensor "` + layer + `weight": shape [32 64], expected [64 96]`},
		{"awq", func(all map[string]stored) { all[layer+"g_idx"] = all[layer+"qzeros"] }, "", "",
			`tensor "` + layer + `g_idx": a llama model of this config has none of this name`},
		{"packed", put(layer+"weight_shape", 8, 95), "", "", `tensor "` + layer + `weight_shape": says [64 95], expected [64 96]`},
		{"packed", drop(layer + "weight_shape"), "", "", `tensor "` + layer + `weight_shape": missing, expected shape [2]`},
		{"packed", same, `"symmetric":true`, `"symmetric":false`,
			`tensor "model.layers.0.self_attn.q_proj.weight_zero_point": missing, expected shape [8 2]`},
		{"packed", same, `"strategy":"group"`, `"strategy":"channel"`,
			`tensor "model.layers.0.self_attn.q_proj.weight_scale": shape [64 2], expected [64 1]`},
		{"packed-zeros", same, `"symmetric":false`, `"symmetric":true`,
			`tensor "` + layer + `weight_zero_point": a llama model of this config has none of this name`},
		{"packed-zeros", as(layer+"weight_zero_point", "F32"), "", "",
			`tensor "` + layer + `weight_zero_point": of type "F32", expected I32`},
		{"packed", func(all map[string]stored) {
			data := make([]byte, 4*96)
			binary.LittleEndian.PutUint32(data, 2)
			all[layer+"weight_g_idx"] = stored{"I32", []int{96}, data}
		}, "", "",
			`tensor "` + layer +
				`weight_g_idx": column 0 is in group 2, expected 0: act-order (desc_act, actorder group) is not supported`},
	} {
		config, tensors := quantizedFolder(t, c.fixture)
		if c.old != "" {
			if strings.Count(config, c.old) != 1 {
				t.Fatalf("%s is %d times in %s", c.old, strings.Count(config, c.old), c.fixture)
			}
			config = strings.Replace(config, c.old, c.new, 1)
		}
		c.spoil(tensors)
		f := &folder{files: map[string][]byte{configFile: []byte(config)}, shards: map[string]map[string]stored{singleFile: tensors}}
		opened, err := Open(f.write(t))
		if err == nil {
			opened.Close()
			t.Errorf("%s: opened, want %s", c.fixture, c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", c.fixture, err, c.want)
		}
	}
}

// More than one tile in each direction.
func TestUnpackLarge(t *testing.T) {
	const n, k = 2*tile + 40, 3*tile + 16
	for _, bits := range []int{4, 8} {
		data := make([]byte, n*k*bits/8)
		rng := rand.New(rand.NewPCG(uint64(bits), 1))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for name, c := range map[string]struct {
			unpack func(*Quantized, []byte)
			at     func(n, k int) int
		}{
			"inputs":      {(*Quantized).unpackInputs, func(i, j int) int { return acrossRows(data, i, n, j, bits) }},
			"rows":        {(*Quantized).unpackRows, func(i, j int) int { return sequential(data, i, k, j, bits) }},
			"interleaved": {(*Quantized).unpackInterleaved, func(i, j int) int { return interleaved(data, j, n, i) }},
		} {
			if name == "interleaved" && bits == 8 {
				continue // AWQ has no such words
			}
			q := &Quantized{N: n, K: k, Bits: bits, Values: make([]uint8, n*k)}
			c.unpack(q, data)
			for i := range n {
				for j := range k {
					if got, want := int(q.Values[i*k+j]), c.at(i, j); got != want {
						t.Fatalf("%s of %d bits: [%d %d] is %d, want %d", name, bits, i, j, got, want)
					}
				}
			}
		}
	}
}

// Rows end in partly used words.
func TestUnpackRest(t *testing.T) {
	q := &Quantized{N: 2, K: 10, Bits: 4, Values: make([]uint8, 20)}
	q.unpackRows([]byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xff, 0xff, 0xff, 0xef, 0xcd, 0xab, 0x89, 0x67, 0xff, 0xff, 0xff})
	want := []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6}
	if !slices.Equal(q.Values, want) {
		t.Errorf("got %v, want %v", q.Values, want)
	}
}

func TestQuantizedAfterClose(t *testing.T) {
	c, err := Open(filepath.Join("testdata", "awq"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := c.Tensor("model.layers.0.mlp.up_proj.weight", 96, 64); err == nil ||
		!strings.Contains(err.Error(), "after the checkpoint was closed") {
		t.Errorf("got %v", err)
	}
}

// A projection of a 7B model in each layout.
func BenchmarkDense(b *testing.B) {
	const n, k = 14336, 4096
	q := &Quantized{N: n, K: k, Bits: 4, Group: 128, Values: make([]uint8, n*k), Scales: make([]byte, 2*n*k/128), ScaleDType: kernels.FP16}
	data := make([]byte, n*k/2)
	for name, unpack := range map[string]func([]byte){"gptq": q.unpackInputs, "awq": q.unpackInterleaved, "packed": q.unpackRows} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(n * k)
			for b.Loop() {
				unpack(data)
			}
		})
	}
	b.Run("dense", func(b *testing.B) {
		b.SetBytes(n * k)
		for b.Loop() {
			if _, err := q.Dense(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
