// Memory for operands, and filling it.
#ifndef GEMMAUDIT_BUFFER_H
#define GEMMAUDIT_BUFFER_H

#include "pool.h"

// ga_map returns at least bytes of zeroed memory aligned to a huge page, or NULL.
void *ga_map(size_t bytes);
void ga_unmap(void *p, size_t bytes);

typedef enum { GA_NORMAL = 0, GA_INTEGERS = 1, GA_ZEROS = 2 } ga_distribution;

// ga_fill writes n elements with all threads of the pool. Element i depends only on seed and i.
void ga_fill(ga_pool *pool, void *dst, ga_distribution dist, ga_dtype dtype, int64_t n, uint64_t seed);

#endif
