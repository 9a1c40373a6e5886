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
}

func (d Operations) placeOperands(operands ...placedOperand) (err error) {
	for _, o := range operands {
		if *o.to, err = d.Matrix(o.name, o.operand, o.rows, o.cols, o.cols, o.dtype); err != nil {
			return err
		}
	}
	return nil
}

func (d Operations) operation(name string, dtype kernels.DType, sizes string, cs []planning.Call,
	keep ...kernels.Operand) (kernels.Launch, error) {
	held := make([]any, len(keep))
	for i, o := range keep {
		held[i] = o.Buffer
	}
	plan := fmt.Sprintf("%s %s %s %v", name, dtype, sizes, cs[0].Grid)
	l, err := d.NewLaunch(name, plan, driver.Steps(cs), held...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// A warm-up run would add and count twice; our kernels are already loaded.
	l.Primed = true
	return l, nil
}

// Embed binds an embedding. As for all operations here, errors name the invalid operand or size.
func (d Operations) Embed(o kernels.Embedding) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("embedding: %w", err) }
	var at transformerAddresses
	if _, err := embedCall(d.Arch(), o, at); err != nil { // checks sizes before multiplying them
		return fail(err)
	}
	err := d.placeOperands(
		placedOperand{"Tokens", o.Tokens, 1, o.Rows, kernels.INT32, &at.tokens},
		placedOperand{"Table", o.Table, o.Vocab, o.Hidden, o.DType, &at.table},
		placedOperand{"X", o.X, o.Rows, o.Hidden, kernels.FP32, &at.x})
	if err != nil {
		return fail(err)
	}
	c, err := embedCall(d.Arch(), o, at)
	if err != nil {
		return fail(err)
	}
	return d.operation("embedding", o.DType, fmt.Sprint(o.Rows, o.Hidden), []planning.Call{c}, o.Tokens, o.Table, o.X)
}

// Normalize binds an RMSNorm with the addition before it.
func (d Operations) Normalize(o kernels.Normalization) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("normalization: %w", err) }
	var at transformerAddresses
	if _, err := normalizeCall(d.Arch(), o, at); err != nil {
		return fail(err)
	}
	operands := []placedOperand{
		{"X", o.X, o.Rows, o.Hidden, kernels.FP32, &at.x},
		{"Weight", o.Weight, 1, o.Hidden, o.DType, &at.weight},
		{"Out", o.Out, o.Rows - o.FromRow, o.Hidden, o.DType, &at.out},
	}
	if o.Delta.Buffer != nil {
		operands = append(operands, placedOperand{"Delta", o.Delta, o.Rows, o.Hidden, o.DType, &at.delta})
	}
	if err := d.placeOperands(operands...); err != nil {
		return fail(err)
	}
	c, err := normalizeCall(d.Arch(), o, at)
	if err != nil {
		return fail(err)
	}
	return d.operation("normalization", o.DType, fmt.Sprint(o.Rows, o.Hidden), []planning.Call{c}, o.X, o.Delta, o.Weight, o.Out)
}

func (d Operations) rotationOperands(o kernels.Rotation) (at transformerAddresses, err error) {
	if err := checkRotation(d.Arch(), o); err != nil {
		return at, err
	}
	slots := o.Heads.KV * o.Cache.Capacity
	return at, d.placeOperands(
		placedOperand{"QKV", o.QKV, o.Rows, o.Heads.Width(), o.DType, &at.qkv},
		placedOperand{"Position", o.Position, 1, 1, kernels.INT32, &at.position},
		placedOperand{"Table", o.Table, o.Positions, o.Heads.Dim, kernels.FP32, &at.table},
		placedOperand{"Keys", o.Cache.Keys, slots, o.Heads.Dim, o.DType, &at.keys},
		placedOperand{"Values", o.Cache.Values, slots, o.Heads.Dim, o.DType, &at.values})
}

// Rotate binds a rotary position embedding with the append to the cache. Positions after the end of the table
// use its last entry.
func (d Operations) Rotate(o kernels.Rotation) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("rotation: %w", err) }
	at, err := d.rotationOperands(o)
	if err != nil {
		return fail(err)
	}
	c, err := rotateCall(d.Arch(), o, at)
	if err != nil {
		return fail(err)
	}
	return d.operation("rotation", o.DType, fmt.Sprint(o.Rows, o.Heads), []planning.Call{c}, o.QKV, o.Position, o.Table, o.Cache.Keys,
		o.Cache.Values)
}

// Activate binds a gated unit.
func (d Operations) Activate(o kernels.GatedUnit) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("gated unit: %w", err) }
	var at transformerAddresses
	if _, err := gatedCall(d.Arch(), o, at); err != nil {
		return fail(err)
	}
	err := d.placeOperands(
		placedOperand{"GateUp", o.GateUp, o.Rows, 2 * o.Inner, o.DType, &at.x},
		placedOperand{"Out", o.Out, o.Rows, o.Inner, o.DType, &at.out})
	if err != nil {
		return fail(err)
	}
	c, err := gatedCall(d.Arch(), o, at)
	if err != nil {
		return fail(err)
	}
	return d.operation("gated unit", o.DType, fmt.Sprint(o.Rows, o.Inner), []planning.Call{c}, o.GateUp, o.Out)
}

// Choose binds a token choice.
func (d Operations) Choose(o kernels.TokenChoice) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("choice: %w", err) }
	var at transformerAddresses
	if _, err := chooseCalls(d.Arch(), o, at); err != nil {
		return fail(err)
	}
	operands := []placedOperand{
		{"Logits", o.Logits, 1, o.Vocab, o.DType, &at.x},
		{"Token", o.Token, 1, 1, kernels.INT32, &at.tokens},
		{"Position", o.Position, 1, 1, kernels.INT32, &at.position},
	}
	if o.History.Buffer != nil {
		if err := checkSizes(namedSize{"history", o.HistoryLen}); err != nil {
			return fail(err)
		}
		operands = append(operands, placedOperand{"History", o.History, 1, o.HistoryLen, kernels.INT32, &at.history})
	}
	err := d.placeOperands(operands...)
	if err == nil && d.Arch().CC < 90 {
		at.scratch, err = d.Scratch(8 * widestBlock)
	}
	if err != nil {
		return fail(err)
	}
	cs, err := chooseCalls(d.Arch(), o, at)
	if err != nil {
		return fail(err)
	}
	return d.operation("choice", o.DType, fmt.Sprint(o.Vocab), cs, o.Logits, o.Token, o.Position, o.History)
}
