// What the glue of both libraries shares.
#ifndef GEMMAUDIT_CUBLAS_LIBRARY_H
#define GEMMAUDIT_CUBLAS_LIBRARY_H

#include "cublas.h"

// cudaDataType.
enum { R_32I = 10, R_8F_E4M3 = 28 };

// ga_blas_function is a function of a library, and the member that is to hold it.
typedef struct {
  const char *symbol;
  void *member;
} ga_blas_function;

// ga_blas_open opens a library with its symbols kept to itself, finds its functions, asks
// property, one of them, for the version, and finds its file. It returns -1, with the
// reason in err, when that can't be had.
int ga_blas_open(const char *name, const ga_blas_function *functions, int (**property)(int, int *), ga_blas_about *about, char *err);

// The factors alpha and beta in a scale type, in host memory.
const void *ga_blas_one(int scale);
const void *ga_blas_zero(int scale);

#endif
