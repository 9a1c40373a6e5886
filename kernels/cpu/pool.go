package cpu

/*
#cgo CFLAGS: -std=c11 -Wall
#include <stdlib.h>
#include "native/pool.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// pool is the device's threads, pinned one per usable CPU, which live as long as the device. C tasks run on
// it.
type pool struct{ c *C.ga_pool }

// newPool starts the threads; 0 means one per allowed CPU.
func newPool(threads int) (*pool, error) {
	var reason [256]C.char
	c := C.ga_pool_create(C.int(threads), &reason[0], C.size_t(len(reason)))
	if c == nil {
		return nil, fmt.Errorf("start thread pool: %w", errors.New(C.GoString((*C.char)(unsafe.Pointer(&reason[0])))))
	}
	return &pool{c}, nil
}

func (p *pool) threads() int { return int(C.ga_pool_threads(p.c)) }

func (p *pool) close() {
	C.ga_pool_destroy(p.c)
	p.c = nil
}
