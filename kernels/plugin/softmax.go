package plugin

/*
#include <stdlib.h>
#include <stdio.h>
#include <dlfcn.h>
#include "gemmaudit_kernel.h"

// ga_softmax_open returns NULL with *has 0 where the library has no softmax.
static const gemmaudit_softmax *ga_softmax_open(const char *path, int *has, char *error, size_t bytes) {
  *has = 0;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror();
    snprintf(error, bytes, "%s", why != NULL ? why : "dlopen gave no reason");
    *has = 1;
    return NULL;
  }
  gemmaudit_softmax_get_fn get = (gemmaudit_softmax_get_fn)dlsym(library, "gemmaudit_softmax_get");
  const gemmaudit_softmax *s = get != NULL ? get() : NULL;
  *has = get != NULL;
  if (get != NULL && s == NULL) snprintf(error, bytes, "its gemmaudit_softmax_get returned NULL");
  if (s == NULL) dlclose(library);
  return s;
}

static int ga_softmax_supports(const gemmaudit_softmax *s, const gemmaudit_softmax_problem *p, char *error) {
  return s->supports != NULL ? s->supports(p, error) : 0;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Softmax is an opened library with a softmax kernel. It stays loaded until the process ends.
type Softmax struct {
	File
	c *C.gemmaudit_softmax
}

// OpenSoftmax loads the shared library at path. It returns nil without an error if the library has no
// softmax. The error gives the reason if the softmax can't be used.
func OpenSoftmax(path string) (*Softmax, error) {
	fail := func(err error) (*Softmax, error) { return nil, fmt.Errorf("kernel %q: %w", path, err) }
	full, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	sum, err := kernels.FileSHA256(full)
	if err != nil {
		return fail(err)
	}
	name := C.CString(full)
	defer C.free(unsafe.Pointer(name))
	const room = 1024
	message := (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(message))
	var has C.int
	c := C.ga_softmax_open(name, &has, message, room)
	switch {
	case c == nil && has == 0:
		return nil, nil
	case c == nil:
		return fail(errors.New(C.GoString(message)))
	case c.abi != C.GEMMAUDIT_SOFTMAX_ABI:
		return fail(fmt.Errorf("it was built for version %d of the interface of softmax, expected %d", c.abi, C.GEMMAUDIT_SOFTMAX_ABI))
	}
	s := &Softmax{File: File{Path: full, SHA256: sum, Kind: kindOf(c.device)}, c: (*C.gemmaudit_softmax)(unsafe.Pointer(c))}
	if s.Name, s.Description, err = words(c.name, c.description); err != nil {
		return fail(err)
	}
	switch {
	case s.Kind == "":
		err = fmt.Errorf("its device is %d: expected GEMMAUDIT_CPU or GEMMAUDIT_CUDA", c.device)
	case (c.run != nil) == (c.enqueue != nil):
		err = errors.New("it has both or none of run and enqueue: expected one")
	case (c.enqueue != nil) != (s.Kind == kernels.CUDA):
		err = fmt.Errorf("it is for a device of kind %s: expected run on the CPU, enqueue on a GPU", s.Kind)
	}
	if err != nil {
		return fail(err)
	}
	return s, nil
}

// Descriptor returns the address of the library's gemmaudit_softmax, for a device's C code.
func (s *Softmax) Descriptor() unsafe.Pointer { return unsafe.Pointer(s.c) }

func softmaxProblem(p kernels.Task, threads, ordinal int) C.gemmaudit_softmax_problem {
	c := C.gemmaudit_softmax_problem{
		rows: C.int64_t(p.M), columns: C.int64_t(p.Columns), queries: C.int64_t(p.Queries), scale: C.float(p.Scale),
		dtype: dtypes[p.DType], threads: C.int32_t(threads), ordinal: C.int32_t(ordinal),
	}
	if p.Log() {
		c.log = 1
	}
	return c
}

// WriteSoftmax writes a normalized problem as a gemmaudit_softmax_problem to memory at to.
func WriteSoftmax(to unsafe.Pointer, p kernels.Task, threads, ordinal int) {
	*(*C.gemmaudit_softmax_problem)(to) = softmaxProblem(p, threads, ordinal)
}

// Supports asks the kernel about a problem. It returns nil, or an [*kernels.Unsupported] with the library's
// reason.
func (s *Softmax) Supports(p kernels.Task, threads, ordinal int) error {
	refuse := func(reason string) error {
		return &kernels.Unsupported{Kernel: s.Name, DType: p.DType, Reason: reason}
	}
	q, err := p.Normalized()
	if err != nil {
		return refuse(err.Error())
	}
	c := softmaxProblem(q, threads, ordinal)
	message := (*C.char)(C.calloc(1, C.GEMMAUDIT_ERROR_BYTES))
	defer C.free(unsafe.Pointer(message))
	if rc := C.ga_softmax_supports(s.c, &c, message); rc != 0 {
		return refuse(Reason(unsafe.Pointer(message), int(rc)))
	}
	return nil
}
