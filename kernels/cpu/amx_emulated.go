//go:build amxemu

package cpu

// #cgo CFLAGS: -DGEMMAUDIT_AMX_EMULATION
import "C"

// amxEmulated is true if tiles are emulated in software, for tests on CPUs without AMX. Timings are
// meaningless.
const amxEmulated = true
