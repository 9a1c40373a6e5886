package main

import (
	"os"
	"runtime/debug"

	"github.com/gemmaudit/gemmaudit/results"
)

// largeRun is the size of a run file above which its samples dominate the program's memory.
const largeRun = 64 << 20

// mostGarbage is the approximate maximum garbage in memory with a large run; leastPercent is the minimum GC
// percentage.
const mostGarbage, leastPercent = 256 << 20, 10

// boundGarbage makes the garbage collector run more often for a large run. The samples stay alive, so the
// default would allow as much garbage as they take. A small fixed percentage would be too slow for medium
// runs: each collection visits all samples.
func boundGarbage(path string) {
	if info, err := os.Stat(path); err == nil && info.Size() >= largeRun {
		debug.SetGCPercent(garbagePercent(info.Size()))
	}
}

// garbagePercent is the GC percentage for a run of a given size.
func garbagePercent(size int64) int { return int(min(100, max(leastPercent, 100*mostGarbage/size))) }

func (a *app) openRun(path string, goOn bool) (*results.Run, error) {
	boundGarbage(path)
	if goOn {
		a.holds.Store(true)
		return results.OpenAppend(path)
	}
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	for _, w := range run.Warnings() {
		a.warnf("%s: %s", path, w)
	}
	return run, nil
}

// closeRun closes a written run, and adds an error if its journal could not be folded into it, as on a full
// disk.
func closeRun(run *results.Run, failed *error) {
	*failed = joinErrors(*failed, run.Close())
}
