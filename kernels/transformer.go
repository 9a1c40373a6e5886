package kernels

import "fmt"

// The operations of a decoder-only transformer other than matrix products, as package mistral uses them. Each
// describes one launch. Values that change per token (tokens and positions) are in device memory, so that a
// launch is bound once and run for every token.
//
// Rows are consecutive tokens of one sequence. Position is one int32, the sequence position of the first row.
// Activations are row-major and contiguous unless a leading dimension is given. The residual stream X is
// always fp32.

// Embedding sets row i of X to row Tokens[i] of Table. A token outside the table gives zeros.
type Embedding struct {
	Rows, Hidden, Vocab int
	DType               DType   // of Table
	Tokens              Operand // int32 [Rows]
	Table               Operand // [Vocab, Hidden]
	X                   Operand // fp32 [Rows, Hidden]
}

// Normalization adds Delta, if any, to X and sets each row of Out to x / √(mean(x²) + Epsilon) · Weight
// (RMSNorm; Zhang and Sennrich 2019), computed in fp32 and rounded once. All rows are added to; only rows
// from FromRow on are normalized, to the front of Out.
type Normalization struct {
	Rows, Hidden int
	FromRow      int
	DType        DType // of Delta, Weight and Out
	Epsilon      float64
	X            Operand // fp32 [Rows, Hidden]
	Delta        Operand // [Rows, Hidden]; none if its buffer is nil
	Weight       Operand // [Hidden]
	Out          Operand // [Rows-FromRow, Hidden]
}

// Heads are the sizes of grouped-query attention: Query/KV consecutive query heads share one of KV key-value
// heads; each head has Dim elements.
type Heads struct{ Query, KV, Dim int }

// Width returns the columns of queries, keys and values together.
func (h Heads) Width() int { return (h.Query + 2*h.KV) * h.Dim }

// Validate names the first invalid size.
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

// CacheGranule divides every [KVCache] capacity. Kernels read keys and values in tiles aligned to powers of
// two up to it, so no tile wraps around.
const CacheGranule = 256

// KVCache is a ring buffer of one layer's keys and values: position p is in slot p mod Capacity, each
// [Heads.KV, Capacity, Heads.Dim] in the operands' type.
type KVCache struct {
	Capacity     int // slots, a multiple of [CacheGranule]
	Keys, Values Operand
}

// Rotation applies rotary position embedding (Su et al. 2021) to the queries, in place, and to the keys of
// QKV, and stores keys and values in the cache. Element i of a head pairs with i + Dim/2, as in Hugging Face
// weights.
type Rotation struct {
	Rows     int
	Heads    Heads
	DType    DType
	QKV      Operand // [Rows, Heads.Width()]: query, key, then value heads
	Position Operand // int32 [1]
	// Table is fp32 [Positions, Dim/2, 2]: the cosine and sine of each pair's angle.
	Table     Operand
	Positions int
	Cache     KVCache
	// QueryNorm and KeyNorm are the weights of RMSNorm [Dim] of each query and key head before it is rotated, with Epsilon;
	// without buffers there is none.
	QueryNorm, KeyNorm Operand
	Epsilon            float64
}

// Normalizes reports whether heads are normalized first.
func (r Rotation) Normalizes() bool { return r.QueryNorm.Buffer != nil }

// Attention sets head h of row i of Out to softmax(q·Kᵀ·Scale)·V over the keys visible to the row: positions
// up to its own p, from p-Window+1 if Window is not 0. The cache must hold all of them: Capacity is at least
// the rows plus min(Window-1, first position).
type Attention struct {
	Rows     int
	Heads    Heads
	DType    DType // fp32, fp16 or bf16; sums and softmax are fp32
	Window   int   // 0 for none
	Scale    float64
	Q        Operand // [Rows, LDQ]: heads contiguous, already rotated
	LDQ      int     // in elements
	Position Operand // int32 [1]
	// Length is an upper bound of the last row's position plus one, for planning. It covers the positions
	// that launches will reach.
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

// TokenChoice takes the largest of Logits, the first if equal, as the next token: it is stored in Token[0]
// and History[n mod len], with n the old Position[0], which then increments. NaN is never the largest.
type TokenChoice struct {
	Vocab      int
	DType      DType   // of Logits: a product's output type
	Logits     Operand // [Vocab]
	Token      Operand // int32 [1]
	Position   Operand // int32 [1]
	History    Operand // int32 [HistoryLen]; none if its buffer is nil
	HistoryLen int
}

// FusedProduct is a one-row product fused with its neighbors in a decoder. The row is the normalized X if
// Norm is set, otherwise A. The result is added to X if Add is set, is silu(gate)·up of its halves if Gated
// is set, and otherwise written to C.
type FusedProduct struct {
	N, K    int
	DType   DType
	Weights Weights // from a kernel of the same device; integers are not rounded to DType first
	Norm    bool
	Epsilon float64
	Weight  Operand // the normalization weight, [K]
	A       Operand // [K]
	X       Operand // fp32 [K] if Norm is set, fp32 [N] if Add is set; never both
	Add     bool
	Gated   bool    // N is twice C's length
	C       Operand // [N], or [N/2]
}

// FusedExperts are a layer's gated units for one row. The router is multiplied by the normalized X, the TopK experts with the
// largest results are chosen, and their outputs are added to X, weighted by the softmax over all results divided by its sum
// over the chosen.
type FusedExperts struct {
	Hidden, Inner int
	TopK          int
	DType         DType
	Epsilon       float64
	X             Operand // fp32 [Hidden]
	Weight        Operand // the normalization weight, [Hidden]
	// Weights are from kernels of the same device: the router's [experts, Hidden] are not quantized, and those of all experts
	// have one format. Units are [2·Inner, Hidden], gate then up, and Outputs [Hidden, Inner].
	Router         Weights
	Units, Outputs []Weights
	Inputs         Operand // [TopK, Inner], the units' results
	// Choice is the device's, [ExpertChoiceBytes] long. It must not be shared by layers.
	Choice Operand
}

// ExpertChoiceBytes is the size of FusedExperts.Choice.
func ExpertChoiceBytes(experts, topK int) int64 { return int64(16*experts + 24*topK) }

// ExpertRows copies rows to others: row i of To is row Rows[i] of From.
type ExpertRows struct {
	Count, Columns int // of To
	DType          DType
	From           Operand // [FromRows, Columns]
	FromRows       int
	To             Operand // [Count, Columns]
	Rows           Operand // int32 [Count]
}

// ExpertSums sets each row of To to the weighted sum of TopK rows of From, in fp32 and rounded once.
type ExpertSums struct {
	Count, Columns int // of To
	TopK           int
	DType          DType
	From           Operand // [Count·TopK, Columns]
	To             Operand // [Count, Columns]
	Rows           Operand // int32 [Count, TopK], rows of From
	Shares         Operand // fp32 [Count, TopK]
}
