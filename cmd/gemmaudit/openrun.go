package main

import (
	"os"
	"runtime/debug"

	"github.com/gemmaudit/gemmaudit/results"
)

// largeRun is the size of a run file from which on its samples are most of the memory
// that the program takes.
const largeRun = 64 << 20

// boundGarbage has the garbage collector run more often when a large run is read. Its
// samples stay, so that as much memory again as they take, which is what the collector
// allows for by default, would be garbage.
func boundGarbage(path string) {
	const percent = 10
	if info, err := os.Stat(path); err == nil && info.Size() >= largeRun {
		debug.SetGCPercent(percent)
	}
}

// openRun opens a run for reading, or for going on with it.
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

// closeRun closes a run that was written to, and tells beside what else went wrong that its journal could not be
// folded back into it, as on a full disk.
func closeRun(run *results.Run, failed *error) {
	*failed = besides(*failed, run.Close())
}
