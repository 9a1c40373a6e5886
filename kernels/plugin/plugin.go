// Package plugin loads user kernels from shared libraries with the C interface in include/gemmaudit_kernel.h.
// Devices run them.
package plugin

/*
#cgo CFLAGS: -I${SRCDIR}/include
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <dlfcn.h>
#include "gemmaudit_kernel.h"

static const gemmaudit_kernel *ga_kernel_open(const char *path, char *error, size_t bytes) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror();
    snprintf(error, bytes, "%s", why != NULL ? why : "dlopen gave no reason");
    return NULL;
  }
  gemmaudit_kernel_get_fn get = (gemmaudit_kernel_get_fn)dlsym(library, "gemmaudit_kernel_get");
  const gemmaudit_kernel *k = get != NULL ? get() : NULL;
  if (get == NULL) snprintf(error, bytes, "it exports no gemmaudit_kernel_get");
  else if (k == NULL) snprintf(error, bytes, "its gemmaudit_kernel_get returned NULL");
  if (k == NULL) dlclose(library);
  return k;
}

static int ga_kernel_supports(const gemmaudit_kernel *k, const gemmaudit_problem *p, char *error) {
  return k->supports != NULL ? k->supports(p, error) : 0;
}
static int64_t ga_kernel_workspace(const gemmaudit_kernel *k, const gemmaudit_problem *p) {
  return k->workspace_bytes != NULL ? k->workspace_bytes(p) : 0;
}
static int64_t ga_kernel_packed(const gemmaudit_kernel *k, const gemmaudit_problem *p) {
  return k->packed_bytes != NULL ? k->packed_bytes(p) : 0;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Kernel is an opened library with a GEMM kernel. It stays loaded until the process ends.
type Kernel struct {
	File
	c *C.gemmaudit_kernel
}

var opened struct {
	sync.Mutex
	byPath map[string]*Kernel
}

// Open loads the shared library at path; the error gives the reason if it can't be used. A second call with
// the same path returns the same kernel, even if the file has changed.
func Open(path string) (*Kernel, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", path, err)
	}
	opened.Lock()
	defer opened.Unlock()
	if k := opened.byPath[full]; k != nil {
		return k, nil
	}
	k, err := open(full)
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", path, err)
	}
	if opened.byPath == nil {
		opened.byPath = map[string]*Kernel{}
	}
	opened.byPath[full] = k
	return k, nil
}

func open(path string) (*Kernel, error) {
	sum, err := kernels.FileSHA256(path)
	if err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const room = 1024
	message := (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(message))
	c := C.ga_kernel_open(name, message, room)
	if c == nil {
		return nil, errors.New(C.GoString(message))
	}
	if c.abi != C.GEMMAUDIT_KERNEL_ABI {
		return nil, fmt.Errorf("it was built for version %d of the interface, expected %d", c.abi, C.GEMMAUDIT_KERNEL_ABI)
	}
	k := &Kernel{File: File{Path: path, SHA256: sum, Kind: kindOf(c.device)}, c: (*C.gemmaudit_kernel)(unsafe.Pointer(c))}
	return k, k.describe()
}

// mostDescription is the maximum length of a description in bytes.
const mostDescription = 200

func (k *Kernel) describe() error {
	var err error
	if k.Name, k.Description, err = words(k.c.name, k.c.description); err != nil {
		return err
	}
	switch {
	case (k.c.packed_bytes == nil) != (k.c.prepare == nil):
		return errors.New("it has one of packed_bytes and prepare: expected both or neither")
	}
	runs := 0
	for _, set := range []bool{k.c.run != nil, k.c.run_team != nil, k.c.enqueue != nil} {
		if set {
			runs++
		}
	}
	switch {
	case k.Kind == "":
		return fmt.Errorf("its device is %d: expected GEMMAUDIT_CPU or GEMMAUDIT_CUDA", k.c.device)
	case runs != 1:
		return fmt.Errorf("it has %d of run, run_team and enqueue: expected one", runs)
	case (k.c.enqueue != nil) != (k.Kind == kernels.CUDA):
		return fmt.Errorf("it is for a device of kind %s: expected run or run_team on the CPU, enqueue on a GPU", k.Kind)
	}
	return nil
}

// words returns the validated name and description of a kernel.
func words(name, description *C.char) (string, string, error) {
	text := func(s *C.char) string {
		if s == nil {
			return ""
		}
		return C.GoStringN(s, C.int(C.strnlen(s, mostDescription+1)))
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	n, d := text(name), text(description)
	switch {
	case !kernels.ValidBroughtName(n):
		return "", "",
			fmt.Errorf("it names its kernel %q: expected a lower-case letter, then at most 31 lower-case letters, digits, - and _", n)
	case n == kernels.Ladder:
		return "", "", fmt.Errorf("it names its kernel %q, which selects gemmaudit's own kernels: expected another name", n)
	case len(d) > mostDescription || !utf8.ValidString(d) || strings.ContainsFunc(d, unprintable):
		return "", "", fmt.Errorf("its description %q is not one line of at most %d bytes of UTF-8", d, mostDescription)
	}
	return n, d, nil
}

// kindOf returns "" for an unknown device.
func kindOf(device C.uint32_t) kernels.Kind {
	switch device {
	case C.GEMMAUDIT_CPU:
		return kernels.CPU
	case C.GEMMAUDIT_CUDA:
		return kernels.CUDA
	}
	return ""
}

// Descriptor returns the address of the library's gemmaudit_kernel, for a device's C code.
func (k *Kernel) Descriptor() unsafe.Pointer { return unsafe.Pointer(k.c) }

// Packs reports whether the kernel packs B into its own format.
func (k *Kernel) Packs() bool { return k.c.prepare != nil }

// Team reports whether the kernel runs on gemmaudit's threads.
func (k *Kernel) Team() bool { return k.c.run_team != nil }

// ProblemBytes is the size of the struct that [WriteProblem] writes.
const ProblemBytes = C.sizeof_gemmaudit_problem

var dtypes = map[kernels.DType]C.int32_t{
	kernels.FP32: C.GEMMAUDIT_FP32, kernels.TF32: C.GEMMAUDIT_TF32, kernels.FP16: C.GEMMAUDIT_FP16,
	kernels.BF16: C.GEMMAUDIT_BF16, kernels.FP8: C.GEMMAUDIT_FP8, kernels.INT8: C.GEMMAUDIT_INT8,
}

// problem converts a normalized problem to its C struct.
func problem(p kernels.Task, threads, ordinal int) C.gemmaudit_problem {
	c := C.gemmaudit_problem{
		m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K),
		lda: C.int64_t(p.LDA), ldb: C.int64_t(p.LDB), ldc: C.int64_t(p.LDC),
		dtype: dtypes[p.DType], threads: C.int32_t(threads), ordinal: C.int32_t(ordinal),
	}
	if p.Layout == kernels.Transposed {
		c.b_transposed = 1
	}
	return c
}

// WriteProblem writes a normalized problem as a gemmaudit_problem to memory at to.
func WriteProblem(to unsafe.Pointer, p kernels.Task, threads, ordinal int) {
	*(*C.gemmaudit_problem)(to) = problem(p, threads, ordinal)
}

// Supports asks the kernel about a problem. It returns nil, or an [*kernels.Unsupported] with the library's
// reason.
func (k *Kernel) Supports(p kernels.Task, threads, ordinal int) error {
	refuse := func(reason string) error {
		return &kernels.Unsupported{Kernel: k.Name, DType: p.DType, Reason: reason}
	}
	q, err := p.Normalized()
	if err != nil {
		return refuse(err.Error())
	}
	if q.PackInside && k.Packs() && k.Team() {
		return refuse("it packs on one thread, which can't be done inside the timing of a team")
	}
	c := problem(q, threads, ordinal)
	message := (*C.char)(C.calloc(1, C.GEMMAUDIT_ERROR_BYTES))
	defer C.free(unsafe.Pointer(message))
	if rc := C.ga_kernel_supports(k.c, &c, message); rc != 0 {
		return refuse(Reason(unsafe.Pointer(message), int(rc)))
	}
	return nil
}

// Reason returns a library's error text as printable text, or the code if the text is empty. message has
// GEMMAUDIT_ERROR_BYTES bytes.
func Reason(message unsafe.Pointer, code int) string {
	c := (*C.char)(message)
	text := C.GoStringN(c, C.int(C.strnlen(c, C.GEMMAUDIT_ERROR_BYTES)))
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?")))
	if text == "" {
		return fmt.Sprintf("the library gave code %d and no reason", code)
	}
	return text
}

// WorkspaceBytes returns the workspace size for a normalized problem. It returns an error if the library asks
// for a negative size.
func (k *Kernel) WorkspaceBytes(p kernels.Task, threads, ordinal int) (int64, error) {
	c := problem(p, threads, ordinal)
	return k.size("workspace_bytes", int64(C.ga_kernel_workspace(k.c, &c)))
}

// PackedBytes returns the size of the packed B of a normalized problem.
func (k *Kernel) PackedBytes(p kernels.Task, threads, ordinal int) (int64, error) {
	c := problem(p, threads, ordinal)
	n, err := k.size("packed_bytes", int64(C.ga_kernel_packed(k.c, &c)))
	if err == nil && n == 0 {
		err = fmt.Errorf("kernel %s: packed_bytes is 0, expected at least 1", k.Name)
	}
	return n, err
}

func (k *Kernel) size(what string, n int64) (int64, error) {
	if n < 0 {
		return 0, fmt.Errorf("kernel %s: %s is %d, expected at least 0", k.Name, what, n)
	}
	return n, nil
}
