package producer

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// readOneDNN reads oneDNN's verbose log: one line per call with milliseconds at the end. Early versions write
// memory descriptions with "_" after the operand, later ones with ":".
func readOneDNN(in io.Reader, take taker) error {
	return eachLine(in, func(line int, text string) error {
		fields := strings.Split(text, ",")
		at := slices.Index(fields, "exec")
		marked := strings.HasSuffix(fields[0], "onednn_verbose") || strings.HasSuffix(fields[0], "dnnl_verbose")
		if !marked || at < 0 {
			return nil // other output, or oneDNN's own settings
		}
		r, err := oneDNNRow(fields[at+1:])
		return take.row(line, r, err)
	})
}

func oneDNNRow(fields []string) (Row, error) {
	r := Row{Kernel: "onednn"}
	if len(fields) < 9 {
		return r, errCut
	}
	primitive, memory, problem, ms := fields[1], fields[4], fields[len(fields)-2], fields[len(fields)-1]
	r.Label = fields[2]
	tensors := oneDNNMemory(memory)
	src, weights := tensors["src"], tensors["wei"]
	if weights.dtype == "" {
		weights = tensors["weights"]
	}
	var err error
	switch primitive {
	case "matmul":
		err = matmul(&r, problem, src, weights)
	case "inner_product":
		err = innerProduct(&r, problem)
	default:
		err = errors.New("it is another primitive than matmul")
	}
	if err != nil {
		return r, err
	}
	a, err := dtypeOf(src.dtype)
	if err != nil {
		return r, err
	}
	if b, err := dtypeOf(weights.dtype); err != nil || a != b {
		return r, errMixed
	}
	r.Subject.DType = a
	if d, err := dtypeOf(tensors["dst"].dtype); err == nil {
		output(&r.Subject, d)
	}
	err = r.time(ms, 1e3)
	return r, err
}

// tensor is a memory description: type and axis order.
type tensor struct{ dtype, order string }

// oneDNNMemory reads "src:bf16::blocked:ab::f0 wei_f32::blocked:ba:f0".
func oneDNNMemory(s string) map[string]tensor {
	out := map[string]tensor{}
	for _, word := range strings.Fields(s) {
		words := strings.FieldsFunc(word, func(r rune) bool { return r == ':' || r == '_' })
		at := slices.Index(words, "blocked")
		if len(words) < 2 {
			continue
		}
		t := tensor{dtype: words[1]}
		if len(words) > 2 && at != 2 && strings.HasPrefix(words[2], "e4m3") {
			t.dtype += "_" + words[2]
		}
		if at > 0 && at+1 < len(words) {
			t.order = words[at+1]
		}
		if _, twice := out[words[0]]; !twice {
			out[words[0]] = t
		}
	}
	return out
}

// matmul reads "4x16x32:4x32x64" or "16x32:32x64:16x64". A batch with shared weights is one product.
func matmul(r *Row, problem string, src, weights tensor) error {
	operands := strings.Split(problem, ":")
	if len(operands) < 2 {
		return errUnknown
	}
	a, okA := dims(operands[0])
	b, okB := dims(operands[1])
	if !okA || !okB || len(a) != len(b) || len(a) < 2 {
		return errUnknown
	}
	batchA, batchB := product(a[:len(a)-2]), product(b[:len(b)-2])
	a, b = a[len(a)-2:], b[len(b)-2:]
	if a[1] != b[0] {
		return errSizes
	}
	r.M, r.Subject.N, r.Subject.K = a[0], b[1], a[1]
	switch {
	case batchB == 1:
		r.M *= batchA
	case batchA == batchB:
		r.Subject.Products = batchA
	default:
		return errShared
	}
	if r.M > maxSize {
		return errUnknown
	}
	if transposed(src.order) && r.M > 1 {
		return errTransposed
	}
	r.LayoutKnown = plain(weights.order)
	if transposed(weights.order) {
		r.Subject.Layout = kernels.Transposed
	}
	return nil
}

// transposed reports whether the last two axes are transposed, as in "ba" and "acb".
func transposed(order string) bool {
	n := len(order)
	return plain(order) && order[n-1] < order[n-2]
}

// plain reports whether an order has plain axes. Blocked ones have upper-case letters and sizes.
func plain(order string) bool {
	return len(order) >= 2 && strings.Trim(order, "abcdefghijkl") == ""
}

var innerProductForm = regexp.MustCompile(`^mb(\d{1,9})ic(\d{1,9})oc(\d{1,9})$`)

// innerProduct reads "mb16ic4096oc4096". Weights are [oc,ic].
func innerProduct(r *Row, problem string) error {
	m := innerProductForm.FindStringSubmatch(problem)
	if m == nil {
		return errUnknown
	}
	r.M, _ = strconv.Atoi(m[1])
	r.Subject.K, _ = strconv.Atoi(m[2])
	r.Subject.N, _ = strconv.Atoi(m[3])
	r.Subject.Layout, r.LayoutKnown = kernels.Transposed, true
	return nil
}

func dims(s string) (out []int, ok bool) {
	for word := range strings.SplitSeq(s, "x") {
		n, ok := parseSize(word)
		if !ok || len(out) == 12 {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

func product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		if n *= s; n > maxSize {
			return maxSize + 1
		}
	}
	return n
}
