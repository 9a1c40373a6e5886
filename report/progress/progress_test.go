package progress

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/golden"
)

func sweepOf(p *Display, n int, step time.Duration) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return now }
	p.Start(n, 1, time.Duration(n)*step)
	for i := 1; i <= n; i++ {
		now = now.Add(step)
		mfu := math.NaN()
		if i > 5 {
			mfu = 0.621
		}
		p.Update(i, 2.5, time.Duration(n-i)*step, "cpu/amx/bf16/m1024 n14336 k4096", mfu, 0.001*float64(i%7))
		if i == 8 {
			p.Message("cpu/amx/bf16/m2048 n14336 k4096 failed: \x1b[2Jout of memory")
		}
	}
	p.Stop()
	p.Stop()
}

func TestProgressOffATerminal(t *testing.T) {
	var b bytes.Buffer
	sweepOf(New(&b, false), 30, 2*time.Second)
	if strings.ContainsAny(b.String(), "\r\x1b") {
		t.Errorf("control characters in %q", b.String())
	}
	golden.Compare(t, "progress.plain", b.String())
}

func TestProgressOnATerminal(t *testing.T) {
	for name, st := range map[string]report.Style{
		"progress.live":       {Live: true, Unicode: true, Colour: true, Width: 120},
		"progress.live.ascii": {Live: true, Width: 60},
	} {
		var b bytes.Buffer
		sweepOf(New(&report.Stream{Writer: &b, Style: st}, false), 12, 400*time.Millisecond)
		golden.Compare(t, name, strings.ReplaceAll(b.String(), "\r", "\n<CR>"))
	}
}

func TestQuietProgressIsSilent(t *testing.T) {
	var b bytes.Buffer
	sweepOf(New(&b, true), 30, time.Minute)
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
}

// A leftover goroutine could take a core from a timed block.
func TestProgressLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	var b bytes.Buffer
	p := New(&report.Stream{Writer: &b, Style: report.Style{Live: true}}, false)
	sweepOf(p, 10, 2*time.Second)
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
	if !strings.Contains(b.String(), "100%") {
		t.Errorf("the last state is not shown: %q", b.String())
	}
}

func TestProgressFromSeveralGoroutines(t *testing.T) {
	var b bytes.Buffer
	p := New(&b, false)
	p.Start(100, 2, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				p.Update(i, 1, time.Second, "x", 0.5, 0)
				p.Message("y")
			}
		})
	}
	wg.Wait()
	p.Stop()
	if n := strings.Count(b.String(), "y\n"); n != 200 {
		t.Errorf("%d of 200 messages", n)
	}
}

func TestProgressOfNothing(t *testing.T) {
	var b bytes.Buffer
	p := New(&report.Stream{Writer: &b, Style: report.Style{Live: true, Width: 30}}, false)
	p.Stop()
	p.Update(1, math.Inf(1), -1, "", math.Inf(1), math.NaN())
	sweepOf(p, 0, time.Second)
	p.Start(0, 0, 0)
	p.now = func() time.Time { return time.Now().Add(time.Hour) }
	p.Update(7, math.NaN(), -time.Second, "evil\x1b[31m\n\u202e", -1, math.NaN())
	p.Stop()
	if strings.Contains(b.String(), "\x1b[31m") {
		t.Errorf("a control sequence got through: %q", b.String())
	}
}

// A total must not grow without a message, and the new phase counts from its beginning.
func TestAdditionalRoundsAreAPhase(t *testing.T) {
	for _, inferred := range []bool{false, true} {
		var b bytes.Buffer
		p := New(&b, false)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		p.now = func() time.Time { now = now.Add(time.Minute); return now }
		p.Start(10, 1, 0)
		if inferred {
			p.Known(1, 100)
		}
		for _, u := range []struct{ done, planned int }{{1, 12}, {12, 12}, {13, 20}, {20, 20}} {
			p.Plan(u.planned)
			p.Update(u.done, 1, 0, "", math.NaN(), math.NaN())
		}
		p.Stop()
		for _, want := range []string{"1/12", "12/12", "20 of 20 done"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is missing in:\n%s", want, &b)
			}
		}
		announced := strings.Contains(b.String(), "8 more samples") && strings.Contains(b.String(), "1/8 additional")
		if announced == inferred || strings.Contains(b.String(), "2 more samples") || inferred != strings.Contains(b.String(), "13/20") {
			t.Errorf("rows are inferred: %v\n%s", inferred, &b)
		}
	}
}
