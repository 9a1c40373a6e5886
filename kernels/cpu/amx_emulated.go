//go:build amxemu

package cpu

// #cgo CFLAGS: -DGEMMAUDIT_AMX_EMULATION
import "C"

// amxEmulated says that tiles are a model in software, so that the kernel's logic
// runs in tests on every machine. Its speed means nothing.
const amxEmulated = true
