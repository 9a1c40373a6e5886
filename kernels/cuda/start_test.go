//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

func init() { scenarios["start"] = startBlocks }

func startBlocks() {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		return
	}
	d := devices[0].(*Device)
	step := func() planning.Call {
		c := support.PackCall(d.Arch(), kernels.Task{Subject: kernels.Product(kernels.FP16, 64, 64), M: 1, LDB: 64}, 4096, 8192)
		c.Overlap, c.Cooperative = true, true
		return c
	}
	one, err := d.NewLaunch("", "one", driver.Steps([]planning.Call{step()}))
	report(err)
	alone, err := d.NewLaunch("", "one", driver.Steps([]planning.Call{step()}))
	report(err)
	alone.Serialize()
	two, err := d.NewLaunch("", "two", driver.Steps([]planning.Call{step(), step()}))
	report(err)
	for _, c := range []struct {
		name   string
		launch *driver.Launch
		serial bool
	}{{"one", one, false}, {"two", two, false}, {"one serial", one, true}, {"two serial", two, true}, {"serialized", alone, false}} {
		launches := []kernels.Launch{c.launch}
		if _, err := d.Prime(context.Background(), c.launch); err != nil {
			report(err)
		}
		fmt.Fprintf(os.Stderr, "begin %s\n", c.name)
		wait, err := d.Start(context.Background(), kernels.Block{Launches: launches, N: 3, Serial: c.serial})
		fmt.Fprintf(os.Stderr, "end %s\n", c.name)
		report(err)
		if err != nil {
			continue
		}
		span, err := wait()
		report(err)
		fmt.Printf("%s took %.1f ms\n", c.name, span.Seconds*1e3)
		if c.name == "two" {
			_, err := wait()
			report(err)
		}
	}
	report(d.Close())
	fmt.Println("done")
}

func init() { scenarios["queue"] = queueBlocks }

func queueBlocks() {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		return
	}
	d := devices[0].(*Device)
	c := support.PackCall(d.Arch(), kernels.Task{Subject: kernels.Product(kernels.FP16, 64, 64), M: 1, LDB: 64}, 4096, 8192)
	l, err := d.NewLaunch("", "a launch", driver.Steps([]planning.Call{c}))
	report(err)
	if _, err := d.Prime(context.Background(), l); err != nil {
		report(err)
	}
	unprimed, err := d.NewLaunch("", "another launch", driver.Steps([]planning.Call{c}))
	report(err)
	type flight struct {
		n    int
		wait func() (kernels.Span, error)
	}
	var flights []flight
	land := func() {
		f := flights[0]
		flights = flights[1:]
		fmt.Fprintf(os.Stderr, "wait %d\n", f.n)
		span, err := f.wait()
		report(err)
		fmt.Printf("%d launches took %.1f ms%s\n", f.n, span.Seconds*1e3, strings.Repeat(", one ahead of them", span.Ahead))
	}
	for _, n := range []int{3, 5, 1000, 7, 2, 600, 500} {
		fmt.Fprintf(os.Stderr, "start %d\n", n)
		it := l
		if n == 7 {
			it = unprimed
		}
		wait, err := d.Start(context.Background(), kernels.Block{Launches: []kernels.Launch{it}, N: n})
		if err != nil {
			report(err)
			continue
		}
		if flights = append(flights, flight{n, wait}); len(flights) < 2 {
			continue
		}
		if n == 7 {
			_, err := d.Start(context.Background(), kernels.Block{Launches: []kernels.Launch{l}, N: 1})
			report(err)
		}
		if n == 2 {
			seconds, err := d.Once(l)
			report(err)
			fmt.Printf("once took %.1f ms\n", seconds*1e3)
		}
		land()
	}
	for len(flights) > 0 {
		land()
	}
	report(d.Close())
	fmt.Println("done")
}

// Launches of a serial block wait for their predecessor; kernels inside a launch may still overlap. A block
// in progress is not disturbed.
func TestStart(t *testing.T) {
	flags := func(trace, name, flag string) string {
		_, rest, _ := strings.Cut(trace, "begin "+name+"\n")
		block, _, _ := strings.Cut(rest, "end "+name+"\n")
		var got strings.Builder
		for line := range strings.Lines(block) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "launch "+flag+" "); ok {
				got.WriteString(value)
			}
		}
		return got.String()
	}
	out, trace := child(t, "start", fakeDriver(t), "FAKE_CUDA_TRACE=1")
	_, never := child(t, "start", fakeDriver(t), "FAKE_CUDA_TRACE=1", "FAKE_CUDA_COOPERATIVE=0")
	for _, c := range []struct{ name, overlaps, cooperates string }{
		{"one", "001110", "000000"}, {"two", "001111110", "000000000"},
		{"one serial", "000000", "001110"}, {"two serial", "000101010", "001010100"},
		{"serialized", "000000", "001110"},
	} {
		if got := flags(trace, c.name, "overlaps"); got != c.overlaps {
			t.Errorf("%s: kernels overlap as %s, want %s", c.name, got, c.overlaps)
		}
		if got := flags(trace, c.name, "cooperates"); got != c.cooperates {
			t.Errorf("%s: kernels are launched cooperatively as %s, want %s", c.name, got, c.cooperates)
		}
		if got := flags(never, c.name, "cooperates"); strings.Contains(got, "1") || got == "" {
			t.Errorf("%s, on a GPU that can't: kernels are launched cooperatively as %s", c.name, got)
		}
	}
	want := "one took 0.5 ms\n" +
		"two took 0.5 ms\nerror: wait for a block on cuda:0: it was waited for lost: false\none serial took 0.5 ms\n" +
		"two serial took 0.5 ms\nserialized took 0.5 ms\ndone\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	out, _ = child(t, "start", fakeDriver(t), "FAKE_CUDA_FAIL=cuEventElapsedTime:8:801")
	if !strings.Contains(out, "fake error 801") || !strings.HasSuffix(out, "done\n") {
		t.Errorf("of a failing event it says\n%s", out)
	}
}

// Each of two blocks in flight reports its own time, without a plan's first launch. A third block is refused.
// A single launch runs after those in flight. A failure belongs to its own block.
func TestBlocksInFlight(t *testing.T) {
	out, trace := child(t, "queue", fakeDriver(t), "FAKE_CUDA_TRACE=1")
	want := "3 launches took 0.5 ms\n5 launches took 0.5 ms\nerror: two blocks are in flight: wait for the first of them lost: false\n" +
		"1000 launches took 1.5 ms\nonce took 0.5 ms\n7 launches took 0.5 ms, one ahead of them\n2 launches took 0.5 ms\n" +
		"600 launches took 1.0 ms\n500 launches took 1.0 ms\ndone\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	_, trace, _ = strings.Cut(trace, "start 3\n")
	var timed []int
	for line := range strings.Lines(trace) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "timed launches "); ok {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			timed = append(timed, v)
		}
	}
	// A chunk is 477 launches. Two chunks of 1000 launches end before the third is enqueued.
	if want := []int{3, 5, 477, 477, 46, 1, 7, 2, 477, 123, 477, 23}; !slices.Equal(timed, want) {
		t.Errorf("events enclose %v launches, want %v", timed, want)
	}
	_, behind, _ := strings.Cut(trace, "start 7\n")
	behind, _, _ = strings.Cut(behind, "wait 1000\n")
	if n := strings.Count(behind, "calls cuLaunchKernelEx "); n != 1+3+7 {
		t.Errorf("a block of 7 launches of a new plan puts %d kernels on the stream, want them, the one ahead, the blocking kernel and "+
			"two stamps", n)
	}
	// Only a single launch waits for the whole stream. If the end of a block did, the next block would be
	// over before the host continues.
	if n := strings.Count(trace, "calls cuStreamSynchronize "); n != 2 {
		t.Errorf("the whole stream was waited for %d times, want twice", n)
	}

	fails := func(name string, n int) string {
		out, _ := child(t, "queue", fakeDriver(t), fmt.Sprintf("FAKE_CUDA_FAIL=%s:%d:801", name, n))
		return out
	}
	launches := func(until string) int {
		_, trace := child(t, "queue", fakeDriver(t), "FAKE_CUDA_TRACE=1")
		before, _, _ := strings.Cut(trace, until)
		return strings.Count(before, "calls cuLaunchKernelEx ")
	}
	out = fails("cuLaunchKernelEx", launches("start 5\n")+4)
	if lines := strings.Split(out, "\n"); len(lines) < 4 || lines[0] != "3 launches took 0.5 ms" ||
		!strings.Contains(lines[1], "a launch: fake error 801") || lines[2] != "5 launches took 0.0 ms" ||
		!strings.HasSuffix(out, want[strings.Index(want, "1000 launches"):]) {
		t.Errorf("of a launch that fails in the second block it says\n%s", out)
	}
	out = fails("cuEventSynchronize", 1)
	if lines := strings.Split(out, "\n"); len(lines) < 3 || !strings.Contains(lines[0], "fake error 801") ||
		lines[1] != "3 launches took 0.0 ms" ||
		lines[2] != "5 launches took 0.5 ms" {
		t.Errorf("of a block whose end fails it says\n%s", out)
	}
}
