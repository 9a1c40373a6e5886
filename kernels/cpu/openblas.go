package cpu

/*
#include <stdlib.h>
#include "native/openblas.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var openblasName = libraryName{
	kernel: "openblas",
	env:    "GEMMAUDIT_OPENBLAS",
	// Fedora and related systems call the build with pthreads libopenblasp.
	sonames: append(sharedNames("openblas", "0", ""), sharedNames("openblasp", "0")...),
	install: "install Debian's libopenblas0",
}

// openblas is the system's OpenBLAS. It packs B in every call and can't pack ahead, so its weights are raw B.
type openblas struct {
	kernels.TellsNothing
	dev     *Device
	name    string
	lib     *C.ga_openblas // never freed, like the library
	version string         // "0.3.21"
	core    openblasCore   // the active core type
	limit   int            // maximum threads of the build, 0 if unknown
}

func bindOpenBLAS(d *Device, l *library) (boundLibrary, error) {
	call := func(name string) string {
		f := l.symbol(name)
		if f == nil {
			return ""
		}
		return C.GoString(C.ga_openblas_string(f))
	}
	sgemm, set := l.symbol("cblas_sgemm"), l.symbol("openblas_set_num_threads")
	switch {
	case sgemm == nil:
		return nil, errors.New("it has no cblas_sgemm")
	case set == nil:
		return nil, errors.New("it has no openblas_set_num_threads, so it is another BLAS or one whose threads can't be chosen")
	}
	config := call("openblas_get_config")
	if strings.Contains(config, "USE64BITINT") {
		return nil, errors.New("it was built with 64-bit integers: expected the usual 32-bit interface")
	}
	lib := (*C.ga_openblas)(C.calloc(1, C.sizeof_ga_openblas))
	keep(unsafe.Pointer(lib))
	*lib = C.ga_openblas{sgemm: sgemm, sbgemm: l.symbol("cblas_sbgemm"), set_num_threads: set}
	return openblas{
		dev: d, name: openblasName.kernel, lib: lib,
		version: openblasVersion(config), core: chooseOpenBLASCore(l), limit: openblasLimit(config),
	}, nil
}

// openblasVersion returns the second word of "OpenBLAS 0.3.21 DYNAMIC_ARCH ...".
func openblasVersion(config string) string {
	if fields := strings.Fields(config); len(fields) > 1 {
		return fields[1]
	}
	return "of unknown version"
}

// openblasLimit returns n of MAX_THREADS=n; the build ignores requests for more threads.
func openblasLimit(config string) int {
	for field := range strings.FieldsSeq(config) {
		if n, ok := strings.CutPrefix(field, "MAX_THREADS="); ok {
			limit, _ := strconv.Atoi(n)
			return limit
		}
	}
	return 0
}

func (k openblas) Name() string { return k.name }

func (k openblas) release() string { return k.version }

func (k openblas) build() string { return k.core.String() }

func (k openblas) isa() string { return k.core.name }

func (k openblas) named(name string) kernels.Kernel {
	k.name = name
	return k
}

func (k openblas) Describe() string {
	return strings.TrimSpace(fmt.Sprintf("OpenBLAS %s %s, packs B in every call", k.version, k.core))
}

func (k openblas) Supports(t kernels.Task) error {
	p, err := k.dev.supports(k.Name(), t, kernels.Batches)
	if err != nil {
		return err
	}
	reason := ""
	switch p.DType {
	case kernels.FP32:
	case kernels.BF16:
		if k.lib.sbgemm == nil {
			reason = "this build has no cblas_sbgemm (OpenBLAS is built without BUILD_BFLOAT16 by default)"
		}
	default:
		reason = "OpenBLAS multiplies only fp32 and bf16"
	}
	if reason == "" && max(p.M, p.N, p.K, p.LDA, p.LDB, p.LDC) > math.MaxInt32 {
		reason = "its interface has 32-bit integers"
	}
	if reason != "" {
		return p.Unsupported(k.Name(), reason)
	}
	return nil
}

func (k openblas) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return k.dev.prepare(k, kernels.Batches, t, raw, k.dev.keepRaw)
}

// openblasCall owns a launch's memory. A cleanup frees it with the launch.
type openblasCall struct{ c *C.ga_openblas_call }

// Bind implements [kernels.Kernel]; the products of a batch run in sequence.
func (k openblas) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	if t.Products > 0 {
		return k.dev.batchBind(k, t, a, w, c)
	}
	g, p, err := k.dev.bindRaw(k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	label, threads := "", k.dev.threadsOf(p)
	if k.limit > 0 && threads > k.limit {
		label = fmt.Sprintf("threads: %d, the build's limit", k.limit)
	}
	var sums unsafe.Pointer
	if p.DType == kernels.BF16 {
		label = strings.Trim("sbgemm, C rounded on one thread, "+label, ", ")
		if sums = C.malloc(C.size_t(p.M) * C.size_t(p.N) * 4); sums == nil {
			return nil, fmt.Errorf("%v: no memory for the fp32 sums of sbgemm", p.Shape())
		}
	}
	call := (*C.ga_openblas_call)(C.calloc(1, C.sizeof_ga_openblas_call))
	*call = C.ga_openblas_call{lib: k.lib, gemm: g, threads: C.int(threads), sums: (*C.float)(sums)}
	owner := &openblasCall{call}
	runtime.AddCleanup(owner, func(call *C.ga_openblas_call) {
		C.free(unsafe.Pointer(call.sums))
		C.free(unsafe.Pointer(call))
	}, call)
	return callLaunch(C.ga_call(C.ga_openblas_run), unsafe.Pointer(call), label, owner, a.Buffer, w, c.Buffer), nil
}
