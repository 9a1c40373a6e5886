// Package native is the C code of package cpu: kernels for each instruction set, the thread pool, and library
// calls. It has no Go code and imports no packages, so changes of Go code do not recompile it, which takes a
// minute.
package native

/*
#cgo CFLAGS: -std=c11 -Wall
#cgo !race,!amxemu CFLAGS: -O3
#cgo amxemu CFLAGS: -O1 -DGEMMAUDIT_AMX_EMULATION
#cgo LDFLAGS: -lm -lpthread
#cgo linux LDFLAGS: -ldl
*/
import "C"
