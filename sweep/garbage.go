package sweep

import (
	"math"
	"runtime"
	"runtime/debug"
	"sync"
)

// garbageAllowance is how much the Go heap may grow before a collection comes
// even in the middle of a block: a disturbed sample is better than a machine
// without memory.
const garbageAllowance = 512 << 20

// collector counts who holds the collector: what it was like before is known to the
// first, and is for the last to restore.
var collector struct {
	sync.Mutex
	holders int
	limit   int64
	percent int
}

// holdCollector keeps the garbage collector from running on its own while blocks
// are timed: on a CPU it would be part of their time. The returned function
// undoes it; of several holders the last one's does. Matrices are not the Go heap's,
// so the allowance is for bookkeeping.
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
