// What the glue of both libraries shares.
#ifndef GEMMAUDIT_CUBLAS_LIBRARY_H
#define GEMMAUDIT_CUBLAS_LIBRARY_H

// cudaDataType.
enum { R_32I = 10, R_8F_E4M3 = 28 };

// ga_blas_open opens a library with its symbols kept to itself, or writes the
// loader's words to err.
void *ga_blas_open(const char *name, char *err);

// ga_blas_about asks a library for its version and finds its file; 0 is success.
int ga_blas_about(int (*property)(int, int *), int version[3], char *path);

// The factors alpha and beta in a scale type, in host memory.
const void *ga_blas_one(int scale);
const void *ga_blas_zero(int scale);

#endif
