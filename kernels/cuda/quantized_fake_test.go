//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { scenarios["quantized plans"] = quantizedPlans }

// quantizedPlans runs kernels on quantized weights, and prints their launches beside their choices.
func quantizedPlans() {
	d := scenarioDevice()
	p := kernels.Task{Subject: kernels.Linear(kernels.BF16, 256, 512), M: 40}
	format, err := kernels.IntegerWeights(4, 128, false).For(p.DType, p.K)
	report(err)
	p = p.WithWeights(format)
	for _, name := range []string{"auto", "auto-serial", "w4a16", "w4a16:1", "w4a16:2", "w8a16", "hopper"} {
		k, err := kernels.Find(d, kernels.GEMM, name)
		if err == nil {
			err = k.Supports(p)
		}
		var label string
		if err == nil {
			label, err = runQuantized(d, k, p)
		}
		if err != nil {
			fmt.Printf("%s: %v\n", name, err)
			continue
		}
		told, err := k.Choice(p)
		report(err)
		fmt.Printf("%s: %s, told %v\n", name, label, told.Label == label)
	}
	report(d.Close())
}

func runQuantized(d kernels.Device, k kernels.Kernel, p kernels.Task) (label string, err error) {
	var buffers [3]kernels.Buffer
	for i, bytes := range []int64{p.Stored(p.M), int64(p.M * p.K * 2), int64(p.M * p.N * 2)} {
		if buffers[i], err = d.Alloc(bytes); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, buffers[i].Close()) }()
	}
	w, err := k.Prepare(p, buffers[0])
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	l, err := k.Bind(p, kernels.Operand{Buffer: buffers[1]}, w, kernels.Operand{Buffer: buffers[2]})
	if err != nil {
		return "", err
	}
	_, err = d.Execute(context.Background(), []kernels.Launch{l}, 1)
	return l.Label(), err
}

// Kernels for quantized weights list their plans, like others, and auto takes the fastest of them.
func TestQuantizedPlans(t *testing.T) {
	out, _ := child(t, "quantized plans", fakeDriver(t), "FAKE_CUDA_CAPABILITY=90")
	labels := map[string]string{}
	for line := range strings.Lines(out) {
		name, label, _ := strings.Cut(strings.TrimSpace(line), ": ")
		labels[name] = label
	}
	first := labels["w4a16"]
	if !strings.HasSuffix(first, ", told true") || labels["auto"] != "w4a16 "+first || labels["auto-serial"] != labels["auto"] {
		t.Errorf("auto takes another plan than the fastest:\n%s", out)
	}
	for _, name := range []string{"w4a16:1", "w4a16:2"} {
		if l := labels[name]; l == first || !strings.HasSuffix(l, ", told true") {
			t.Errorf("%s is no plan of its own:\n%s", name, out)
		}
	}
	for name, want := range map[string]string{"w8a16": "weights have 8 bits, not 4", "hopper": "it takes plain weights"} {
		if !strings.Contains(labels[name], want) {
			t.Errorf("%s: no %q in\n%s", name, want, out)
		}
	}
}
