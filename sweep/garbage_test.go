package sweep

import (
	"runtime/debug"
	"testing"
)

// The last of overlapping sweeps restores the collector's original setting.
func TestHoldCollector(t *testing.T) {
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	limit := debug.SetMemoryLimit(-1)
	first := holdCollector()
	second := holdCollector()
	first()
	if now := debug.SetGCPercent(-1); now != -1 {
		t.Errorf("the collector runs at %d %% while a sweep holds it", now)
	}
	second()
	if now := debug.SetGCPercent(77); now != 77 {
		t.Errorf("the collector was left at %d %%, found at 77", now)
	}
	if now := debug.SetMemoryLimit(-1); now != limit {
		t.Errorf("the memory limit was left at %d, found at %d", now, limit)
	}
}
