// Instruction sets for a whole file, in the spelling of each compiler: GA_TARGET_BEGIN("avx2,fma") before the
// first function, GA_TARGET_END after the last. Place it before immintrin.h, to let GCC inline intrinsics.
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
