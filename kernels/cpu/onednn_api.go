package cpu

/*
#include <stdlib.h>
#include "native/dl.h"
#include "native/onednn.h"

// A request to the library thread and its result.
typedef struct {
	enum { OPEN, PLAN, FORM, MATMUL } what;
	void *handle;
	ga_dnn *lib;
	ga_gemm gemm;
	int threads, plain;
	ga_dnn_plan *plan;
	void *weights, *scratch;
	void *result;
	int refused;
	char err[GA_DNN_ERROR];
} ga_dnn_request;

static void ga_dnn_serve(void *p) {
	ga_dnn_request *r = p;
	switch (r->what) {
	case OPEN: r->result = ga_dnn_open(r->handle, r->err); break;
	case PLAN: r->result = ga_dnn_plan_create(r->lib, &r->gemm, r->threads, r->plain, &r->refused, r->err); break;
	case FORM: r->result = ga_dnn_form_create(r->lib, &r->gemm, r->plan, r->weights, r->err); break;
	case MATMUL: r->result = ga_dnn_matmul_create(r->plan, &r->gemm, r->weights, r->scratch, r->err); break;
	}
}
static void ga_dnn_ask(ga_dnn_request *r) { ga_library_run(ga_dnn_serve, r); }
*/
import "C"

import (
	"errors"
	"unsafe"
)

// dnnAPI is an opened oneDNN with its engine and stream. It lives as long as the
// process.
type dnnAPI struct{ c *C.ga_dnn }

// errRefused means that oneDNN has no implementation for a problem.
var errRefused = errors.New("unimplemented")

// dnnAsk runs one request on the library thread, in C memory because that thread writes to it.
func dnnAsk(fill func(*C.ga_dnn_request)) (unsafe.Pointer, error) {
	r := (*C.ga_dnn_request)(C.calloc(1, C.sizeof_ga_dnn_request))
	defer C.free(unsafe.Pointer(r))
	fill(r)
	C.ga_dnn_ask(r)
	if r.result != nil {
		return r.result, nil
	}
	err := errors.New(C.GoString(&r.err[0]))
	if r.refused != 0 {
		err = errors.Join(err, errRefused)
	}
	return nil, err
}

func dnnOpen(l *library) (dnnAPI, error) {
	p, err := dnnAsk(func(r *C.ga_dnn_request) { r.what, r.handle = C.OPEN, l.handle })
	if err == nil {
		keep(p)
	}
	return dnnAPI{(*C.ga_dnn)(p)}, err
}

func (d dnnAPI) version() string {
	var text [32]C.char
	C.ga_dnn_version(d.c, &text[0], C.size_t(len(text)))
	return C.GoString(&text[0])
}

// isa returns the instruction set that the library runs, in its spelling: "avx512_core_amx". Empty if
// unknown.
func (d dnnAPI) isa() string { return C.GoString(C.ga_dnn_isa(d.c)) }

// plan queries oneDNN's choice for g. The caller must free the plan.
func (d dnnAPI) plan(g C.ga_gemm, threads int, plain bool) (*C.ga_dnn_plan, error) {
	p, err := dnnAsk(func(r *C.ga_dnn_request) {
		r.what, r.lib, r.gemm, r.threads = C.PLAN, d.c, g, C.int(threads)
		if plain {
			r.plain = 1
		}
	})
	return (*C.ga_dnn_plan)(p), err
}

// form reorders g's raw B into memory.
func (d dnnAPI) form(g C.ga_gemm, plan *C.ga_dnn_plan, memory unsafe.Pointer) (*C.ga_dnn_form, error) {
	p, err := dnnAsk(func(r *C.ga_dnn_request) {
		r.what, r.lib, r.gemm, r.plan, r.weights = C.FORM, d.c, g, plan, memory
	})
	return (*C.ga_dnn_form)(p), err
}

// matmul creates the primitive. weights are in the plan's format.
func (d dnnAPI) matmul(g C.ga_gemm, plan *C.ga_dnn_plan, weights, scratch unsafe.Pointer) (*C.ga_dnn_matmul, error) {
	p, err := dnnAsk(func(r *C.ga_dnn_request) {
		r.what, r.gemm, r.plan, r.weights, r.scratch = C.MATMUL, g, plan, weights, scratch
	})
	return (*C.ga_dnn_matmul)(p), err
}
