package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// AttentionKernel is an attention kernel of a device.
type AttentionKernel interface {
	// Name selects the kernel and is stored in runs: "flash".
	Name() string
	// Describe is one line for people.
	Describe() string
	// Attends checks sizes and types, not operands. It returns nil or an [*Unsupported] with the reason.
	Attends(a Attention) error
	// Attend binds an attention. The error names the invalid operand or size.
	Attend(a Attention) (Launch, error)
}

// AttentionKernels returns attention kernels of d as kernels of [AttentionPrefill] and [AttentionDecode].
func AttentionKernels(d Device, all []AttentionKernel) []Kernel {
	out := make([]Kernel, len(all))
	for i, k := range all {
		out[i] = attention{AttentionKernel: k, device: d}
		if p, ok := k.(PlannedAttention); ok {
			out[i] = plannedAttention{attention{AttentionKernel: k, device: d}, p}
		}
	}
	return out
}

// PlannedAttention is [Planned] for attention kernels.
type PlannedAttention interface {
	AttentionKernel
	Plan(n int) AttentionKernel
}

type plannedAttention struct {
	attention
	planned PlannedAttention
}

// Plan implements [Planned].
func (p plannedAttention) Plan(n int) Kernel {
	return attention{AttentionKernel: p.planned.Plan(n), device: p.device}
}

// attention is an attention kernel for the first M tokens of a sequence or for the last of M.
type attention struct {
	AttentionKernel
	TellsNothing
	device Device
}

// keysAndValues is a filled cache with the positions that launches may read.
type keysAndValues struct {
	raw       Buffer
	capacity  int
	positions Buffer // int32 [extent]: 0, 1, 2, …
	extent    int
}

func (k *keysAndValues) Bytes() int64 { return k.raw.Bytes() }
func (k *keysAndValues) Close() error { return k.positions.Close() }

// Attention returns the attention of a task, without operands.
func (t Task) Attention() Attention {
	a := Attention{
		Rows: t.M, Heads: t.Heads(), DType: t.DType, Window: t.Window, Scale: 1 / math.Sqrt(float64(t.HeadDim)),
		LDQ: t.QueryHeads * t.HeadDim, Length: t.M, Cache: KVCache{Capacity: t.Capacity(t.M)},
	}
	if t.Operation == AttentionDecode {
		a.Rows = 1
	}
	return a
}

func (k attention) Supports(t Task) error {
	if _, err := t.Supported(k.Name(), 0); err != nil {
		return err
	}
	if d, ok := k.device.(Threaded); ok && t.Threads != 0 && t.Threads != d.Threads() {
		return t.Unsupported(k.Name(), fmt.Sprintf("attention runs on all %d threads of the device", d.Threads()))
	}
	return k.Attends(t.Attention())
}

func (k attention) Prepare(t Task, raw Buffer) (Weights, error) {
	capacity := t.Capacity(t.M)
	if need := t.Stored(t.M); raw.Bytes() < need {
		return nil, fmt.Errorf("%s: keys and values of %d tokens need %d bytes, the buffer has %d", k.Name(), capacity, need, raw.Bytes())
	}
	extent := t.Extent(t.M)
	positions := make([]byte, 4*extent)
	for i := range extent {
		binary.LittleEndian.PutUint32(positions[4*i:], uint32(i))
	}
	buf, err := k.device.Alloc(int64(len(positions)))
	if err != nil {
		return nil, fmt.Errorf("%s: positions: %w", k.Name(), err)
	}
	if err := buf.Upload(0, positions); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: positions: %w", k.Name(), err), buf.Close())
	}
	return &keysAndValues{raw: raw, capacity: capacity, positions: buf, extent: extent}, nil
}

func (k attention) Bind(t Task, in Operand, w Weights, out Operand, _ ...Operand) (Launch, error) {
	cache, ok := w.(*keysAndValues)
	if !ok {
		return nil, fmt.Errorf("%s: keys and values were prepared by another kernel", k.Name())
	}
	a := t.Attention()
	if extent := t.Extent(t.M); extent != cache.extent || a.Cache.Capacity != cache.capacity {
		return nil, fmt.Errorf("%s: M %d needs keys and values up to M %d, these are for M up to %d", k.Name(), t.M, extent, cache.extent)
	}
	a.Q, a.Out = in, out
	a.Position = Operand{cache.positions, t.M - a.Rows}
	a.Cache.Keys = Operand{Buffer: cache.raw}
	a.Cache.Values = Operand{cache.raw, t.KVHeads * cache.capacity * t.HeadDim}
	return k.Attend(a)
}

// Capacity returns the number of tokens that the cache for M = m holds. No token of a prompt has left it yet.
func (s Subject) Capacity(m int) int {
	if s.Operation == AttentionDecode {
		return s.windowRoom(s.Extent(m))
	}
	return s.Extent(m)
}

// windowRoom is the capacity of a cache for one token after others, of which only a window is visible.
func (s Subject) windowRoom(tokens int) int { return powerOfTwo(int(s.context(float64(tokens)))) }
