//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// TestOperations holds the operations of a decoder to their references.
func TestOperations(t *testing.T) { kerneltest.Operations(t, gpu(t)) }
