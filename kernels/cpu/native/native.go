// Package native is the C of package cpu: its kernels for each instruction set, its pool of threads, and the calls into libraries. It has no Go
// of its own and imports nothing, so that Go code changes without its compilers running, which take a minute.
package native

/*
#cgo CFLAGS: -std=c11 -Wall
#cgo !race,!amxemu CFLAGS: -O3
#cgo amxemu CFLAGS: -DGEMMAUDIT_AMX_EMULATION
#cgo LDFLAGS: -lm -lpthread
#cgo linux LDFLAGS: -ldl
*/
import "C"
