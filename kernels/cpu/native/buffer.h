// Memory for operands, and what is put into it.
#ifndef GEMMAUDIT_BUFFER_H
#define GEMMAUDIT_BUFFER_H

#include "pool.h"

// ga_map returns at least bytes of zeroed memory aligned to a huge page, or NULL.
void *ga_map(size_t bytes);
// ga_unmap frees what ga_map(bytes) returned.
void ga_unmap(void *p, size_t bytes);

typedef enum { GA_NORMAL = 0, GA_INTEGERS = 1, GA_ZEROS = 2 } ga_distribution;

// ga_fill writes n elements with all threads of the pool. Element i depends on
// seed and i alone.
void ga_fill(ga_pool *pool, void *dst, ga_distribution dist, ga_dtype dtype, int64_t n, uint64_t seed);

#endif
