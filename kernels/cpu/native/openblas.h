// OpenBLAS as a launch: cblas_sgemm, and cblas_sbgemm if the build has it.
#ifndef GEMMAUDIT_OPENBLAS_H
#define GEMMAUDIT_OPENBLAS_H

#include "launch.h"

// Functions of an opened library. sbgemm may be NULL.
typedef struct {
  void *sgemm, *sbgemm, *set_num_threads;
} ga_openblas;

// One product. For bf16, sums is m×n fp32 memory.
typedef struct {
  ga_openblas *lib;
  ga_gemm gemm;
  int threads;
  float *sums;
} ga_openblas_call;

// ga_openblas_run is a ga_call for a ga_openblas_call.
int ga_openblas_run(void *call);

const char *ga_openblas_string(void *function);

// ga_openblas_choice is the argument of ga_openblas_choose: the library's gotoblas_dynamic_quit and _init,
// and the core type, or NULL for the library's choice.
typedef struct {
  void *quit, *init;
  char *core;
} ga_openblas_choice;

// ga_openblas_choose makes a library select its kernels again for the ga_openblas_choice. It unsets
// OPENBLAS_CORETYPE afterwards, so call it only if the user has not set the variable.
void ga_openblas_choose(void *choice);

#endif
