package worker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
)

type lines struct {
	sync.Mutex
	all []string
}

func (l *lines) add(s string) {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, s)
}

// open returns a CPU with the fake worker's kernels.
func open(t *testing.T, how string, limit time.Duration) (*cpu.Device, []kernels.Kernel, *lines, error) {
	t.Helper()
	t.Setenv(fakeEnv, how)
	t.Setenv("GEMMAUDIT_FAKE_MARK", filepath.Join(t.TempDir(), "mark"))
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	printed := &lines{}
	ks, err := d.LoadWorker(self, kernels.WorkerOptions{Log: printed.add, Limit: limit})
	return d, ks, printed, err
}

func product(t *testing.T, d kernels.Device, k kernels.Kernel, m, n, kk int) (kernels.Launch, kernels.Buffer) {
	t.Helper()
	task := kernels.Task{Subject: kernels.Linear(kernels.FP32, n, kk), M: m}
	buffer := func(elements int, seed uint64) kernels.Buffer {
		b, err := d.Alloc(int64(4 * elements))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		if err := b.Fill(kernels.Integers, kernels.FP32, int64(elements), seed); err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b, c := buffer(m*kk, 1), buffer(n*kk, 2), buffer(m*n, 3)
	w, err := k.Prepare(task, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func content(t *testing.T, b kernels.Buffer) []float32 {
	t.Helper()
	raw := make([]byte, b.Bytes())
	if err := b.Download(0, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func TestExecute(t *testing.T) {
	d, ks, printed, err := open(t, "right", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(ks) != 1 || ks[0].Name() != "plain" || kernels.ProcessOf(ks[0]) == "" {
		t.Fatalf("kernels %v", ks)
	}
	naive, err := kernels.FindProduct(d, "naive")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := kernels.FindProduct(d, "plain")
	if err != nil {
		t.Fatal(err)
	}
	ours, wantC := product(t, d, naive, 5, 7, 11)
	theirs, gotC := product(t, d, plain, 5, 7, 11)
	ctx := context.Background()
	for round := range 2 { // the second time, both processes have used the device
		span, err := d.Execute(ctx, []kernels.Launch{theirs}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if span.Ahead != 3 || span.Seconds <= 0 {
			t.Errorf("round %d: the worker's block has %d runs ahead and takes %g s, expected 3 after a switch", round, span.Ahead,
				span.Seconds)
		}
		if span, err = d.Execute(ctx, []kernels.Launch{theirs}, 3); err != nil || span.Ahead != 0 {
			t.Errorf("round %d: a second block of the worker has %d runs ahead, %v", round, span.Ahead, err)
		}
		if span, err = d.Execute(ctx, []kernels.Launch{ours}, 2); err != nil || span.Ahead != 2 {
			t.Errorf("round %d: our block has %d runs ahead, %v, expected 2 after a switch", round, span.Ahead, err)
		}
	}
	want, got := content(t, wantC), content(t, gotC)
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("element %d: %g, expected %g", i, got[i], want[i])
		}
	}
	if theirs.Label() != "three loops" {
		t.Errorf("label %q", theirs.Label())
	}
	printed.Lock()
	defer printed.Unlock()
	if len(printed.all) == 0 || !strings.HasPrefix(printed.all[0], "executes") {
		t.Errorf("printed %q", printed.all)
	}
	spec := d.Spec()
	if spec.Versions["plain"] != kernels.FileVersion(strings.Repeat("ab", 32)) || spec.Versions["fake"] != "1" ||
		spec.Settings["FAKE_FLAG"] != "on" {
		t.Errorf("identity: %v %v", spec.Versions, spec.Settings)
	}
}

// A result of the worker must not hide what one of our kernels wrote to the same place later, and the other way round.
func TestSharedOutput(t *testing.T) {
	d, _, _, err := open(t, "right", 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, c := product(t, d, must(kernels.FindProduct(d, "plain"))(t), 4, 4, 4)
	ctx := context.Background()
	if _, err := d.Execute(ctx, []kernels.Launch{theirs}, 1); err != nil {
		t.Fatal(err)
	}
	want := content(t, c)
	if err := c.Upload(0, make([]byte, c.Bytes())); err != nil {
		t.Fatal(err)
	}
	for i, v := range content(t, c) {
		if v != 0 {
			t.Fatalf("element %d is %g after an upload of zeros", i, v)
		}
	}
	if _, err := d.Execute(ctx, []kernels.Launch{theirs}, 1); err != nil {
		t.Fatal(err)
	}
	for i, v := range content(t, c) {
		if v != want[i] {
			t.Fatalf("element %d is %g after the second run, expected %g", i, v, want[i])
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestLoadFailures(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"silent", "no answer within"},
		{"newer", "speaks version 3 of the protocol, expected 2"},
		{"badly named", `kernel name "Plain"`},
	} {
		t.Run(c.how, func(t *testing.T) {
			_, _, _, err := open(t, c.how, 300*time.Millisecond)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}

// What a worker does wrong costs its case: the error names it, the device stays usable, and the next case gets a new
// worker.
func TestExecuteFailures(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"crash", "the worker ended in execute: signal: killed: fatal: the kernel is broken"},
		{"hang", "no answer within"},
		{"garbage", `it wrote "Segmentation fault"`},
		{"exception", "mine.py:12: ValueError: no such tile at all"},
	} {
		t.Run(c.how, func(t *testing.T) {
			d, ks, _, err := open(t, c.how, 500*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			theirs, _ := product(t, d, ks[0], 4, 4, 4)
			ours, _ := product(t, d, must(kernels.FindProduct(d, "naive"))(t), 4, 4, 4)
			for range 2 {
				_, err = d.Execute(context.Background(), []kernels.Launch{theirs}, 1)
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, kernels.ErrDeviceLost) {
					t.Errorf("%v, expected %q", err, c.want)
				}
				if _, err := d.Execute(context.Background(), []kernels.Launch{ours}, 1); err != nil {
					t.Errorf("our kernel afterwards: %v", err)
				}
			}
		})
	}
}

func TestRestart(t *testing.T) {
	d, ks, _, err := open(t, "crash once", 0)
	if err != nil {
		t.Fatal(err)
	}
	l, c := product(t, d, ks[0], 4, 4, 4)
	if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 1); err == nil {
		t.Fatal("the first block did not fail")
	}
	if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	ours, want := product(t, d, must(kernels.FindProduct(d, "naive"))(t), 4, 4, 4)
	if _, err := d.Execute(context.Background(), []kernels.Launch{ours}, 1); err != nil {
		t.Fatal(err)
	}
	for i, v := range content(t, want) {
		if got := content(t, c)[i]; got != v {
			t.Errorf("element %d after a restart: %g, expected %g", i, got, v)
		}
	}
}

func TestSupports(t *testing.T) {
	_, ks, _, err := open(t, "refuses odd", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		task kernels.Task
		want string
	}{
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 2}, ""},
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 3}, "M must be even"},
		{kernels.Task{Subject: kernels.Linear(kernels.BF16, 8, 8), M: 2}, "it takes fp32"},
		{kernels.Task{Subject: kernels.Product(kernels.FP32, 8, 8), M: 2}, "layout nk"},
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 2, PackInside: true}, "not inside"},
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 2}.Batch(2), "one product a launch"},
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 2, Threads: 2}, ""},
		{kernels.Task{Subject: kernels.Linear(kernels.FP32, 8, 8), M: 2, Threads: 1}, "run on all 2 threads"},
	} {
		err := ks[0].Supports(c.task)
		if c.task.Threads == 1 && !strings.HasPrefix(err.Error(), "kernel plain does not support --threads 1: ") {
			t.Errorf("%v: %v", c.task, err)
		}
		var refused *kernels.Unsupported
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, c.want)) {
			t.Errorf("%v: %v, expected %q", c.task, err, c.want)
		}
	}
}

// Launches of two processes can't be in one block.
func TestMixture(t *testing.T) {
	d, ks, _, err := open(t, "right", 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, _ := product(t, d, ks[0], 4, 4, 4)
	ours, _ := product(t, d, must(kernels.FindProduct(d, "naive"))(t), 4, 4, 4)
	_, err = d.Execute(context.Background(), []kernels.Launch{theirs, ours}, 2)
	if err == nil || !strings.Contains(err.Error(), "can't be divided") {
		t.Errorf("%v", err)
	}
}
