//go:build cuda

// Package gputest opens the GPU that the tests of a room run on.
package gputest

import (
	"sync"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// GPU is a GPU with the kernels that a test gives it, none at first: what the tests of one
// room run on.
type GPU struct {
	*driver.Device
	Kernels []kernels.Gemm
}

// Gemms lists the kernels that the test gave.
func (d GPU) Gemms() []kernels.Gemm { return d.Kernels }

// Missing is empty: nothing was looked for.
func (d GPU) Missing() []kernels.Missing { return nil }

var openFirst = sync.OnceValues(func() (*driver.Device, string) {
	if reason := driver.Unusable(); reason != "" {
		return nil, reason
	}
	d, err := driver.Open(0)
	if err != nil {
		return nil, err.Error()
	}
	return d, ""
})

// First is the first GPU here, or the test is skipped with the reason.
func First(t testing.TB) GPU {
	t.Helper()
	d, reason := openFirst()
	if d == nil {
		t.Skipf("no GPU here: %s", reason)
	}
	return GPU{Device: d}
}

// Buffer is memory that is given back when the test ends.
func Buffer(t testing.TB, d kernels.Device, bytes int64) kernels.Buffer {
	t.Helper()
	b, err := d.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
