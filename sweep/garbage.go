package sweep

import (
	"math"
	"runtime"
	"runtime/debug"
)

// garbageAllowance is how much the Go heap may grow before a collection comes
// even in the middle of a block: a disturbed sample is better than a machine
// without memory.
const garbageAllowance = 512 << 20

// holdCollector keeps the garbage collector from running on its own while blocks
// are timed: on a CPU it would be part of their time. The returned function
// undoes it. Matrices are not the Go heap's, so the allowance is for bookkeeping.
func holdCollector() (release func()) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limit := int64(math.MaxInt64)
	if m.Sys < math.MaxInt64-garbageAllowance {
		limit = int64(m.Sys) + garbageAllowance
	}
	if own := debug.SetMemoryLimit(-1); own < limit {
		limit = own
	}
	oldLimit := debug.SetMemoryLimit(limit)
	percent := debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(oldLimit)
	}
}
