// Instruction sets of a whole file, for compilers that spell it differently:
// GA_TARGET_BEGIN("avx2,fma") before the first function, GA_TARGET_END after the
// last. It comes before immintrin.h, so that GCC's intrinsics are inlined.
#ifndef GEMMAUDIT_TARGET_H
#define GEMMAUDIT_TARGET_H

#define GA_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define GA_TARGET_BEGIN(sets) GA_PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function))
#define GA_TARGET_END GA_PRAGMA(clang attribute pop)
#else
#define GA_TARGET_BEGIN(sets) GA_PRAGMA(GCC push_options) GA_PRAGMA(GCC target(sets))
#define GA_TARGET_END GA_PRAGMA(GCC pop_options)
#endif

#endif
