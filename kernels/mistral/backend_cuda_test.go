//go:build cuda

package mistral

import "github.com/gemmaudit/gemmaudit/kernels/cuda"

var (
	_ Backend = (*cuda.Device)(nil)
	_ fuser   = (*cuda.Device)(nil)
	_ grapher = (*cuda.Device)(nil)

	_ expertFuser = (*cuda.Device)(nil)
	_ rowMover    = (*cuda.Device)(nil)
)
