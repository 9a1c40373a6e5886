package mistral

import "github.com/gemmaudit/gemmaudit/kernels/cpu"

var _ Backend = (*cpu.Device)(nil)
