// Peak rates of the cores: arithmetic in registers, and memory streams.
#ifndef GEMMAUDIT_PEAKS_H
#define GEMMAUDIT_PEAKS_H

#include "execute.h"

// A loop of turns iterations on registers, with enough accumulators to hide the instruction's latency. data
// is 8 KiB of operands. Results go to sink, which keeps the loop from being optimized away.
typedef void (*ga_arithmetic)(int64_t turns, const void *data, void *sink);

// A unit is an instruction with a measured rate.
typedef struct {
  const char *name;  // "AVX-512 VPDPBUSD"
  double operations; // per turn; a multiply-add counts as two
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

// ga_unit_of returns a unit, or NULL if not compiled in. The caller checks that the CPU has the instruction.
const ga_unit *ga_unit_of(ga_unit_code code);
extern const ga_unit ga_amd64_units[GA_UNITS];

// ga_probe_unit runs the unit on nthreads threads. rate is the sum of the threads' operations per second, mhz
// the median of their clocks right after.
void ga_probe_unit(ga_pool *pool, int nthreads, const ga_unit *unit, int64_t turns, double *rate, double *mhz);

// A reader reads bytes (a multiple of GA_READ_UNIT) in parallel streams, prefetching ahead bytes before each;
// 0 disables prefetching. A copier copies bytes.
typedef uint64_t (*ga_reader)(const char *p, int64_t bytes, int64_t ahead);
typedef void (*ga_copier)(char *dst, const char *src, int64_t bytes, int64_t ahead);
enum { GA_READ_UNIT = 4096 };

typedef struct {
  const char *name; // "AVX-512, 4 streams"
  ga_reader read;   // or NULL
  ga_copier copy;   // or NULL
} ga_stream;

typedef enum { GA_BASE_STREAMS, GA_AVX2_STREAMS, GA_AVX512_STREAMS } ga_stream_set;

// ga_streams returns the readers and copiers of an instruction set and their number, 0 if not compiled in.
int ga_streams(ga_stream_set set, const ga_stream **streams);
extern const ga_stream ga_avx2_streams[], ga_avx512_streams[];
extern const int ga_avx2_stream_count, ga_avx512_stream_count;

// ga_stream_touch writes a buffer, each thread its share of each part, to place pages near the thread that
// reads them.
void ga_stream_touch(ga_pool *pool, int nthreads, char *p, int64_t part, int parts);
// ga_stream_part reads or copies one part of bytes, a multiple of nthreads·GA_READ_UNIT, on nthreads threads.
// It returns the seconds from the first thread's start to the last end.
double ga_stream_part(ga_pool *pool, int nthreads, const ga_stream *s, char *dst, const char *src, int64_t part,
                      int64_t ahead);

#endif
