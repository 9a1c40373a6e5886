// Package sweep measures: it plans which products to time, in which order and for how long. It runs them in
// blocks on one or several devices, and writes every block to a run file at the latest while the next one
// runs. Package rules interprets the results.
//
//	# Batches
//
// A small language describes the Ms of a sweep. A grid is a comma-separated list of items; the result is
// their union, ascending, without duplicates.
//
//	grid  = item { "," item } .
//	item  = number | range | pow2 .
//	range = from ":" to [ ":" step ] .
//	pow2  = "pow2" [ ":" [ from ":" ] to ] .
//
// Examples:
//
//	1,2,4,8          these four
//	4:32768:4        4, 8, 12, … 32768; the end is included if a step hits it
//	250:260          every M from 250 to 260
//	pow2             1, 2, 4, … [DefaultMaxBatch]
//	pow2:4096        1, 2, 4, … 4096
//	pow2:64:4096     64, 128, … 4096; the powers of two between the bounds
//	pow2:64,96:512:32
//
// Numbers are decimal, from 1 to [MaxDimension]; a grid holds at most [MaxBatches] Ms. Blanks around items
// and case are ignored.
//
//	# Shapes
//
// A shape gives the dimensions of a weight matrix: "n14336k4096". Each dimension is its letter and a decimal
// number, in any order and case, with optional blanks: "K4096 N14336" is the same shape. N and K are
// required. An optional M, "m512n14336k4096", replaces the batch grid for this shape. An X makes it a batch:
// "n4096k4096x8" is eight products of that size in one launch, each with its own weights.
//
// A dimension other than M may be a range or powers of two, as in a grid: "n4000:4352:8k4096" stands for 45
// shapes, "npow2:1024:8192k4096" for four. Rules then compare them along N; see [ParseTargets].
//
// Attention is given by its heads, "q32kv8d128". Softmax is given by its columns, "c4096", followed by the
// queries of a sequence if it has a causal mask, "c512q512". See [ParseTarget].
//
//	# Models
//
// "llama3-8b" selects the four products of one layer as engines run them: qkv_proj, o_proj, gate_up_proj and
// down_proj. A selector picks others, "llama3-8b:lm_head", "llama3-8b:q_proj+k_proj", or every one,
// "llama3-8b:all". The path of a Hugging Face config.json may replace the name; package architecture lists
// the supported models. The notes of a plan list products of experts, and attention without a kernel, with
// shape and count; these are not measured. Tensor parallelism divides N of the column-parallel projections
// (q, k, v, gate, up, lm_head and their fused forms) and K of the row-parallel ones (o, down). KV heads are
// replicated if there are more ranks than KV heads.
//
//	# Shards
//
// "3/8" is the third of eight parts of a plan. The parts are disjoint and together form the plan; their sizes
// differ by at most one case. An inferred series is never split.
//
//	# Inferred series
//
// A sweep measures only some Ms of an inferred series. A [Designer] chooses seeds for the screening rounds.
// Given their samples, it asks for further rows, with as many samples each, until it needs no more. Package
// rules predicts the rest.
//
//	# Traffic
//
// [Plan].Traffic may give the frequency of each M. With a deadline, the sweep then adds rows of all series in
// steps ([Plan].Step), those with the most traffic first. Each step gets all its screening rounds before the
// next.
package sweep
