//go:build cuda

package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Operations has a decoder's operations on a GPU, apart from products and attention, and the fused ones.
type Operations struct{ *driver.Device }

type placedOperand struct {
	name       string
	operand    kernels.Operand
	rows, cols int
	dtype      kernels.DType
	to         *uint64
	optional   bool
}

// placeOperands finds operands, except optional ones without a buffer.
func (d Operations) placeOperands(operands ...placedOperand) (err error) {
	for _, o := range operands {
		if o.optional && o.operand.Buffer == nil {
			continue
		}
		if *o.to, err = d.Matrix(o.name, o.operand, o.rows, o.cols, o.cols, o.dtype); err != nil {
			return err
		}
	}
	return nil
}

// operation binds the calls that plan makes for addresses in at. It plans once before the operands are placed,
// which checks sizes before they are multiplied.
func (d Operations) operation(name string, dtype kernels.DType, sizes string, plan func() ([]planning.Call, error),
	operands ...placedOperand) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("%s: %w", name, err) }
	if _, err := plan(); err != nil {
		return fail(err)
	}
	if err := d.placeOperands(operands...); err != nil {
		return fail(err)
	}
	calls, err := plan()
	if err != nil {
		return fail(err)
	}
	held := make([]any, len(operands))
	for i, o := range operands {
		held[i] = o.operand.Buffer
	}
	key := fmt.Sprintf("%s %s %s %v", name, dtype, sizes, calls[0].Grid)
	l, err := d.NewLaunch(name, key, driver.Steps(calls), held...)
	if err != nil {
		return fail(err)
	}
	// A warm-up run would add and count twice; our kernels are already loaded.
	l.Primed = true
	return l, nil
}

func one(c planning.Call, err error) ([]planning.Call, error) { return []planning.Call{c}, err }

// Embed binds an embedding. As for all operations here, errors name the invalid operand or size.
func (d Operations) Embed(o kernels.Embedding) (kernels.Launch, error) {
	var at transformerAddresses
	return d.operation("embedding", o.DType, fmt.Sprint(o.Rows, o.Hidden),
		func() ([]planning.Call, error) { return one(embedCall(d.Arch(), o, at)) },
		placedOperand{"Tokens", o.Tokens, 1, o.Rows, kernels.INT32, &at.tokens, false},
		placedOperand{"Table", o.Table, o.Vocab, o.Hidden, o.DType, &at.table, false},
		placedOperand{"X", o.X, o.Rows, o.Hidden, kernels.FP32, &at.x, false})
}

// Normalize binds an RMSNorm with the addition before it.
func (d Operations) Normalize(o kernels.Normalization) (kernels.Launch, error) {
	var at transformerAddresses
	return d.operation("normalization", o.DType, fmt.Sprint(o.Rows, o.Hidden),
		func() ([]planning.Call, error) { return one(normalizeCall(d.Arch(), o, at)) },
		placedOperand{"X", o.X, o.Rows, o.Hidden, kernels.FP32, &at.x, false},
		placedOperand{"Weight", o.Weight, 1, o.Hidden, o.DType, &at.weight, false},
		placedOperand{"Out", o.Out, o.Rows - o.FromRow, o.Hidden, o.DType, &at.out, false},
		placedOperand{"Delta", o.Delta, o.Rows, o.Hidden, o.DType, &at.delta, true})
}

// rotationOperands lists the operands of a rotation for addresses in at.
func rotationOperands(o kernels.Rotation, at *transformerAddresses) []placedOperand {
	slots := o.Heads.KV * o.Cache.Capacity
	return []placedOperand{
		{"QKV", o.QKV, o.Rows, o.Heads.Width(), o.DType, &at.qkv, false},
		{"Position", o.Position, 1, 1, kernels.INT32, &at.position, false},
		{"Table", o.Table, o.Positions, o.Heads.Dim, kernels.FP32, &at.table, false},
		{"Keys", o.Cache.Keys, slots, o.Heads.Dim, o.DType, &at.keys, false},
		{"Values", o.Cache.Values, slots, o.Heads.Dim, o.DType, &at.values, false},
	}
}

// Rotate binds a rotary position embedding with the append to the cache. Positions after the end of the table
// use its last entry.
func (d Operations) Rotate(o kernels.Rotation) (kernels.Launch, error) {
	if err := unnormalized(o); err != nil {
		return nil, err
	}
	var at transformerAddresses
	return d.operation("rotation", o.DType, fmt.Sprint(o.Rows, o.Heads),
		func() ([]planning.Call, error) { return one(rotateCall(d.Arch(), o, at)) }, rotationOperands(o, &at)...)
}

// unnormalized refuses rotations that normalize heads first.
func unnormalized(o kernels.Rotation) error {
	if o.Normalizes() {
		return &kernels.Unsupported{Kernel: "rotation", DType: o.DType, Reason: "heads are normalized (qwen3) on the CPU only"}
	}
	return nil
}

// Activate binds a gated unit.
func (d Operations) Activate(o kernels.GatedUnit) (kernels.Launch, error) {
	var at transformerAddresses
	return d.operation("gated unit", o.DType, fmt.Sprint(o.Rows, o.Inner),
		func() ([]planning.Call, error) { return one(gatedCall(d.Arch(), o, at)) },
		placedOperand{"GateUp", o.GateUp, o.Rows, 2 * o.Inner, o.DType, &at.x, false},
		placedOperand{"Out", o.Out, o.Rows, o.Inner, o.DType, &at.out, false})
}

// Choose binds a token choice.
func (d Operations) Choose(o kernels.TokenChoice) (kernels.Launch, error) {
	var at transformerAddresses
	plan := func() ([]planning.Call, error) {
		if o.History.Buffer != nil {
			if err := checkSizes(namedSize{"history", o.HistoryLen}); err != nil {
				return nil, err
			}
		}
		calls, err := chooseCalls(d.Arch(), o, at)
		if err == nil && d.Arch().CC < 90 && at.scratch == 0 {
			if at.scratch, err = d.Scratch(8 * widestBlock); err == nil {
				calls, err = chooseCalls(d.Arch(), o, at)
			}
		}
		return calls, err
	}
	return d.operation("choice", o.DType, fmt.Sprint(o.Vocab), plan,
		placedOperand{"Logits", o.Logits, 1, o.Vocab, o.DType, &at.x, false},
		placedOperand{"Token", o.Token, 1, 1, kernels.INT32, &at.tokens, false},
		placedOperand{"Position", o.Position, 1, 1, kernels.INT32, &at.position, false},
		placedOperand{"History", o.History, 1, o.HistoryLen, kernels.INT32, &at.history, true})
}
