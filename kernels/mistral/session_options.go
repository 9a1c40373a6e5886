package mistral

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// SessionOptions say how much a session is for.
type SessionOptions struct {
	// Positions is the number of tokens, prompt and generated, that the session may see.
	Positions int
	// Window is how many keys a token sees, 0 for the model's own.
	Window int
	// Batch is the largest number of a prompt's tokens in one pass, 0 for [DefaultBatch];
	// less where the kernel takes less.
	Batch int
	// Table says which products of a prompt are split, padded or left to another kernel.
	Table *table.Table
	// Unfused runs every operation of a token by itself where fused ones exist.
	Unfused bool
}

// DefaultBatch is the largest number of a prompt's tokens in one pass.
const DefaultBatch = 4096

// plan is what follows from the options for a model of that configuration.
func (o SessionOptions) plan(c checkpoint.Config) (positions, window, batch, capacity int) {
	positions = max(o.Positions, 1)
	window = o.Window
	if window == 0 {
		window = c.Window
	}
	if window == 0 {
		window = c.Context
	}
	window = min(window, positions)
	batch = o.Batch
	if batch == 0 {
		batch = DefaultBatch
	}
	batch = min(batch, positions)
	// A row needs its window, and the first of a batch must still find its own when the
	// last one's keys are in.
	capacity = min(positions, window-1+batch)
	capacity = (capacity + kernels.CacheGranule - 1) / kernels.CacheGranule * kernels.CacheGranule
	return positions, window, batch, capacity
}

// SessionBytes is the memory that a session takes on a device: cache, table of angles and
// activations, with room for the rows that the table pads to.
func SessionBytes(c checkpoint.Config, dtype kernels.DType, o SessionOptions) int64 {
	positions, _, batch, capacity := o.plan(c)
	size := float64(dtype.Size()) // products of the largest sizes are no int64
	cache := float64(c.Layers) * 2 * float64(c.Heads.KV*c.Heads.Dim) * float64(capacity) * size
	row := float64(c.Hidden)*(4+2*size) + float64(c.Heads.Width()+c.Heads.Query*c.Heads.Dim+3*c.Inner)*size + 4
	all := cache + float64(positions)*float64(c.Heads.Dim)*4 + float64(o.rows(batch, dtype))*row + logitRows*float64(c.Vocab)*size
	return int64(min(all, math.MaxInt64/4))
}

// rows is for how many rows activations may need room for prompts of up to batch rows:
// the most that the table pads to, whatever kernel's product it is.
func (o SessionOptions) rows(batch int, dtype kernels.DType) int {
	most := batch
	if o.Table == nil {
		return most
	}
	for _, s := range o.Table.Series {
		if s.DType != string(dtype) {
			continue
		}
		if s.Default.Kind == table.Pad {
			most = max(most, s.Default.PadTo)
		}
		for _, i := range s.Intervals {
			if i.Action.Kind == table.Pad && i.From <= batch {
				most = max(most, i.Action.PadTo)
			}
		}
	}
	return most
}

// logitRows is for how many rows logits are computed at a time when all are wanted.
const logitRows = 256
