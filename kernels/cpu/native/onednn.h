// oneDNN's matmul as a launch. The C interface is declared by hand for both versions in use: 2.x (operation
// descriptors, memory descriptors by value) and 3.x (neither).
//
// A plan is oneDNN's choice for a problem: an implementation and a format of B. A form is B reordered to that
// format. A matmul is a plan with operands, ready to run.
//
// All functions run on the library thread (see dl.h), because primitives must be created for the OpenMP team
// that executes them.
#ifndef GEMMAUDIT_ONEDNN_H
#define GEMMAUDIT_ONEDNN_H

#include "launch.h"

typedef struct ga_dnn ga_dnn;
typedef struct ga_dnn_plan ga_dnn_plan;
typedef struct ga_dnn_form ga_dnn_form;
typedef struct ga_dnn_matmul ga_dnn_matmul;

enum { GA_DNN_ERROR = 256 };

// ga_dnn_open finds the library's functions and creates an engine and a stream. On failure it returns NULL
// and writes the reason to err.
ga_dnn *ga_dnn_open(void *handle, char *err);
void ga_dnn_version(const ga_dnn *lib, char *text, size_t len);
// ga_dnn_isa returns the instruction set in use, in the library's spelling ("avx2", "avx512_core_amx"): the
// CPU's, capped by ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA. It is empty if unknown. The library owns the text.
const char *ga_dnn_isa(const ga_dnn *lib);
int ga_dnn_major(const ga_dnn *lib);

// ga_dnn_plan_create plans a matmul with g's sizes, strides and type on threads threads; it ignores
// addresses. With plain, B keeps g's layout; otherwise oneDNN chooses. On failure it returns NULL with the
// reason in err, and *refused is set if oneDNN has no implementation.
ga_dnn_plan *ga_dnn_plan_create(ga_dnn *lib, const ga_gemm *g, int threads, int plain, int *refused, char *err);
// ga_dnn_plan_label returns oneDNN's name of the implementation: "brg:avx512_core".
const char *ga_dnn_plan_label(const ga_dnn_plan *plan);
size_t ga_dnn_plan_weight_bytes(const ga_dnn_plan *plan);
size_t ga_dnn_plan_scratch_bytes(const ga_dnn_plan *plan);
void ga_dnn_plan_free(ga_dnn_plan *plan);

// ga_dnn_form_create reorders g->b_raw to the plan's format in memory of ga_dnn_plan_weight_bytes bytes,
// owned by the caller.
ga_dnn_form *ga_dnn_form_create(ga_dnn *lib, const ga_gemm *g, const ga_dnn_plan *plan, void *memory, char *err);
int ga_dnn_form_fits(const ga_dnn_form *form, const ga_dnn_plan *plan);
void ga_dnn_form_free(ga_dnn_form *form);

// ga_dnn_matmul_create combines a plan with g->a, g->c and B in the plan's format. The plan may be freed
// afterwards.
ga_dnn_matmul *ga_dnn_matmul_create(const ga_dnn_plan *plan, const ga_gemm *g, void *weights, void *scratch, char *err);
// ga_dnn_matmul_run is a ga_call for a ga_dnn_matmul; it returns oneDNN's status.
int ga_dnn_matmul_run(void *matmul);
void ga_dnn_matmul_free(ga_dnn_matmul *matmul);

#endif
