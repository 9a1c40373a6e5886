// Common code for both libraries.
#ifndef GEMMAUDIT_CUBLAS_LIBRARY_H
#define GEMMAUDIT_CUBLAS_LIBRARY_H

#include "cublas.h"

// cudaDataType.
enum { R_32I = 10, R_8F_E4M3 = 28 };

// ga_blas_function is a function's name and the member for its address.
typedef struct {
  const char *symbol;
  void *member;
  int optional; // the member is NULL if the library lacks it
} ga_blas_function;

// ga_blas_open opens a library with local symbols, finds its functions, its version through property, one of
// them, and its file. On failure it returns -1 and writes the reason to err.
int ga_blas_open(const char *name, const ga_blas_function *functions, int (**property)(int, int *), ga_blas_about *about, char *err);

// The factors alpha and beta in a scale type, in host memory.
const void *ga_blas_one(int scale);
const void *ga_blas_zero(int scale);

#endif
