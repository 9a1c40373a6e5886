// What the cores can do at most: arithmetic out of registers, and streams of memory.
#ifndef GEMMAUDIT_PEAKS_H
#define GEMMAUDIT_PEAKS_H

#include "execute.h"

// An arithmetic loop works on registers alone: turns times, on accumulators that
// are enough to hide the latency of the instruction. data is 8 KiB of operands;
// what comes out goes to sink, so that the loop is not optimised away.
typedef void (*ga_arithmetic)(int64_t turns, const void *data, void *sink);

// A unit is an instruction whose rate is measured.
typedef struct {
  const char *name;  // "AVX-512 VPDPBUSD"
  double operations; // of one turn, a multiply and an add counted as two
  ga_arithmetic run;
} ga_unit;

typedef enum {
  GA_FMA_PORTABLE,
  GA_MADD_PORTABLE, // int8 widened to 16 bits
  GA_FMA_AVX2,
  GA_MADD_AVX2,
  GA_DOT_INT8_AVX, // VPDPBUSD on 32 bytes
  GA_FMA_AVX512,
  GA_MADD_AVX512,
  GA_DOT_BF16_AVX512,
  GA_DOT_INT8_AVX512,
  GA_DOT_BF16_AMX,
  GA_DOT_INT8_AMX,
  GA_UNITS
} ga_unit_code;

// ga_unit_of returns a unit, or NULL where it is not compiled for. The caller
// knows that the CPU has the instruction.
const ga_unit *ga_unit_of(ga_unit_code code);
// The units of x86-64, where SSE2 is the portable one.
extern const ga_unit ga_amd64_units[GA_UNITS];

// ga_probe_unit runs the unit on nthreads threads together. rate becomes the sum of
// the threads' operations a second, mhz the median of their clocks right after.
void ga_probe_unit(ga_pool *pool, int nthreads, const ga_unit *unit, int64_t turns, double *rate, double *mhz);

// A reader goes through bytes (a multiple of GA_READ_UNIT) in streams that run in
// parallel, each with prefetches ahead bytes before its reads (0: none).
typedef uint64_t (*ga_reader)(const char *p, int64_t bytes, int64_t ahead);
// A copier moves bytes (a multiple of GA_READ_UNIT).
typedef void (*ga_copier)(char *dst, const char *src, int64_t bytes, int64_t ahead);
enum { GA_READ_UNIT = 4096 };

typedef struct {
  const char *name; // "AVX-512, 4 streams"
  ga_reader read;   // or NULL
  ga_copier copy;   // or NULL
} ga_stream;

typedef enum { GA_BASE_STREAMS, GA_AVX2_STREAMS, GA_AVX512_STREAMS } ga_stream_set;

// ga_streams returns the readers and copiers of an instruction set and their
// number, 0 where they are not compiled for.
int ga_streams(ga_stream_set set, const ga_stream **streams);
extern const ga_stream ga_avx2_streams[], ga_avx512_streams[];
extern const int ga_avx2_stream_count, ga_avx512_stream_count;

// ga_stream_touch writes all of a buffer, each thread its share of every part, so
// that pages exist and lie near the thread that will read them.
void ga_stream_touch(ga_pool *pool, int nthreads, char *p, int64_t part, int parts);
// ga_stream_part reads or copies one part of bytes, a multiple of
// nthreads·GA_READ_UNIT, on nthreads threads, and returns the seconds from the
// first thread's start to the last one's end.
double ga_stream_part(ga_pool *pool, int nthreads, const ga_stream *s, char *dst, const char *src, int64_t part,
                      int64_t ahead);

#endif
