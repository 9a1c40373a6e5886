//go:build cuda

// Package gputest opens the GPU for a package's tests.
package gputest

import (
	"sync"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// GPU is a GPU with the matrix kernels that a test sets, initially none.
type GPU struct {
	*driver.Device
	Products []kernels.Kernel
}

// Kernels lists the kernels that the test set, whatever the operation.
func (d GPU) Kernels(kernels.Operation) []kernels.Kernel { return d.Products }

// Missing returns nil.
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

// First returns the first GPU, or skips the test with the reason.
func First(t testing.TB) GPU {
	t.Helper()
	d, reason := openFirst()
	if d == nil {
		t.Skipf("no GPU here: %s", reason)
	}
	return GPU{Device: d}
}

// Buffer allocates memory that is freed when the test ends.
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
