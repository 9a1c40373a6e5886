package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// A library that hangs in a query must be given up after --case-timeout.
func TestAskingHangs(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	run := filepath.Join(t.TempDir(), "run.db")
	for _, args := range [][]string{{"choices"}, {"sweep", "--infer", "--out", run}} {
		d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "flat", Cost: simulated.Linear(1e10, 5e-6),
			Choice: func(p kernels.Task) (kernels.Choice, error) {
				if p.M == 24 {
					<-release
				}
				return kernels.Choice{Label: "a"}, nil
			}}}})
		args = append(args, "-q", "--shape", "n64k64", "--batch", "8:1024:8", "--dtype", "fp32", "--kernel", "flat", "--case-timeout",
			"300ms")
		code, stderr := on(simulation{device: d}, machine{devices: []kernels.Device{d}}, args...)
		want := "no answer within 300ms to tell how m24 of "
		if code != exitDevice || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", args[0], code, stderr)
		}
	}
}
