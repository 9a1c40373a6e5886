package kernels

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Dims are the dimensions that are constant along a curve over M. [Operation.Dims] lists an operation's; the
// others are 0.
type Dims struct {
	N int `json:"n,omitempty"` // columns of C
	K int `json:"k,omitempty"` // the summed dimension
	// Products is the number of independent products per launch, each with its own weights; 0 for a single
	// one.
	Products   int `json:"products,omitempty"`
	QueryHeads int `json:"query_heads,omitempty"`
	KVHeads    int `json:"kv_heads,omitempty"` // key-value heads
	HeadDim    int `json:"head_dim,omitempty"` // elements per head
	Window     int `json:"window,omitempty"`   // visible tokens, 0 for all previous ones
	Hidden     int `json:"hidden,omitempty"`   // width of a decoder's residual stream
	Inner      int `json:"inner,omitempty"`    // width of a gated unit
	Layers     int `json:"layers,omitempty"`
	Vocab      int `json:"vocab,omitempty"`
	Columns    int `json:"columns,omitempty"` // columns of a normalized row
	Queries    int `json:"queries,omitempty"` // rows per sequence under a causal mask, 0 for no mask
	Groups     int `json:"groups,omitempty"`  // of rows, each with its own weights: experts
	TopK       int `json:"top_k,omitempty"`   // groups per token of a drawn routing
	Skew       int `json:"skew,omitempty"`    // of a drawn routing, in hundredths; 0 for equal chances
	Draw       int `json:"draw,omitempty"`    // seed of a drawn routing; 0 if it is not drawn
	Routing    int `json:"routing,omitempty"` // hash of a recorded routing; 0 if it is not recorded
	// Epilogue is that of a fused product; 0 for other operations.
	Epilogue Epilogue `json:"epilogue,omitempty"`
}

// Subject is an operation with all properties of its operands that are constant along a curve over M. It is
// comparable.
type Subject struct {
	Operation Operation `json:"operation"`
	DType     DType     `json:"dtype"`
	Dims
	// Weights is the format of quantized weights.
	Weights WeightFormat `json:"weights,omitzero"`
	// Output and Accumulator are set only if they differ from the defaults for DType.
	Output      DType `json:"output,omitempty"`
	Accumulator DType `json:"accumulator,omitempty"`
	// Layout is the weights' layout, RowMajor if there are none; JSON omits RowMajor.
	Layout Layout `json:"layout,omitzero"`
	// Along is the dimension that the curve runs along, M by default.
	Along Along `json:"along,omitzero"`
}

// names lists the dimensions that are not 0: "queries 8".
func (d Dims) names() string {
	var out []string
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		if n := v.Field(i).Int(); n != 0 {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(out, ", ")
}

// Product returns a matrix product of unquantized operands with weights [K,N].
func Product(d DType, n, k int) Subject { return Subject{DType: d, Dims: Dims{N: n, K: k}} }

// Linear returns a matrix product with weights [N,K], as linear layers store them.
func Linear(d DType, n, k int) Subject { return Product(d, n, k).In(Transposed) }

// In returns the subject with the weights' layout.
func (s Subject) In(l Layout) Subject {
	s.Layout = l
	return s
}

// Stores returns the subject with the dimensions that its stored operand depends on; others are 0. Weights of grouped
// products serve every routing.
func (s Subject) Stores() Subject {
	for _, d := range s.Operation.Dims() {
		if d.Routes {
			*d.In(&s.Dims) = 0
		}
	}
	return s
}

// OutputType returns the type of the output.
func (s Subject) OutputType() DType { return cmp.Or(s.Output, s.DType.Output()) }

// AccumulatorType returns the type of the sums.
func (s Subject) AccumulatorType() DType { return cmp.Or(s.Accumulator, s.DType.Accumulator()) }

func (s Subject) products() float64 { return float64(max(1, s.Products)) }

func (s Subject) weightBits() float64 {
	if s.Quantized() {
		return s.Weights.bits(float64(s.K), float64(s.N))
	}
	return float64(s.K) * float64(s.N) * float64(s.DType.Bits())
}

func (s Subject) context(m float64) float64 {
	if w := float64(s.Window); w > 0 {
		return min(m, w)
	}
	return m
}

func (s Subject) headWidth() float64 { return float64(s.QueryHeads) * float64(s.HeadDim) }

func (s Subject) cacheBits(tokens float64) float64 {
	return 2 * tokens * float64(s.KVHeads) * float64(s.HeadDim) * float64(s.DType.Bits())
}

// seenPairs counts the pairs of a token and a token visible to it, itself included, among m tokens; window 0
// means none.
func seenPairs(m, window float64) float64 {
	if window <= 0 || window >= m {
		return m * (m + 1) / 2
	}
	return window*(window+1)/2 + (m-window)*window
}

// unmasked returns the number of unmasked elements in m rows, see [Subject.Seen].
func (s Subject) unmasked(m float64) float64 {
	q := float64(s.Queries)
	if q == 0 {
		return m * float64(s.Columns)
	}
	whole := math.Floor(m / q)
	rest := m - whole*q
	return m*(float64(s.Columns)-q) + whole*q*(q+1)/2 + rest*(rest+1)/2
}

func checkQueries(s Subject) error {
	if s.Queries > s.Columns {
		return fmt.Errorf("queries is %d, expected at most the %d columns", s.Queries, s.Columns)
	}
	return nil
}

func checkHeads(s Subject) error { return s.Heads().Validate() }

// layerWeights and headWeights count a decoder's weights in all layers and in the output projection.
func (s Subject) layerWeights() float64 {
	h, q, kv := float64(s.Hidden), float64(s.QueryHeads)*float64(s.HeadDim), float64(s.KVHeads)*float64(s.HeadDim)
	return float64(s.Layers) * (2*h*q + 2*h*kv + 3*h*float64(s.Inner))
}

func (s Subject) headWeights() float64 { return float64(s.Hidden) * float64(s.Vocab) }

func decoderBits(s Subject, _ float64) float64 {
	return (s.layerWeights() + s.headWeights()) * float64(s.DType.Bits())
}

// Heads returns an attention's head sizes.
func (s Subject) Heads() Heads {
	return Heads{Query: s.QueryHeads, KV: s.KVHeads, Dim: s.HeadDim}
}

// FLOPs returns the operations of one execution at M = m; a multiply-add counts as two. Attention's
// exponentials are not counted, by convention.
func (s Subject) FLOPs(m int) float64 {
	s, m = s.At(m)
	if f := s.Operation.definition().FLOPs; f != nil {
		return f(s, float64(m))
	}
	return 0
}

// Bytes returns the minimum traffic in bytes at M = m: unmasked operands read once and the output written
// once.
func (s Subject) Bytes(m int) float64 {
	s, m = s.At(m)
	read := float64(s.InputElements(m))
	if f := s.Operation.definition().Read; f != nil {
		read = f(s, float64(m))
	}
	read += float64(s.ResidualElements(m))
	in, out := read*float64(s.DType.Bits()), float64(s.OutputElements(m))*float64(s.OutputType().Bits())
	return (in+out)/8 + float64(s.scaleBytes(m)) + s.StoredBytes(m)
}

// InputElements returns the elements of DType that are new to each execution at M = m: activations, queries.
func (s Subject) InputElements(m int) int64 {
	s, m = s.At(m)
	if f := s.Operation.definition().Input; f != nil {
		return int64(f(s, float64(m)))
	}
	return 0
}

// ResidualElements returns the elements of DType of a second input at M = m, which is added to the output.
func (s Subject) ResidualElements(m int) int64 {
	s, m = s.At(m)
	if f := s.Operation.definition().Residual; f != nil {
		return int64(f(s, float64(m)))
	}
	return 0
}

// OutputElements returns the elements written at M = m.
func (s Subject) OutputElements(m int) int64 {
	s, m = s.At(m)
	if f := s.Operation.definition().Output; f != nil {
		return int64(f(s, float64(m)))
	}
	return 0
}

// StoredBytes returns the part of [Subject.Bytes] that stays in memory between launches: weights, or keys and
// values of earlier tokens.
func (s Subject) StoredBytes(m int) float64 {
	s, m = s.At(m)
	if f := s.Operation.definition().Stored; f != nil {
		return f(s, float64(m)) / 8
	}
	return 0
}

// Paddable reports whether a larger size along the curve gives the result of a smaller one, with padding in
// place: rows that are independent, or weights, which an engine can pad when it loads them.
func (s Subject) Paddable() bool {
	pads := s.Operation.definition().Pads
	return pads != nil && pads(s)
}

// Divisible reports whether M rows may be split into launches. Batches can't: the rows of a part are not
// contiguous in A and C. Neither can causally masked rows: a part would begin inside a sequence.
func (s Subject) Divisible() bool {
	divides := s.Operation.definition().Divides
	return divides != nil && divides(s)
}

// Validate returns an error that names the first invalid field.
func (s Subject) Validate() error {
	along := s.Along
	s, _ = s.At(1)
	def := s.Operation.definition()
	if def.Dims == nil {
		return fmt.Errorf("%v is unknown", s.Operation)
	}
	rest := s.Dims
	for _, d := range def.Dims {
		value := d.In(&s.Dims)
		if *value < 0 || *value == 0 && !d.Optional {
			return fmt.Errorf("%s is %d, expected at least 1", d.Name, *value)
		}
		*d.In(&rest) = 0
	}
	switch {
	case rest != (Dims{}):
		return fmt.Errorf("%s has dimensions of another operation: %s", def.Name, rest.names())
	case s.DType.Bits() == 0 || s.DType == INT32 || s.DType == E8M0:
		return fmt.Errorf("dtype %q can't be an operand", s.DType)
	case !def.Weights && (s.Layout != RowMajor || s.Weights != WeightFormat{}):
		return fmt.Errorf("%s has no weights, and so neither layout nor format of them", def.Name)
	case int(s.Layout) >= len(layoutNames):
		return fmt.Errorf("%v is unknown", s.Layout)
	}
	if def.Check != nil {
		s.Along = along
		return def.Check(s)
	}
	return nil
}

// Size returns the dimensions in conventional form: "n14336 k4096", "q32 kv8 d128". Along another dimension
// than M it has the rows' M instead: "m64 k4096".
func (s Subject) Size() string {
	var words []string
	if !s.OverM() {
		words = append(words, "m"+strconv.Itoa(s.Along.M))
	}
	for _, d := range s.Operation.Dims() {
		if v := *d.In(&s.Dims); d.Name != s.Along.Dimension && (v != 0 || !d.Optional) {
			words = append(words, d.text(v))
		}
	}
	return strings.Join(words, " ")
}

// text prints a value: "n14336", "bias+gelu".
func (d Dim) text(v int) string {
	if d.Word != nil {
		return d.Word(v)
	}
	return d.Short + strconv.Itoa(v)
}

// Traits returns the non-default properties, each after a space: the layout of [N,K] weights, their format,
// non-default types.
func (s Subject) Traits() string {
	var b strings.Builder
	if s.Layout != RowMajor {
		b.WriteString(" " + s.Layout.String())
	}
	if s.Quantized() {
		b.WriteString(" weights " + s.Weights.String())
	}
	if s.Output != "" {
		b.WriteString(" output " + string(s.Output))
	}
	if s.Accumulator != "" {
		b.WriteString(" accumulator " + string(s.Accumulator))
	}
	return b.String() + s.alongText()
}

// String returns "bf16 n4096 k4096 nk"; operations other than the product come first.
func (s Subject) String() string {
	text := string(s.DType) + " " + s.Size() + s.Traits()
	if !s.Operation.IsDefault() {
		text = s.Operation.String() + " " + text
	}
	return text
}

// Compare orders subjects by their fields.
func (s Subject) Compare(o Subject) int {
	order := cmp.Or(cmp.Compare(s.Operation, o.Operation), cmp.Compare(s.DType, o.DType))
	for _, d := range s.Operation.Dims() {
		order = cmp.Or(order, cmp.Compare(*d.In(&s.Dims), *d.In(&o.Dims)))
	}
	return cmp.Or(order, cmp.Compare(s.Layout, o.Layout), cmp.Compare(s.Weights.String(), o.Weights.String()),
		cmp.Compare(s.Output, o.Output), cmp.Compare(s.Accumulator, o.Accumulator),
		cmp.Compare(s.Along.Dimension, o.Along.Dimension), cmp.Compare(s.Along.M, o.Along.M))
}
