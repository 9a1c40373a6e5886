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
	// Fedora and its kin call the build with pthreads libopenblasp.
	sonames: append(sharedNames("openblas", "0", ""), sharedNames("openblasp", "0")...),
	install: "install Debian's libopenblas0",
}

// openblas is the system's OpenBLAS. It packs B inside every call and offers no
// way to do so ahead, so its weights are B as it was given.
type openblas struct {
	dev     *Device
	name    string
	lib     *C.ga_openblas // never freed, like the library
	version string         // "0.3.21"
	core    openblasCore   // whose kernels it runs
	limit   int            // threads that it was built for, 0 when it doesn't tell
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

// openblasVersion is the word after the name in "OpenBLAS 0.3.21 DYNAMIC_ARCH ...".
func openblasVersion(config string) string {
	if fields := strings.Fields(config); len(fields) > 1 {
		return fields[1]
	}
	return "of unknown version"
}

// openblasLimit is n of MAX_THREADS=n, past which a build ignores what is asked.
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

func (k openblas) named(name string) kernels.Gemm {
	k.name = name
	return k
}

func (k openblas) Describe() string {
	return strings.TrimSpace(fmt.Sprintf("OpenBLAS %s %s, packs B in every call", k.version, k.core))
}

func (k openblas) Supports(p kernels.Problem) error {
	if err := k.dev.supports(k.Name(), p); err != nil {
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
		return &kernels.Unsupported{Kernel: k.Name(), DType: p.DType, Reason: reason}
	}
	return nil
}

// PrepareWeights leaves B where it is.
func (k openblas) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	return k.dev.keepRaw(p, raw)
}

// openblasCall owns the memory of one launch, which a cleanup frees once nothing
// refers to the launch any more.
type openblasCall struct{ c *C.ga_openblas_call }

func (k openblas) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	g, p, err := k.dev.bindRaw(k.Name(), p, a, w, c)
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
			return nil, fmt.Errorf("%v: no memory for the fp32 sums of sbgemm", p.Shape)
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

// SupportsBatch implements [kernels.Batcher].
func (k openblas) SupportsBatch(batch kernels.Batch) error { return batchSupports(k, batch) }

// PrepareBatch implements [kernels.Batcher].
func (k openblas) PrepareBatch(batch kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.batchPrepare(k, batch, raw)
}

// BindBatch implements [kernels.Batcher]: the products run one after the other.
func (k openblas) BindBatch(batch kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return k.dev.batchBind(k, batch, a, w, c)
}
