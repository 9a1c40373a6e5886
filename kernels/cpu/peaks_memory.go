package cpu

/*
#include "native/buffer.h"
#include "native/peaks.h"
*/
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Bandwidth is measured on three times the last-level cache, in parts read in turn. Between two reads of a
// part the other five pass, 2.5 times the cache, which evicts it.
const (
	streamParts    = 6
	leastStreamed  = 384 << 20
	mostStreamed   = 1536 << 20
	streamedShare  = 4 // uses at most 1/4 of memory
	selectionTurns = 4
	finalTurns     = 12
)

// streamAhead are the software prefetch distances to try, in bytes.
var streamAhead = []int64{0, 1 << 10, 4 << 10}

type memoryMeter struct {
	pool *pool
	// readers and copiers are the candidates; after the first measurement, only the best.
	readers, copiers []streamWay
}

func newMemoryMeter(p *pool, f features) *memoryMeter {
	m := &memoryMeter{pool: p}
	m.readers, m.copiers = streamsOf(f)
	return m
}

// measure returns bandwidths in bytes/s; copy counts bytes read and written. It tries several access patterns
// and measures the best again.
func (m *memoryMeter) measure(ctx context.Context, s kernels.Spec) (read, copied float64, err error) {
	through, err := newStreams(m.pool, s)
	if err != nil {
		return 0, 0, err
	}
	defer through.close()
	if read, err = through.best(ctx, &m.readers); err != nil {
		return 0, 0, err
	}
	copied, err = through.best(ctx, &m.copiers)
	return read, copied, err
}

type streamWay struct {
	stream *C.ga_stream
	ahead  int64
}

// streamsOf lists the access patterns of the widest instruction set.
func streamsOf(f features) (readers, copiers []streamWay) {
	set := C.ga_stream_set(C.GA_BASE_STREAMS)
	switch {
	case f.AVX512:
		set = C.GA_AVX512_STREAMS
	case f.AVX2:
		set = C.GA_AVX2_STREAMS
	}
	var first *C.ga_stream
	n := C.ga_streams(set, &first)
	for i := range unsafe.Slice(first, int(n)) {
		s := (*C.ga_stream)(unsafe.Add(unsafe.Pointer(first), uintptr(i)*unsafe.Sizeof(*first)))
		for _, ahead := range streamAhead {
			if s.read != nil {
				readers = append(readers, streamWay{s, ahead})
			} else {
				copiers = append(copiers, streamWay{s, ahead})
			}
		}
	}
	return readers, copiers
}

// streams visits the parts of a memory area in turn.
type streams struct {
	pool   *pool
	memory *C.char
	part   int64
	at     int
}

func newStreams(p *pool, s kernels.Spec) (*streams, error) {
	threads := int64(p.threads())
	unit := threads * C.GA_READ_UNIT * 4 // up to four streams of whole bursts
	total := min(max(kernels.RotationFactor*s.LastLevelCacheBytes, leastStreamed), mostStreamed)
	if s.MemoryBytes > 0 {
		total = min(total, s.MemoryBytes/streamedShare)
	}
	if free, ok := thisHost().AvailableMemory(); ok {
		total = min(total, free/2) // a loaded model may leave little
	}
	m := &streams{pool: p, part: max(total/streamParts/unit, 1) * unit}
	m.memory = (*C.char)(C.ga_map(C.size_t(m.part * streamParts)))
	if m.memory == nil {
		return nil, fmt.Errorf("measure memory: no %d MiB for it", m.part*streamParts>>20)
	}
	C.ga_stream_touch(p.c, C.int(threads), m.memory, C.int64_t(m.part), streamParts)
	return m, nil
}

func (m *streams) close() { C.ga_unmap(unsafe.Pointer(m.memory), C.size_t(m.part*streamParts)) }

// pass returns the bytes/s for one part. A copy writes to the part half the memory away.
func (m *streams) pass(w streamWay) float64 {
	at := func(i int) *C.char {
		return (*C.char)(unsafe.Add(unsafe.Pointer(m.memory), int64(i%streamParts)*m.part))
	}
	src, dst, bytes := at(m.at), at(m.at+streamParts/2), m.part
	if w.stream.copy != nil {
		bytes *= 2
	}
	m.at++
	seconds := float64(C.ga_stream_part(m.pool.c, C.int(m.pool.threads()), w.stream, dst, src, C.int64_t(m.part), C.int64_t(w.ahead)))
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / seconds
}

// best finds the fastest pattern, keeps only it, and measures it again to avoid selection bias.
func (m *streams) best(ctx context.Context, ways *[]streamWay) (float64, error) {
	way, err := m.choose(ctx, *ways)
	if err != nil {
		return 0, err
	}
	*ways = []streamWay{way}
	var rates []float64
	for range finalTurns {
		rates = append(rates, m.pass(way))
	}
	if rate := undisturbed(rates); rate > 0 {
		return rate, nil
	}
	return 0, fmt.Errorf("measure memory: no memory for the times of %d threads", m.pool.threads())
}

func (m *streams) choose(ctx context.Context, ways []streamWay) (streamWay, error) {
	tried := make([][]float64, len(ways))
	m.pass(ways[0]) // the first pass includes start-up costs
	for range selectionTurns {
		for i, w := range ways {
			if err := ctx.Err(); err != nil {
				return w, err
			}
			tried[i] = append(tried[i], m.pass(w))
		}
	}
	chosen := 0
	for i := range tried {
		if undisturbed(tried[i]) > undisturbed(tried[chosen]) {
			chosen = i
		}
	}
	return ways[chosen], nil
}
