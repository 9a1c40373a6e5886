//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { scenarios["graph"] = graphLife }

func graphLife() {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		return
	}
	d := devices[0].(*Device)
	launches, err := graphLaunches(d)
	report(err)
	if err != nil {
		return
	}
	for i := range 2 {
		g, err := d.Graph(launches)
		report(err)
		if err != nil {
			continue
		}
		fmt.Println(g.Label())
		span, err := d.Execute(context.Background(), []kernels.Launch{g}, 3)
		report(err)
		if err == nil {
			fmt.Printf("took %.1f ms\n", span.Seconds*1e3)
		}
		_, err = d.Graph([]kernels.Launch{launches[0], g})
		report(err)
		if i == 0 {
			report(g.(io.Closer).Close(), g.(io.Closer).Close())
			_, err := d.Execute(context.Background(), []kernels.Launch{g}, 1)
			report(err)
		} else {
			defer func() { report(g.(io.Closer).Close()) }() // after the device
		}
	}
	_, err = d.Graph(nil)
	report(err)
	report(launches[0].(io.Closer).Close(), d.Close())
	fmt.Println("done")
}

func graphLaunches(d *Device) ([]kernels.Launch, error) {
	p := kernels.Task{Subject: kernels.Linear(kernels.FP16, 64, 64), M: 1}
	memory, err := d.Alloc(1 << 20)
	if err != nil {
		return nil, err
	}
	g, err := kernels.Find(d, kernels.GEMM, "auto")
	if err != nil {
		return nil, err
	}
	w, err := g.Prepare(p, memory)
	if err != nil {
		return nil, err
	}
	plain, err := g.Bind(p, kernels.Operand{Buffer: memory, Offset: 8192}, w, kernels.Operand{Buffer: memory, Offset: 16384})
	if err != nil {
		return nil, err
	}
	fused, err := d.Fuse(kernels.FusedProduct{
		N: 64, K: 64, DType: kernels.FP16, Weights: w, Norm: true, Epsilon: 1e-5, Weight: kernels.Operand{Buffer: memory, Offset: 4096},
		X: kernels.Operand{Buffer: memory, Offset: 65536}, C: kernels.Operand{Buffer: memory, Offset: 32768},
	})
	if err != nil {
		return nil, err
	}
	return []kernels.Launch{plain, fused, plain}, nil
}

// Graphs refuse invalid launches, survive driver failures, and are freed once.
func TestGraphs(t *testing.T) {
	dir := fakeDriver(t)
	const (
		sound    = "graph of 3 launches\ntook 0.5 ms\n"
		nested   = "error: capture a graph of 2 launches: launch 1 is a graph: expected one that is not lost: false"
		closed   = "error: execute on cuda:0: launch 0, a graph of 3 launches, is closed lost: false"
		empty    = "error: capture a graph of 0 launches: expected at least one lost: false"
		unlapped = "graph of 3 launches without overlap (cuda:0: "
	)
	for _, c := range []struct {
		name, env string
		want      []string
		destroyed int
	}{
		{"sound", "", []string{sound + nested, closed, sound + nested, empty, "done"}, 2},
		{"plain edges only", "FAKE_CUDA_PLAIN_EDGES=1", []string{unlapped + "launch ", "fake error 801", "took 0.5 ms", empty, "done"}, 2},
		{"no capture", "FAKE_CUDA_FAIL=cuStreamBeginCapture_v2:1:801", []string{unlapped, sound, "done"}, 2},
		{"capture broken off", "FAKE_CUDA_FAIL=cuStreamEndCapture:1:901", []string{unlapped, "fake error 901", sound, "done"}, 2},
		{"no instance", "FAKE_CUDA_FAIL=cuGraphInstantiateWithFlags:1:2", []string{unlapped, "OUT_OF_MEMORY", sound, "done"}, 2},
		{"no upload", "FAKE_CUDA_FAIL=cuGraphUpload:1:801", []string{unlapped, sound, "done"}, 3},
		{"does not launch", "FAKE_CUDA_FAIL=cuGraphLaunch:2:701",
			[]string{"error: execute on cuda:0: graph of 3 launches: launch 1: fake error 701", sound, "done"}, 2},
		{"not destroyed", "FAKE_CUDA_FAIL=cuGraphExecDestroy:1:801",
			[]string{"error: cuda:0: destroy a graph of 3 launches: fake error 801", "done"}, 2},
		{"lost in the capture", "FAKE_CUDA_FAIL=cuStreamEndCapture:1:719",
			[]string{"error: capture a graph of 3 launches: device lost: cuda:0: ", "lost: true", "done"}, 0},
		{"lost in the upload", "FAKE_CUDA_FAIL=cuStreamSynchronize:7:700", []string{"lost: true", "done"}, -1},
		{"lost at the launch", "FAKE_CUDA_FAIL=cuGraphLaunch:1:700",
			[]string{"device lost: cuda:0: launch graph of 3 launches: fake error 700", "done"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, trace := child(t, "graph", dir, c.env, "FAKE_CUDA_TRACE=1")
			rest := out
			for _, want := range c.want {
				var ok bool
				if _, rest, ok = strings.Cut(rest, want); !ok {
					t.Errorf("want %q in, and in this order,\n%s", want, out)
				}
			}
			if got := strings.Count(trace, "calls cuGraphExecDestroy "); c.destroyed >= 0 && got != c.destroyed {
				t.Errorf("%d graphs were given back, want %d", got, c.destroyed)
			}
			if made, gone := strings.Count(trace, "calls cuStreamEndCapture "),
				strings.Count(trace, "calls cuGraphDestroy "); !strings.Contains(out, "error: capture") && made < gone {
				t.Errorf("%d captures, %d of their graphs destroyed", made, gone)
			}
		})
	}
}
