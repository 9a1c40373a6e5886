// oneDNN's matmul as a launch, through its C interface, declared here by hand for
// the two that are in use: 2.x (operation descriptors, memory descriptors by
// value) and 3.x (neither).
//
// A plan is what oneDNN says it would do for a problem: which implementation, and
// in which form it wants B. A form is B reordered to that. A matmul is a plan
// with its operands, ready to run.
//
// All functions run on the library thread (see dl.h), as primitives must be made
// for the OpenMP team that executes them.
#ifndef GEMMAUDIT_ONEDNN_H
#define GEMMAUDIT_ONEDNN_H

#include "launch.h"

typedef struct ga_dnn ga_dnn;
typedef struct ga_dnn_plan ga_dnn_plan;
typedef struct ga_dnn_form ga_dnn_form;
typedef struct ga_dnn_matmul ga_dnn_matmul;

enum { GA_DNN_ERROR = 256 }; // bytes of an error's text

// ga_dnn_open finds the functions of an opened library and makes an engine and a
// stream. On failure it returns NULL and writes the reason to err.
ga_dnn *ga_dnn_open(void *handle, char *err);
// ga_dnn_version writes "3.2.0" or the like.
void ga_dnn_version(const ga_dnn *lib, char *text, size_t len);
// ga_dnn_isa is the instruction set that the library runs, in its own words ("avx2", "avx512_core_amx"): the CPU's, capped
// by ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA. Empty where a build does not tell. The text is the library's.
const char *ga_dnn_isa(const ga_dnn *lib);
// ga_dnn_major is 2 or 3.
int ga_dnn_major(const ga_dnn *lib);

// ga_dnn_plan_create asks for a matmul of g's sizes, strides and type on threads
// threads. Addresses in g are not looked at. With plain, B keeps the layout that
// g gives it; otherwise oneDNN chooses. NULL: err has the reason, and *refused
// says that oneDNN has no implementation, which is no fault.
ga_dnn_plan *ga_dnn_plan_create(ga_dnn *lib, const ga_gemm *g, int threads, int plain, int *refused, char *err);
// ga_dnn_plan_label is oneDNN's name for the implementation: "brg:avx512_core".
const char *ga_dnn_plan_label(const ga_dnn_plan *plan);
size_t ga_dnn_plan_weight_bytes(const ga_dnn_plan *plan);
size_t ga_dnn_plan_scratch_bytes(const ga_dnn_plan *plan);
void ga_dnn_plan_free(ga_dnn_plan *plan);

// ga_dnn_form_create reorders B, as g gives it at g->b_raw, to the form of the
// plan in memory of ga_dnn_plan_weight_bytes bytes that the caller owns.
ga_dnn_form *ga_dnn_form_create(ga_dnn *lib, const ga_gemm *g, const ga_dnn_plan *plan, void *memory, char *err);
// ga_dnn_form_fits: is this the form that the plan wants?
int ga_dnn_form_fits(const ga_dnn_form *form, const ga_dnn_plan *plan);
void ga_dnn_form_free(ga_dnn_form *form);

// ga_dnn_matmul_create joins a plan with g->a, g->c and the memory of B in the
// plan's form. The plan may be freed afterwards.
ga_dnn_matmul *ga_dnn_matmul_create(const ga_dnn_plan *plan, const ga_gemm *g, void *weights, void *scratch, char *err);
// ga_dnn_matmul_run is a ga_call on a ga_dnn_matmul; it returns oneDNN's status.
int ga_dnn_matmul_run(void *matmul);
void ga_dnn_matmul_free(ga_dnn_matmul *matmul);

#endif
