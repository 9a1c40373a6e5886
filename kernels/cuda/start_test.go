//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { scenarios["start"] = startBlocks }

// startBlocks runs blocks of a launch of one kernel that may overlap its predecessor, and of
// one of two such kernels: as they are, serial, and in the wrong order.
func startBlocks() {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		return
	}
	d := devices[0].(*Device)
	step := func() call {
		c := packCall(d.arch, kernels.Problem{Shape: kernels.Shape{M: 1, N: 64, K: 64}, DType: kernels.FP16, LDB: 64, BLayout: kernels.RowMajor}, 4096, 8192)
		c.overlap = true
		return c
	}
	one, err := d.newLaunch("", "one", calls([]call{step()}))
	report(err)
	two, err := d.newLaunch("", "two", calls([]call{step(), step()}))
	report(err)
	for _, c := range []struct {
		name   string
		launch *launch
		serial bool
	}{{"one", one, false}, {"two", two, false}, {"one serial", one, true}, {"two serial", two, true}} {
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
		if c.name == "two" {
			// While it runs, nothing else may: not a block, and nothing that is run once.
			_, err := d.Start(context.Background(), kernels.Block{Launches: launches, N: 1})
			report(err)
			_, err = d.once(one)
			report(err)
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

// Launches of a serial block wait for their predecessor; kernels inside of a launch overlap
// as ever. A block in progress is not disturbed.
func TestStart(t *testing.T) {
	out, trace := child(t, "start", fakeDriver(t), "FAKE_CUDA_TRACE=1")
	for _, c := range []struct{ name, want string }{
		// The gate and the stamp before the block, three launches, the stamp after it.
		{"one", "00 111 0"}, {"two", "00 111111 0"}, {"one serial", "00 000 0"}, {"two serial", "00 010101 0"},
	} {
		_, rest, _ := strings.Cut(trace, "begin "+c.name+"\n")
		block, _, _ := strings.Cut(rest, "end "+c.name+"\n")
		var got strings.Builder
		for line := range strings.Lines(block) {
			if flag, ok := strings.CutPrefix(strings.TrimSpace(line), "launch overlaps "); ok {
				got.WriteString(flag)
			}
		}
		if want := strings.ReplaceAll(c.want, " ", ""); got.String() != want {
			t.Errorf("%s: kernels overlap as %s, want %s", c.name, got.String(), want)
		}
	}
	want := "one took 0.5 ms\nerror: a block is running: wait for it first lost: false\nerror: a block is running: wait for it first lost: false\n" +
		"two took 0.5 ms\nerror: wait for a block on cuda:0: none is running lost: false\none serial took 0.5 ms\ntwo serial took 0.5 ms\ndone\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	// What fails in a block is told by its end, and the next one runs.
	out, _ = child(t, "start", fakeDriver(t), "FAKE_CUDA_FAIL=cuEventElapsedTime:8:801")
	if !strings.Contains(out, "fake error 801") || !strings.HasSuffix(out, "done\n") {
		t.Errorf("of a failing event it says\n%s", out)
	}
}
