package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Operation is a kind of computation. The zero value is the matrix product, also the default of files.
type Operation uint8

const (
	// GEMM is C[M,N] = A[M,K] · B[K,N] with the same weights B for every M.
	GEMM Operation = iota
	// AttentionPrefill is causal attention of the first M tokens of a sequence.
	AttentionPrefill
	// AttentionDecode is attention of one token, the last of M.
	AttentionDecode
	// DecoderPrompt is a decoder's forward pass over a prompt of M tokens, with the logits of the last.
	DecoderPrompt
	// DecoderToken is a decoder's forward pass over one token after M others.
	DecoderToken
	// Softmax is the softmax of each of M rows of a matrix: with z = Scale·x, e^(z-max z) ÷ Σe^(z-max z), each
	// output rounded once. Input and output are row-major [M, Columns], contiguous, and must not overlap. Sums are
	// fp32. With Queries, the mask is causal: rows are sequences of this many queries, at most Columns, and row r
	// sees columns up to r mod Queries + Columns - Queries. Masked elements have no effect; their output is 0.
	//
	// Infinities and NaN follow PyTorch: a row whose visible elements include NaN or +Inf, or are all -Inf, is
	// NaN where not masked. Otherwise -Inf gives 0.
	Softmax
	// LogSoftmax is its logarithm, z - max z - log Σe^(z-max z), and -Inf where softmax is 0.
	LogSoftmax
	// GroupedGEMM is a product of rows that are sorted by group, each group with its own weights.
	GroupedGEMM
	// FusedGEMM is a product with an [Epilogue].
	FusedGEMM
)

var (
	dimN       = Dim{Name: "n", Short: "n", In: func(d *Dims) *int { return &d.N }}
	dimK       = Dim{Name: "k", Short: "k", In: func(d *Dims) *int { return &d.K }}
	dimBatch   = Dim{Name: "products", Short: "x", Optional: true, In: func(d *Dims) *int { return &d.Products }}
	dimProduct = []Dim{dimN, dimK, dimBatch}
	dimHeads   = []Dim{
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

// definitions has one entry per operation, in the order of the constants.
var definitions = []Definition{
	GEMM: {
		Name: "gemm", Title: "matrix product", Swept: "batch", Operand: "weights", Weights: true,
		Pads:    func(Subject) bool { return true }, // engines pad weights when they load them
		Divides: func(s Subject) bool { return s.OverM() && s.Products == 0 },
		Dims:    dimProduct, Along: dimProduct, Scaled: []Dim{dimN, dimK}, Product: true, Parts: Projections,
		Probes: []Dims{{N: 4096, K: 4096}}, Least: []Dims{{N: 1, K: 1}}, Expected: shapeExpected,
		FLOPs:  func(s Subject, m float64) float64 { return s.products() * 2 * m * float64(s.N) * float64(s.K) },
		Input:  func(s Subject, m float64) float64 { return s.products() * m * float64(s.K) },
		Output: func(s Subject, m float64) float64 { return s.products() * m * float64(s.N) },
		Stored: func(s Subject, _ float64) float64 { return s.products() * s.weightBits() },
	},
	AttentionPrefill: {
		Name: "attention-prefill", Title: "attention in prefill", Swept: "tokens", Operand: "keys and values",
		Dims: dimHeads, Along: dimHeads, Check: checkHeads, Group: "attention", Parts: PromptAttention, Probes: headProbes,
		Expected: headsExpected, DTypes: floats, Room: func(s Subject, tokens int) float64 { return s.cacheBits(float64(tokens)) },
		FLOPs:  func(s Subject, m float64) float64 { return 4 * s.headWidth() * seenPairs(m, float64(s.Window)) },
		Input:  func(s Subject, m float64) float64 { return m * s.headWidth() },
		Output: func(s Subject, m float64) float64 { return m * s.headWidth() },
		Stored: func(s Subject, m float64) float64 { return s.cacheBits(m) },
	},
	AttentionDecode: {
		Name: "attention-decode", Title: "attention in decode", Swept: "tokens of context", Operand: "keys and values",
		Dims: dimHeads, Along: dimHeads, Check: checkHeads, Group: "attention", Parts: TokenAttention, Probes: headProbes,
		Expected: headsExpected, DTypes: floats,
		Room:   func(s Subject, tokens int) float64 { return s.cacheBits(float64(s.windowRoom(tokens))) },
		FLOPs:  func(s Subject, m float64) float64 { return 4 * s.headWidth() * s.context(m) },
		Input:  func(s Subject, _ float64) float64 { return s.headWidth() },
		Output: func(s Subject, _ float64) float64 { return s.headWidth() },
		Stored: func(s Subject, m float64) float64 { return s.cacheBits(s.context(m)) },
	},
	DecoderPrompt: {
		Name: "decoder-prompt", Title: "prompt of a decoder", Swept: "tokens", Operand: "weights",
		Composite: true, Dims: dimDecoder, Check: checkHeads, Stored: decoderBits,
		FLOPs: func(s Subject, m float64) float64 {
			return 2*m*s.layerWeights() + 2*s.headWeights() + float64(s.Layers)*4*s.headWidth()*seenPairs(m, float64(s.Window))
		},
		Output: func(s Subject, m float64) float64 {
			return 2 * m * float64(s.Layers) * float64(s.KVHeads*s.HeadDim)
		},
	},
	DecoderToken: {
		Name: "decoder-token", Title: "token of a decoder", Swept: "tokens of context", Operand: "weights, keys and values",
		Composite: true, Dims: dimDecoder, Check: checkHeads,
		FLOPs: func(s Subject, m float64) float64 {
			return 2*(s.layerWeights()+s.headWeights()) + float64(s.Layers)*4*s.headWidth()*s.context(m+1)
		},
		Stored: func(s Subject, m float64) float64 {
			return decoderBits(s, m) + float64(s.Layers)*s.cacheBits(s.context(m+1))
		},
	},
	Softmax:     softmaxDefinition("softmax", "softmax", Probabilities),
	LogSoftmax:  softmaxDefinition("log-softmax", "logarithm of softmax", LogProbabilities),
	GroupedGEMM: groupedDefinition(),
	FusedGEMM:   fusedDefinition(),
}

// init sets functions that refer to definitions themselves.
func init() {
	definitions[GEMM].Normalize, definitions[GEMM].Gate, definitions[GEMM].Ladder = normalizeProduct, CheckKernels, gemmLadder
	definitions[GEMM].Extents = productExtents
	grouped := &definitions[GroupedGEMM]
	grouped.Normalize, grouped.Reference, grouped.Cases, grouped.Faults = normalizeGrouped, groupedReference, groupedCases, groupedFaults
	grouped.Check, grouped.Stored, grouped.Held, grouped.Extents = checkRouting, activeWeights, heldWeights, groupedExtents
	grouped.Gate = GroupedGEMM.checkByReference
	fused := &definitions[FusedGEMM]
	fused.Normalize, fused.Reference, fused.Cases, fused.Faults = normalizeFused, fusedReference, fusedCases, fusedFaults
	fused.Check, fused.Extents, fused.Gate = checkEpilogue, fusedExtents, FusedGEMM.checkByReference
	for _, o := range []Operation{Softmax, LogSoftmax} {
		definitions[o].Normalize, definitions[o].Gate, definitions[o].Ladder = normalizeSoftmax, CheckSoftmaxes, softmaxLadder
	}
	for _, o := range []Operation{AttentionPrefill, AttentionDecode} {
		definitions[o].Gate, definitions[o].Ladder = gateAttention, attentionLadder
		definitions[o].Computes = func(d Device) bool { _, ok := d.(Attender); return ok }
	}
}

const (
	shapeExpected = "n and k, as in n14336k4096, and possibly m and x, as in m512n14336k4096x8"
	headsExpected = "heads of queries, heads of keys and values and elements of a head, as in q32kv8d128, possibly a window and m, as " +
		"in m512q32kv8d128w4096"
	columnsExpected = "columns, possibly queries of a causal mask and m, as in c4096, c512q512 or m32768c16"
)

// floats are the types of operations that are not products.
var floats = []DType{FP32, FP16, BF16}

var headProbes = []Dims{{QueryHeads: 32, KVHeads: 8, HeadDim: 128}}

const (
	slowReference = "it is the slow reference"
	rung          = "part of auto; --kernel ladder measures it alone"
	ofIntegers    = "auto picks among our kernels for quantized weights"
)

// The ladders list our kernels that are measured only on request, each with the reason: users run a library, or
// auto.
var (
	gemmLadder = map[string]string{
		"naive": slowReference,
		"tiled": rung, "gemv": rung,
		"amx": rung, "scaled": rung, // of CPUs
		"wmma": rung, "mma": rung, "hopper": rung, // of GPUs
	}
	softmaxLadder = map[string]string{
		"naive": slowReference,
		"warp":  rung, "block": rung, "cluster": rung, "reread": rung,
	}
	attentionLadder = map[string]string{"naive": slowReference}
)

// productsOnRequest are the other kernels of products that are measured only on request: kernels for quantized
// weights only, which auto includes, and variants of auto and of a library.
var productsOnRequest = map[string]string{
	"w4a16": ofIntegers, "w8a16": ofIntegers,
	"int8-activations": "it rounds activations to 8 bits",
	"auto-serial":      "auto without launch overlap, to compare with engines that lack it",
	"cublaslt-fast":    "cublaslt with faster, less accurate fp8 sums",
	"cublas-separate":  "cublaslt-separate is the same pass, compared with cublaslt's own epilogues",
	"cublaslt-streams": "cublas-streams is the same loop over groups, with cuBLAS's own choice of kernels",
}

// OnRequest returns why a kernel is measured only on request, or "". All versions of a library are alike.
func (o Operation) OnRequest(kernel string) string {
	if why := o.definition().Ladder[kernel]; why != "" || !o.HasWeights() {
		return why
	}
	name, _ := SplitVersion(kernel)
	return productsOnRequest[name]
}

// softmaxDefinition defines softmax or its logarithm. Each unmasked element counts five operations: maximum,
// difference, exponential, sum, and quotient or second difference.
func softmaxDefinition(name, title string, parts ModelParts) Definition {
	matrix := func(s Subject, m float64) float64 { return m * float64(s.Columns) }
	return Definition{
		Name: name, Title: title, Swept: "rows", Pads: Subject.OverM,
		Divides: func(s Subject) bool { return s.OverM() && s.Queries == 0 }, // a part would begin inside a sequence
		Dims:    dimSoftmax, Along: dimSoftmax, Check: checkQueries, Group: "softmax", Parts: parts, Probes: []Dims{{Columns: 1024}},
		Expected: columnsExpected, DTypes: floats,
		MFU:   "MFU of softmax is the achieved bandwidth divided by the copy bandwidth, since memory limits softmax.",
		FLOPs: func(s Subject, m float64) float64 { return 5 * s.unmasked(m) },
		Input: matrix, Output: matrix, Read: Subject.unmasked,
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
	if i := slices.IndexFunc(definitions, func(d Definition) bool { return d.Name == word }); i >= 0 {
		return Operation(i), nil
	}
	var names []string
	for _, d := range definitions {
		names = append(names, d.Name)
	}
	return 0, fmt.Errorf("unknown operation %q: expected one of %s", s, strings.Join(names, ", "))
}

func (o Operation) definition() *Definition {
	if int(o) < len(definitions) {
		return &definitions[o]
	}
	return &Definition{Name: fmt.Sprintf("operation %d", uint8(o))}
}

// String returns the operation's Name: "gemm".
func (o Operation) String() string { return o.definition().Name }

// Title returns the operation's name for people: "matrix product".
func (o Operation) Title() string { return o.definition().Title }

// Swept returns the unit of M: "rows", "tokens".
func (o Operation) Swept() string { return o.definition().Swept }

// Dims lists the dimensions other than M in printing order.
func (o Operation) Dims() []Dim { return o.definition().Dims }

// Definition returns the operation's definition.
func (o Operation) Definition() Definition { return *o.definition() }

// LimitedByMemory reports whether MFU of the operation is relative to the bandwidth of memory.
func (o Operation) LimitedByMemory() bool { return o.definition().MFU != "" }

// Computes reports whether the operation computes the parts of a model.
func (o Operation) Computes(p ModelParts) bool { return o.definition().Parts == p }

// IsProduct reports whether the operation multiplies A by weights.
func (o Operation) IsProduct() bool { return o.definition().Product }

// IsDefault reports whether the operation is the one of files and commands that name none.
func (o Operation) IsDefault() bool { return o == GEMM }

// HasWeights reports whether one operand is the same for every M and stays in memory between launches, with
// its own layout and format.
func (o Operation) HasWeights() bool { return o.definition().Weights }

// Stores reports whether an operand stays in memory between launches: weights, or keys and values. Otherwise
// launches read only new data.
func (o Operation) Stores() bool { return o.definition().Stored != nil }

// Stored returns the name of the stored Operand: "weights".
func (o Operation) Stored() string { return o.definition().Operand }

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
