//go:build cuda

package driver

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"sync"
)

// Table is an array in memory of the GPU, which launches read. The memory serves another table once this one
// is unreachable, so launches must keep a reference.
type Table struct{ Address uint64 }

// tables has the memory of tables: they are small and as many as launches, and launches are not closed.
type tables struct {
	mu   sync.Mutex
	free map[int64][]place // by bytes
}

// place is a part of a buffer.
type place struct {
	in *Buffer
	at int64
}

const (
	leastTable = 256 // bytes: the alignment of allocations
	tableRoom  = 1 << 20
)

// NewTable makes a table of elements of a fixed size.
func NewTable[E uint64 | int32](d *Device, elements []E) (*Table, error) {
	content, err := binary.Append(nil, binary.LittleEndian, elements)
	if err != nil {
		return nil, err
	}
	size := max(leastTable, int64(1)<<bits.Len(uint(len(content)-1)))
	p, err := d.tables.take(d, size)
	if err != nil {
		return nil, err
	}
	if err := p.in.Upload(p.at, content); err != nil {
		d.tables.give(size, p)
		return nil, err
	}
	t := &Table{p.in.Address + uint64(p.at)}
	runtime.AddCleanup(t, func(p place) { d.tables.give(size, p) }, p)
	return t, nil
}

// take returns a free place of that many bytes, a power of two.
func (t *tables) take(d *Device, size int64) (place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free[size]) == 0 {
		b, err := d.alloc(max(size, tableRoom))
		if err != nil {
			return place{}, err
		}
		d.OnClose(b.Close)
		if t.free == nil {
			t.free = map[int64][]place{}
		}
		for at := int64(0); at < b.bytes; at += size {
			t.free[size] = append(t.free[size], place{b, at})
		}
	}
	last := len(t.free[size]) - 1
	p := t.free[size][last]
	t.free[size] = t.free[size][:last]
	return p, nil
}

// give runs on a goroutine of the runtime.
func (t *tables) give(size int64, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free[size] = append(t.free[size], p)
}
