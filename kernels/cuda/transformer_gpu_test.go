//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func TestOperations(t *testing.T) { kerneltest.Operations(t, gpu(t)) }
