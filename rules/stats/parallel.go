package stats

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls f for every number below n, on all processors.
func Each(n int, f func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wait.Wait()
}

// InBlocks calls do for ranges that cover 0 to n, on all processors. The ranges do not depend on the number
// of processors, so neither do the results.
func InBlocks(n int, do func(from, to int)) {
	const size = 256
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/size+1) {
		wait.Go(func() {
			for {
				from := int(next.Add(size)) - size
				if from >= n {
					return
				}
				do(from, min(from+size, n))
			}
		})
	}
	wait.Wait()
}
