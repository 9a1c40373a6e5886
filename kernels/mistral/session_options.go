package mistral

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// SessionOptions are a session's limits and settings.
type SessionOptions struct {
	// Positions is the maximum number of tokens, prompt and generated.
	Positions int
	// Window is the number of keys that a token sees, 0 for the model's own.
	Window int
	// Batch is the largest number of prompt tokens per pass, 0 for [DefaultBatch]; less if the kernel
	// supports less.
	Batch int
	// Table lists products of a prompt to split, pad or run with another kernel.
	Table *table.Table
	// Unfused disables fused operations.
	Unfused bool
}

// DefaultBatch is the default of SessionOptions.Batch.
const DefaultBatch = 4096

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
	// A row needs its window. The first row of a batch must still find its keys after the last row's are
	// stored.
	capacity = min(positions, window-1+batch)
	capacity = (capacity + kernels.CacheGranule - 1) / kernels.CacheGranule * kernels.CacheGranule
	return positions, window, batch, capacity
}

// SessionBytes returns a session's device memory: cache, angle table and activations, with room for the rows
// that the table pads to.
func SessionBytes(c checkpoint.Config, dtype kernels.DType, o SessionOptions) int64 {
	positions, _, batch, capacity := o.plan(c)
	size := float64(dtype.Size()) // products of the largest sizes overflow int64
	cache := float64(c.Layers) * 2 * float64(c.Heads.KV*c.Heads.Dim) * float64(capacity) * size
	row := float64(c.Hidden)*(4+2*size) + float64(c.Heads.Width()+c.Heads.Query*c.Heads.Dim+3*c.Inner)*size + 4
	if c.Experts > 0 {
		row += float64(c.TopK)*float64(2*c.Hidden+3*c.Inner)*size - float64(3*c.Inner)*size + float64(c.Layers*c.Experts)*size
	}
	all := cache + float64(positions)*float64(c.Heads.Dim)*4 + float64(o.rows(batch, dtype))*row + logitRows*float64(c.Vocab)*size
	return int64(min(all, math.MaxInt64/4))
}

// rows returns the rows needed for activations of prompts up to batch: the most that the table pads to, for
// any kernel.
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

// logitRows is the number of rows of logits computed at a time when all are needed.
const logitRows = 256
