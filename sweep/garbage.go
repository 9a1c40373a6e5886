package sweep

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
)

// garbageAllowance is how much the Go heap may grow before a collection starts even within a block: better a
// disturbed sample than no memory.
const garbageAllowance = 512 << 20

// The first holder saves the collector's settings, the last restores them.
var collector struct {
	sync.Mutex
	holders int
	limit   int64
	percent int
}

// holdCollector keeps the garbage collector from running while blocks are timed. Matrices are not in the Go
// heap, so the allowance only covers bookkeeping.
func holdCollector() (release func()) {
	collector.Lock()
	defer collector.Unlock()
	if collector.holders++; collector.holders == 1 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		limit := int64(math.MaxInt64)
		if m.Sys < math.MaxInt64-garbageAllowance {
			limit = int64(m.Sys) + garbageAllowance
		}
		if own := debug.SetMemoryLimit(-1); own < limit {
			limit = own
		}
		collector.limit = debug.SetMemoryLimit(limit)
		collector.percent = debug.SetGCPercent(-1)
	}
	return func() {
		collector.Lock()
		defer collector.Unlock()
		if collector.holders--; collector.holders == 0 {
			debug.SetGCPercent(collector.percent)
			debug.SetMemoryLimit(collector.limit)
		}
	}
}
