package kernels

import "fmt"

// The operations of a decoder-only transformer that are not matrix products, as
// package mistral asks devices for them. Each describes one launch; what changes from
// token to token (which tokens, and where in the sequence they stand) lies in device
// memory, so that a launch is bound once and run for every token.
//
// Rows are consecutive tokens of one sequence. Position is one int32: the position in
// the sequence of the first row. Activations are row-major and tight unless a leading
// dimension is given. The residual stream X is fp32 in every type.

// Embedding sets row i of X to row Tokens[i] of Table. A token outside of the table
// gives a row of zeros.
type Embedding struct {
	Rows, Hidden, Vocab int
	DType               DType   // of Table
	Tokens              Operand // int32 [Rows]
	Table               Operand // [Vocab, Hidden]
	X                   Operand // fp32 [Rows, Hidden]
}

// Normalization adds Delta to X, where there is a Delta, and sets each row of Out to
// x / √(mean(x²) + Epsilon) · Weight (RMSNorm; Zhang and Sennrich 2019), computed in
// fp32 and rounded to DType once. With FromRow, only rows from there on are normalized,
// to the front of Out; all are added to.
type Normalization struct {
	Rows, Hidden int
	FromRow      int
	DType        DType // of Delta, Weight and Out
	Epsilon      float64
	X            Operand // fp32 [Rows, Hidden]
	Delta        Operand // [Rows, Hidden]; none when its buffer is nil
	Weight       Operand // [Hidden]
	Out          Operand // [Rows-FromRow, Hidden]
}

// Heads are the sizes of grouped-query attention: Query heads, of which each
// Query/KV in a row share one of KV heads of keys and values, of Dim elements each.
type Heads struct{ Query, KV, Dim int }

// Width is the number of columns of queries, keys and values side by side.
func (h Heads) Width() int { return (h.Query + 2*h.KV) * h.Dim }

// Validate names the first size that is impossible.
func (h Heads) Validate() error {
	switch {
	case h.Query < 1 || h.KV < 1 || h.Dim < 1:
		return fmt.Errorf("heads: %d query heads, %d of keys and values, of %d: expected at least 1 of each", h.Query, h.KV, h.Dim)
	case h.Query%h.KV != 0:
		return fmt.Errorf("heads: %d query heads do not divide evenly among %d heads of keys and values", h.Query, h.KV)
	case h.Dim%2 != 0:
		return fmt.Errorf("heads: a head of %d elements has no halves to rotate", h.Dim)
	}
	return nil
}

// CacheGranule is what the capacity of a [KVCache] is a multiple of: kernels read keys
// and values in tiles that begin at multiples of powers of two up to it, so that none
// wraps around.
const CacheGranule = 256

// KVCache is a ring of the keys and values of one layer: those of the token at position p
// are in slot p mod Capacity, each [Heads.KV, Capacity, Heads.Dim] in the operands' type.
type KVCache struct {
	Capacity     int // slots, a multiple of [CacheGranule]
	Keys, Values Operand
}

// Rotation applies rotary position embedding (Su et al. 2021) to the queries, in place,
// and to the keys of QKV, and puts keys and values into the cache. Element i of a head
// is rotated with element i + Dim/2, as Hugging Face stores weights.
type Rotation struct {
	Rows     int
	Heads    Heads
	DType    DType
	QKV      Operand // [Rows, Heads.Width()]: query heads, then keys', then values'
	Position Operand // int32 [1]
	// Table is fp32 [Positions, Dim/2, 2]: cosine and sine of each pair's angle.
	Table     Operand
	Positions int
	Cache     KVCache
}

// Attention sets head h of row i of Out to softmax(q·Kᵀ·Scale)·V over the keys that
// the row sees: those of its own position p and before, from p-Window+1 on where Window
// is not 0. The cache holds them all: Capacity is at least the number of rows plus the
// least of Window-1 and the first row's position.
type Attention struct {
	Rows     int
	Heads    Heads
	DType    DType // fp32, fp16 or bf16; sums and softmax are fp32
	Window   int   // 0 for none
	Scale    float64
	Q        Operand // [Rows, LDQ]: heads side by side, already rotated
	LDQ      int     // in elements
	Position Operand // int32 [1]
	// Length bounds the position of the last row, plus one: what the host knows of
	// Position when it plans. It is at most what will be reached, not what is now.
	Length int
	Cache  KVCache
	Out    Operand // [Rows, Heads.Query*Heads.Dim]
}

// GatedUnit sets Out to silu(gate)·up, silu(x) = x/(1+e⁻ˣ) (SwiGLU; Shazeer 2020), in fp32.
type GatedUnit struct {
	Rows, Inner int
	DType       DType
	GateUp      Operand // [Rows, 2*Inner]: gate, then up
	Out         Operand // [Rows, Inner]
}

// TokenChoice takes the largest of Logits, the first of equal ones, as the next token:
// Token[0] becomes its index, Position[0] grows by one, and History[n mod len] the token
// too, where n is what Position was. NaN is never the largest.
type TokenChoice struct {
	Vocab    int
	DType    DType   // of Logits: the output type of a product
	Logits   Operand // [Vocab]
	Token    Operand // int32 [1]
	Position Operand // int32 [1]
	History  Operand // int32 [HistoryLen]; none when its buffer is nil
	// HistoryLen is the number of entries of History.
	HistoryLen int
}

// FusedProduct is a product for one row with what stands around it in a decoder, in one
// launch: the row is the normalized X when Norm is set, else A; the result is added to X
// when Add is set, is silu(gate)·up of its two halves when Gated is set, and else
// is written to C as it is.
type FusedProduct struct {
	N, K    int
	DType   DType
	Weights Weights // prepared by a kernel of the same device; integers are not rounded to DType first
	Norm    bool
	Epsilon float64
	Weight  Operand // of the normalization, [K]
	A       Operand // [K]
	X       Operand // fp32 [K] when Norm is set; fp32 [N] when Add is set; never both
	Add     bool
	Gated   bool    // N is twice the length of C
	C       Operand // [N], or [N/2]
}
