// OpenBLAS as a launch: cblas_sgemm, and cblas_sbgemm where the build has it.
#ifndef GEMMAUDIT_OPENBLAS_H
#define GEMMAUDIT_OPENBLAS_H

#include "launch.h"

// The functions of one opened library, found by name. sbgemm may be NULL.
typedef struct {
  void *sgemm, *sbgemm, *set_num_threads;
} ga_openblas;

// One product. fp32 only of B as it is; for bf16, sums is fp32 memory of m×n.
typedef struct {
  ga_openblas *lib;
  ga_gemm gemm;
  int threads;
  float *sums;
} ga_openblas_call;

// ga_openblas_run is a ga_call on a ga_openblas_call.
int ga_openblas_run(void *call);

// ga_openblas_string calls a const char *(void).
const char *ga_openblas_string(void *function);

// ga_openblas_choice is what ga_openblas_choose needs: the library's gotoblas_dynamic_quit and _init, and the
// core type to be had, NULL for the library's own choice.
typedef struct {
  void *quit, *init;
  char *core;
} ga_openblas_choice;

// ga_openblas_choose has a library choose the kernels for its core type again, from a ga_openblas_choice. The
// variable that tells it, OPENBLAS_CORETYPE, is unset after: it is called where the user has not set it.
void ga_openblas_choose(void *choice);

#endif
