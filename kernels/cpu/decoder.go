package cpu

/*
#include <stdlib.h>
#include "native/decoder.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// operation binds one operation and collects errors in its description.
type operation struct {
	dev  *Device
	name string
	err  error
	keep []any
}

func (o *operation) size(name string, value, least int) C.int64_t {
	if value < least {
		o.err = errors.Join(o.err, fmt.Errorf("%s: %s is %d, expected at least %d", o.name, name, value, least))
	}
	return C.int64_t(value)
}

func (o *operation) dtype(t kernels.DType) C.ga_dtype {
	switch t {
	case kernels.FP32, kernels.FP16, kernels.BF16:
		return dtypeCodes[t]
	}
	o.err = errors.Join(o.err, fmt.Errorf("%s: dtype is %q, expected fp32, fp16 or bf16", o.name, t))
	return 0
}

func (o *operation) check(err error) {
	if err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("%s: %w", o.name, err))
	}
}

// operand returns the address of rows×cols contiguous elements and keeps their buffer alive. Check sizes and
// types first: operand sizes depend on them.
func (o *operation) operand(name string, at kernels.Operand, rows, cols int, t kernels.DType) unsafe.Pointer {
	return o.matrix(name, at, rows, cols, cols, t)
}

func (o *operation) matrix(name string, at kernels.Operand, rows, cols, ld int, t kernels.DType) unsafe.Pointer {
	if o.err != nil {
		return nil
	}
	p, err := o.dev.matrix(name, at, rows, cols, ld, t)
	o.check(err)
	o.keep = append(o.keep, at.Buffer)
	return p
}

// operationPlan owns an operation's description and scratch in C memory. A cleanup frees both with the
// launch.
type operationPlan struct{ c unsafe.Pointer }

// bind copies the description to C memory, followed by scratch bytes, and returns a launch on all threads.
func bind[T any](o *operation, kernel C.ga_kernel, description T, scratch int) (kernels.Launch, error) {
	if o.err != nil {
		return nil, o.err
	}
	bytes := C.size_t(unsafe.Sizeof(description)) + C.size_t(scratch)
	plan := (*T)(C.malloc(bytes))
	if plan == nil {
		return nil, fmt.Errorf("%s: no memory for a plan of %d bytes", o.name, bytes)
	}
	*plan = description
	owner := &operationPlan{unsafe.Pointer(plan)}
	runtime.AddCleanup(owner, func(p unsafe.Pointer) { C.free(p) }, owner.c)
	return kernelLaunch(kernel, C.ga_gemm{plan: owner.c}, o.dev.Threads(), "", append(o.keep, owner)...), nil
}

func (d *Device) decoder() *C.ga_decoder { return C.ga_decoder_for(d.isa()) }

// Embed binds a lookup of token rows in a table.
func (d *Device) Embed(e kernels.Embedding) (kernels.Launch, error) {
	o := &operation{dev: d, name: "embed"}
	c := C.ga_embedding{
		rows: o.size("rows", e.Rows, 1), hidden: o.size("hidden", e.Hidden, 1), vocab: o.size("vocab", e.Vocab, 1), dtype: o.dtype(e.DType),
	}
	c.tokens = (*C.int32_t)(o.operand("Tokens", e.Tokens, 1, e.Rows, kernels.INT32))
	c.table = o.operand("Table", e.Table, e.Vocab, e.Hidden, e.DType)
	c.x = (*C.float)(o.operand("X", e.X, e.Rows, e.Hidden, kernels.FP32))
	return bind(o, d.decoder().embed, c, 0)
}

// Normalize binds RMSNorm and the preceding addition. One thread sums the squares of a row.
func (d *Device) Normalize(n kernels.Normalization) (kernels.Launch, error) {
	o := &operation{dev: d, name: "normalize"}
	c := C.ga_normalization{
		rows: o.size("rows", n.Rows, 1), hidden: o.size("hidden", n.Hidden, 1), from_row: o.size("from row", n.FromRow, 0),
		dtype: o.dtype(n.DType), epsilon: C.float(n.Epsilon),
	}
	if n.FromRow >= n.Rows {
		o.check(fmt.Errorf("from row %d of %d, expected one of them", n.FromRow, n.Rows))
	}
	c.x = (*C.float)(o.operand("X", n.X, n.Rows, n.Hidden, kernels.FP32))
	if n.Delta.Buffer != nil {
		c.delta = o.operand("Delta", n.Delta, n.Rows, n.Hidden, n.DType)
	}
	c.weight = o.operand("Weight", n.Weight, 1, n.Hidden, n.DType)
	c.out = o.operand("Out", n.Out, n.Rows-n.FromRow, n.Hidden, n.DType)
	return bind(o, d.decoder().normalize, c, 0)
}

func (o *operation) heads(h kernels.Heads) {
	o.check(h.Validate())
	if h.Dim > mostHeadDim {
		o.check(fmt.Errorf("heads: a head has %d elements, expected at most %d", h.Dim, mostHeadDim))
	}
}

const mostHeadDim = C.GA_MAX_DIM

func (o *operation) cache(k kernels.KVCache, h kernels.Heads, t kernels.DType) (keys, values unsafe.Pointer) {
	if k.Capacity < 1 || k.Capacity%kernels.CacheGranule != 0 {
		o.check(fmt.Errorf("cache capacity is %d, expected a multiple of %d", k.Capacity, kernels.CacheGranule))
	}
	return o.operand("Keys", k.Keys, h.KV*k.Capacity, h.Dim, t), o.operand("Values", k.Values, h.KV*k.Capacity, h.Dim, t)
}

// Rotate binds rotary position embedding and the cache update. It leaves the keys in QKV unchanged.
func (d *Device) Rotate(r kernels.Rotation) (kernels.Launch, error) {
	o := &operation{dev: d, name: "rotate"}
	c := C.ga_rotation{
		rows: o.size("rows", r.Rows, 1), query: C.int64_t(r.Heads.Query), kv: C.int64_t(r.Heads.KV), dim: C.int64_t(r.Heads.Dim),
		positions: o.size("positions", r.Positions, 1), capacity: C.int64_t(r.Cache.Capacity), dtype: o.dtype(r.DType),
	}
	o.heads(r.Heads)
	c.keys, c.values = o.cache(r.Cache, r.Heads, r.DType)
	c.qkv = o.operand("QKV", r.QKV, r.Rows, r.Heads.Width(), r.DType)
	c.position = (*C.int32_t)(o.operand("Position", r.Position, 1, 1, kernels.INT32))
	c.table = (*C.float)(o.operand("Table", r.Table, r.Positions, r.Heads.Dim, kernels.FP32))
	if r.Normalizes() {
		c.query_norm = o.operand("QueryNorm", r.QueryNorm, 1, r.Heads.Dim, r.DType)
		c.key_norm = o.operand("KeyNorm", r.KeyNorm, 1, r.Heads.Dim, r.DType)
		c.epsilon = C.float(r.Epsilon)
	}
	if r.Rows > r.Cache.Capacity {
		o.check(fmt.Errorf("%d rows into a cache capacity of %d, expected no more rows", r.Rows, r.Cache.Capacity))
	}
	return bind(o, d.decoder().rotate, c, 0)
}

// Attend binds attention with online softmax.
func (d *Device) Attend(a kernels.Attention) (kernels.Launch, error) {
	o := &operation{dev: d, name: "attend"}
	c := C.ga_attention{
		rows: o.size("rows", a.Rows, 1), query: C.int64_t(a.Heads.Query), kv: C.int64_t(a.Heads.KV), dim: C.int64_t(a.Heads.Dim),
		window: o.size("window", a.Window, 0), ldq: o.size("ldq", a.LDQ, a.Heads.Query*a.Heads.Dim), capacity: C.int64_t(a.Cache.Capacity),
		dtype: o.dtype(a.DType), scale: C.float(a.Scale * math.Log2E), splits: 1,
	}
	o.heads(a.Heads)
	o.size("length", a.Length, a.Rows)
	need := a.Length
	if a.Window > 0 {
		need = min(need, a.Rows+a.Window-1)
	}
	if need > a.Cache.Capacity {
		o.check(fmt.Errorf("cache capacity is %d, expected at least %d for %d rows, window %d and length %d",
			a.Cache.Capacity, need, a.Rows, a.Window, a.Length))
	}
	c.keys, c.values = o.cache(a.Cache, a.Heads, a.DType)
	c.q = o.matrix("Q", a.Q, a.Rows, a.Heads.Query*a.Heads.Dim, a.LDQ, a.DType)
	c.position = (*C.int32_t)(o.operand("Position", a.Position, 1, 1, kernels.INT32))
	c.out = o.operand("Out", a.Out, a.Rows, a.Heads.Query*a.Heads.Dim, a.DType)
	parts := 0
	if o.err == nil && a.Rows <= C.GA_SPLIT_ROWS {
		// Splits start at multiples of tiles, so the keys may need one more.
		if splits := min((need+C.GA_TILE_KEYS+C.GA_SPLIT_KEYS-1)/C.GA_SPLIT_KEYS, C.GA_SPLITS); splits > 1 {
			c.splits = C.int64_t(splits)
			parts = splits * a.Rows * a.Heads.Query * (a.Heads.Dim + 2) * 4
		}
	}
	return bind(o, d.decoder().attend, c, parts)
}

// Activate binds the gated unit.
func (d *Device) Activate(g kernels.GatedUnit) (kernels.Launch, error) {
	o := &operation{dev: d, name: "gate"}
	c := C.ga_gated_unit{rows: o.size("rows", g.Rows, 1), inner: o.size("inner", g.Inner, 1), dtype: o.dtype(g.DType)}
	c.gate_up = o.operand("GateUp", g.GateUp, g.Rows, 2*g.Inner, g.DType)
	c.out = o.operand("Out", g.Out, g.Rows, g.Inner, g.DType)
	return bind(o, d.decoder().gate, c, 0)
}

// Choose binds the selection of the largest logit.
func (d *Device) Choose(ch kernels.TokenChoice) (kernels.Launch, error) {
	o := &operation{dev: d, name: "choose"}
	c := C.ga_choice{vocab: o.size("vocab", ch.Vocab, 1), dtype: o.dtype(ch.DType)}
	c.logits = o.operand("Logits", ch.Logits, 1, ch.Vocab, ch.DType)
	c.token = (*C.int32_t)(o.operand("Token", ch.Token, 1, 1, kernels.INT32))
	c.position = (*C.int32_t)(o.operand("Position", ch.Position, 1, 1, kernels.INT32))
	if ch.History.Buffer != nil {
		c.history_len = o.size("history length", ch.HistoryLen, 1)
		c.history = (*C.int32_t)(o.operand("History", ch.History, 1, ch.HistoryLen, kernels.INT32))
	}
	return bind(o, d.decoder().choose, c, 0)
}
