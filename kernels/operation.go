package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Operation is what is computed. The zero value is the matrix product, which is also
// what a file means that names no operation.
type Operation uint8

// The operations.
const (
	// GEMM is C[M,N] = A[M,K] · B[K,N], the weights B being the same for every M.
	GEMM Operation = iota
	// AttentionPrefill is causal attention of M tokens that begin a sequence.
	AttentionPrefill
	// AttentionDecode is attention of one token, the last of a sequence of M.
	AttentionDecode
	// DecoderPrompt is the pass of a whole decoder over a prompt of M tokens that begins a
	// sequence, with the logits of the last of them.
	DecoderPrompt
	// DecoderToken is the pass of a whole decoder over one token behind M others.
	DecoderToken
	// Softmax is that of each of M rows of a matrix, see [SoftmaxProblem].
	Softmax
	// LogSoftmax is the logarithm of it.
	LogSoftmax
)

// Dim is a dimension that does not change along a curve over M.
type Dim struct {
	Name  string // as it is stored: "kv_heads"
	Short string // as it is printed before the number: "kv"
	// Optional dimensions are 0 where they don't apply, and are not printed then.
	Optional bool
	// In is the dimension's place.
	In func(*Dims) *int
}

// definition is what the rest of the program asks of an operation.
type definition struct {
	name  string
	title string // for people: what M counts stands beside it
	swept string // what M counts
	dims  []Dim
	// check refuses dimensions that don't go together; each is at least 1 already.
	check func(Subject) error
	// flops is the operations of one execution.
	flops func(s Subject, m float64) float64
	// input and output are the elements that are read and written for each execution;
	// stored is the bits that it reads of the operand that stays in memory from launch to
	// launch, and operand what that is called.
	input, output, stored func(s Subject, m float64) float64
	operand               string
	// read is the elements of the input that are read, where that is not all of them.
	read      func(s Subject, m float64) float64
	weights   bool // that operand is weights, which have a layout
	divisible bool // rows are independent of each other
}

var (
	dimN     = Dim{Name: "n", Short: "n", In: func(d *Dims) *int { return &d.N }}
	dimK     = Dim{Name: "k", Short: "k", In: func(d *Dims) *int { return &d.K }}
	dimBatch = Dim{Name: "products", Short: "x", Optional: true, In: func(d *Dims) *int { return &d.Products }}
	dimHeads = []Dim{
		{Name: "query_heads", Short: "q", In: func(d *Dims) *int { return &d.QueryHeads }},
		{Name: "kv_heads", Short: "kv", In: func(d *Dims) *int { return &d.KVHeads }},
		{Name: "head_dim", Short: "d", In: func(d *Dims) *int { return &d.HeadDim }},
		{Name: "window", Short: "w", Optional: true, In: func(d *Dims) *int { return &d.Window }},
	}
	dimSoftmax = []Dim{
		{Name: "columns", Short: "c", In: func(d *Dims) *int { return &d.Columns }},
		{Name: "queries", Short: "q", Optional: true, In: func(d *Dims) *int { return &d.Queries }},
	}
	dimDecoder = slices.Concat([]Dim{
		{Name: "layers", Short: "l", In: func(d *Dims) *int { return &d.Layers }},
		{Name: "hidden", Short: "h", In: func(d *Dims) *int { return &d.Hidden }},
		{Name: "inner", Short: "i", In: func(d *Dims) *int { return &d.Inner }},
		{Name: "vocab", Short: "v", In: func(d *Dims) *int { return &d.Vocab }},
	}, dimHeads)
)

// definitions has one entry for each operation, in the order of the constants.
var definitions = []definition{
	GEMM: {
		name: "gemm", title: "matrix product", swept: "batch", operand: "weights", weights: true, divisible: true,
		dims:   []Dim{dimN, dimK, dimBatch},
		flops:  func(s Subject, m float64) float64 { return s.products() * 2 * m * float64(s.N) * float64(s.K) },
		input:  func(s Subject, m float64) float64 { return s.products() * m * float64(s.K) },
		output: func(s Subject, m float64) float64 { return s.products() * m * float64(s.N) },
		stored: func(s Subject, _ float64) float64 { return s.products() * s.weightBits() },
	},
	AttentionPrefill: {
		name: "attention-prefill", title: "attention in prefill", swept: "tokens", operand: "keys and values",
		dims: dimHeads, check: checkHeads,
		flops: func(s Subject, m float64) float64 { return 4 * s.headWidth() * seenPairs(m, float64(s.Window)) },
		input: func(s Subject, m float64) float64 { return m * s.headWidth() }, output: func(s Subject, m float64) float64 { return m * s.headWidth() },
		stored: func(s Subject, m float64) float64 { return s.cacheBits(m) },
	},
	AttentionDecode: {
		name: "attention-decode", title: "attention in decode", swept: "tokens of context", operand: "keys and values",
		dims: dimHeads, check: checkHeads,
		flops: func(s Subject, m float64) float64 { return 4 * s.headWidth() * s.context(m) },
		input: func(s Subject, _ float64) float64 { return s.headWidth() }, output: func(s Subject, _ float64) float64 { return s.headWidth() },
		stored: func(s Subject, m float64) float64 { return s.cacheBits(s.context(m)) },
	},
	DecoderPrompt: {
		name: "decoder-prompt", title: "prompt of a decoder", swept: "tokens", operand: "weights",
		dims: dimDecoder, check: checkHeads, stored: decoderBits,
		flops: func(s Subject, m float64) float64 {
			return 2*m*s.layerWeights() + 2*s.headWeights() + float64(s.Layers)*4*s.headWidth()*seenPairs(m, float64(s.Window))
		},
		// The keys and values of every layer.
		output: func(s Subject, m float64) float64 {
			return 2 * m * float64(s.Layers) * float64(s.KVHeads*s.HeadDim)
		},
	},
	DecoderToken: {
		name: "decoder-token", title: "token of a decoder", swept: "tokens of context", operand: "weights, keys and values",
		dims: dimDecoder, check: checkHeads,
		flops: func(s Subject, m float64) float64 {
			return 2*(s.layerWeights()+s.headWeights()) + float64(s.Layers)*4*s.headWidth()*s.context(m+1)
		},
		stored: func(s Subject, m float64) float64 {
			return decoderBits(s, m) + float64(s.Layers)*s.cacheBits(s.context(m+1))
		},
	},
	Softmax:    softmaxDefinition("softmax", "softmax"),
	LogSoftmax: softmaxDefinition("log-softmax", "logarithm of softmax"),
}

// softmaxDefinition is that of softmax and of its logarithm. The largest, a difference, an
// exponential, a sum and a quotient, or another difference, count one each for every element
// that is not masked.
func softmaxDefinition(name, title string) definition {
	matrix := func(s Subject, m float64) float64 { return m * float64(s.Columns) }
	return definition{
		name: name, title: title, swept: "rows", divisible: true,
		dims: dimSoftmax, check: checkQueries,
		flops: func(s Subject, m float64) float64 { return 5 * s.unmasked(m) },
		input: matrix, output: matrix, read: Subject.unmasked,
	}
}

// Operations lists the operations.
func Operations() []Operation {
	out := make([]Operation, len(definitions))
	for i := range out {
		out[i] = Operation(i)
	}
	return out
}

// ParseOperation reads an operation by its name.
func ParseOperation(s string) (Operation, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	if i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == word }); i >= 0 {
		return Operation(i), nil
	}
	var names []string
	for _, d := range definitions {
		names = append(names, d.name)
	}
	return 0, fmt.Errorf("unknown operation %q: expected one of %s", s, strings.Join(names, ", "))
}

func (o Operation) definition() *definition {
	if int(o) < len(definitions) {
		return &definitions[o]
	}
	return &definition{name: fmt.Sprintf("operation %d", uint8(o))}
}

// String is the operation's name: "gemm".
func (o Operation) String() string { return o.definition().name }

// Title is the operation's name for people: "matrix product".
func (o Operation) Title() string { return o.definition().title }

// Swept is what M counts: "rows", "tokens".
func (o Operation) Swept() string { return o.definition().swept }

// Dims lists the dimensions beside M in the order in which they are printed.
func (o Operation) Dims() []Dim { return o.definition().dims }

// HasWeights says that an operand is the same for every M and stays from launch to
// launch, so that it has a layout and a format of its own.
func (o Operation) HasWeights() bool { return o.definition().weights }

// Stores says that an operand stays in memory from launch to launch: weights, or keys and
// values. Where none does, all that a launch reads is new to it.
func (o Operation) Stores() bool { return o.definition().stored != nil }

// Stored is what the operand is called that stays in memory from launch to launch:
// "weights".
func (o Operation) Stored() string { return o.definition().operand }

// MarshalText writes the name.
func (o Operation) MarshalText() ([]byte, error) {
	if int(o) >= len(definitions) {
		return nil, fmt.Errorf("%v is unknown", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads a name.
func (o *Operation) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOperation(string(text))
	return err
}

// Layout says how the weights lie in memory. The zero value is RowMajor, which is also
// what a file means that names no layout.
type Layout uint8

// The two ways in which B is stored.
const (
	// RowMajor is B[K,N] with N contiguous, as torch.mm(A, B) gets it: "kn".
	RowMajor Layout = iota
	// Transposed is B[N,K] with K contiguous, as a linear layer stores its weight: "nk".
	Transposed
)

var layoutNames = []string{RowMajor: "kn", Transposed: "nk"}

// ParseLayout reads a layout by its name.
func ParseLayout(s string) (Layout, error) {
	if i := slices.Index(layoutNames, strings.ToLower(strings.TrimSpace(s))); i >= 0 {
		return Layout(i), nil
	}
	return 0, fmt.Errorf("unknown layout %q: expected %s", s, strings.Join(layoutNames, " or "))
}

// String is the layout's name: "kn".
func (l Layout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return fmt.Sprintf("layout %d", uint8(l))
}

// MarshalText writes the name.
func (l Layout) MarshalText() ([]byte, error) {
	if int(l) >= len(layoutNames) {
		return nil, fmt.Errorf("%v is unknown", l)
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads a name.
func (l *Layout) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLayout(string(text))
	return err
}
