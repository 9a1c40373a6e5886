package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// fp8 weights are tensors of F8_E4M3 beside plain ones, each with a tensor of scales: a weight is its element times the scale
// of its block. Activations are not quantized: the model multiplies the values that the weights stand for.

// storedFP8 is the type of fp8 elements in safetensors.
const storedFP8 = "F8_E4M3"

// fp8Scales describes the scales of fp8 weights.
type fp8Scales struct {
	suffix        string // of their tensor, after the layer's name
	rows, columns int    // of a block; 0 for all columns
}

// readFP8 reads the quantization of DeepSeek's and Qwen's checkpoints. The tensors show which modules are not converted.
func readFP8(f *fields, q *Quantization) {
	q.Method, q.Bits, q.layout = "fp8", 8, layoutFP8
	f.only("fmt", `"e4m3"`)
	scheme := "dynamic"
	if read(f, "activation_scheme", "a name", &scheme); scheme != "dynamic" {
		f.failf("activation_scheme", strconv.Quote(scheme), "expected dynamic")
	}
	q.fp8 = fp8Scales{suffix: "weight_scale_inv"}
	q.fp8.rows, q.fp8.columns = f.block("weight_block_size")
}

// block reads the rows and columns of a block.
func (f *fields) block(name string) (rows, columns int) {
	var sides []int
	if !read(f, name, "a list of two integers", &sides) {
		if f.err == nil {
			f.err = refusef(f.path, "%s%s is missing", f.in, name)
		}
		return 1, 1
	}
	if len(sides) != 2 || min(sides[0], sides[1]) < 1 || max(sides[0], sides[1]) > maxWidth {
		f.failf(name, sides, "expected the rows and columns of a block, each 1 to %d", maxWidth)
		return 1, 1
	}
	return sides[0], sides[1]
}

// readFloatWeights reads the weights of a group of compressed-tensors' format float-quantized.
func readFloatWeights(f *fields, q *Quantization) error {
	q.layout, q.Bits = layoutFP8, f.bits("num_bits", 8)
	q.fp8 = fp8Scales{suffix: "weight_scale", rows: 1}
	f.only("type", `"float"`)
	f.only("dynamic", "false")
	f.only("symmetric", "true")
	strategy := ""
	read(f, "strategy", "a name", &strategy)
	switch strategy {
	case "channel":
		f.take("block_structure")
	case "block":
		q.fp8.rows, q.fp8.columns = f.block("block_structure")
	default:
		f.failf("strategy", strconv.Quote(strategy), "expected channel or block")
	}
	for _, name := range []string{"actorder", "group_size", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"} {
		f.take(name)
	}
	return f.finish()
}

// dynamic checks that the activations of a group are not scaled by stored numbers.
func dynamic(f *fields, value json.RawMessage) {
	g := readFields(f.path, f.in+"input_activations.", value)
	on := true
	if read(g, "dynamic", "true or false", &on); g.err == nil && !on {
		g.failf("dynamic", false, "expected true")
	}
	f.err = g.err
}

// isFP8 reports whether a weight is stored as fp8 with scales.
func (c *Checkpoint) isFP8(name string) bool {
	q, f := c.config.Quantization, c.tensors[name]
	return q != nil && q.layout == layoutFP8 && name != embedding && f != nil && f.tensors[name].dtype == storedFP8
}

// fp8Parts returns the elements and scales of a weight [n, k], with the columns that share a scale.
func (c *Checkpoint) fp8Parts(name string, n, k int) (elements, scales entry, columns int, err error) {
	s := c.config.Quantization.fp8
	columns = s.columns
	if columns == 0 {
		columns = k
	}
	if elements, err = c.raw(name, []int{n, k}, storedFP8); err != nil {
		return elements, scales, 0, err
	}
	up := func(a, b int) int { return (a + b - 1) / b }
	scales, err = c.raw(layer(name)+s.suffix, []int{up(n, s.rows), up(k, columns)}, "F32", "BF16", "F16")
	return elements, scales, columns, err
}

// checkFP8 checks the parts of a weight and returns their names.
func (c *Checkpoint) checkFP8(name string, n, k int) ([]string, error) {
	_, _, _, err := c.fp8Parts(name, n, k)
	return []string{name, layer(name) + c.config.Quantization.fp8.suffix}, err
}

// denseFP8 returns a weight's values, rounded to fp32.
func (c *Checkpoint) denseFP8(name string, n, k int) (Tensor, error) {
	elements, stored, columns, err := c.fp8Parts(name, n, k)
	if err != nil {
		return Tensor{}, err
	}
	path := c.tensors[name].path
	groups, rows := (k+columns-1)/columns, c.config.Quantization.fp8.rows
	scales := make([]float64, (n+rows-1)/rows*groups)
	if err := kernels.Decode(readable[stored.dtype], stored.data, scales); err != nil {
		return Tensor{}, &Error{Path: path, Tensor: name, Reason: "scales can't be read", Err: err}
	}
	for i, s := range scales {
		if s-s != 0 {
			return Tensor{}, &Error{Path: path, Tensor: name,
				Reason: fmt.Sprintf("the scale of block (%d,%d) is %g", i/groups, i%groups, s)}
		}
	}
	var values [256]float64
	for code := range values {
		values[code] = kernels.DecodeFP8(uint8(code))
	}
	out := make([]byte, 4*n*k)
	inParallel(n, 16, func(first, last int) {
		for i := first; i < last; i++ {
			own, codes, to := scales[i/rows*groups:][:groups], elements.data[i*k:][:k], out[4*i*k:][:4*k]
			for j, code := range codes {
				binary.LittleEndian.PutUint32(to[4*j:4*j+4], math.Float32bits(float32(values[code]*own[j/columns])))
			}
		}
	})
	return Tensor{Name: name, DType: kernels.FP32, Shape: []int{n, k}, Data: out, path: path}, nil
}
