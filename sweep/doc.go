// Package sweep measures: it plans which products are timed, in which order and
// for how long, runs them in blocks on one or several devices, and writes every
// block to a run file when it is known, at the latest while the next one runs. It decides nothing about what the
// numbers mean; package rules does.
//
// # Batches
//
// The Ms of a sweep are written in a little language. A grid is a list of items
// separated by commas; the result is their union, ascending, each M once.
//
//	grid  = item { "," item } .
//	item  = number | range | pow2 .
//	range = from ":" to [ ":" step ] .
//	pow2  = "pow2" [ ":" [ from ":" ] to ] .
//
// Examples:
//
//	1,2,4,8          these four
//	4:32768:4        4, 8, 12, … 32768; the end belongs to the range when a step hits it
//	250:260          every M from 250 to 260
//	pow2             1, 2, 4, … [DefaultMaxBatch]
//	pow2:4096        1, 2, 4, … 4096
//	pow2:64:4096     64, 128, … 4096; the powers of two between the bounds
//	pow2:64,96:512:32
//
// Numbers are decimal, from 1 to [MaxDimension]; a grid holds at most
// [MaxBatches] Ms. Blanks around items are ignored and case does not matter.
//
// # Shapes
//
// A shape names the dimensions of a weight matrix: "n14336k4096". Each dimension
// is its letter and a decimal number, in any order and case, with blanks between
// them allowed: "K4096 N14336" is the same shape. N and K must be there. An M may
// be there, "m512n14336k4096", and then replaces the batch grid for this shape. An X
// makes a batch of it, "n4096k4096x8": eight products of that size in one launch, each
// with weights of its own.
//
// Attention is written by its heads, "q32kv8d128", and softmax by its columns, "c4096", with the
// queries of a sequence behind them where it has a causal mask, "c512q512": see [ParseHeads] and
// [ParseColumns].
//
// # Models
//
// "llama3-8b" stands for the four products of one layer as engines run them:
// qkv_proj, o_proj, gate_up_proj and down_proj. A selector picks others,
// "llama3-8b:lm_head", "llama3-8b:q_proj+k_proj", or every one, "llama3-8b:all".
// In the model's place there may be the path of a Hugging Face config.json: see package
// architecture for the models that are known. Products of experts, and attention without a kernel,
// are listed in the notes of a plan with their shape and count, and not measured.
// Tensor parallelism divides N of the column-parallel projections (q, k, v, gate,
// up, lm_head and what is fused of them) and K of the row-parallel ones (o, down);
// when there are more ranks than KV heads, KV heads are replicated.
//
// # Shards
//
// "3/8" is the third of eight parts of a plan. The parts are disjoint, together
// they are the plan, and their sizes differ by one case at most. Series that are inferred are
// dealt as they are, each to one part.
//
// # Inferred series
//
// Of an inferred series not every M is measured. A [Designer] names its seeds, which the
// screening rounds measure, and then, given their samples, further rows, which get as many
// samples as the screening takes, until it asks for no more. What follows of the rows that
// were not measured is for package rules to say.
//
// # Traffic
//
// Where it is known how often each M is served ([Plan].Traffic) and there is a deadline, rows of all
// series are taken in by steps ([Plan].Step), each of which gets all its screening rounds before
// the next one: those first that tell of most traffic.
package sweep
