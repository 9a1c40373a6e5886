// Sums in fp32 or int32 that travel through memory as words of fp32.
#pragma once

// asFloat and addTo keep them as they are: a float that is looked at as bits anywhere
// ends up in moves between the tensor cores' instructions.
__device__ __forceinline__ float asFloat(float v) { return v; }
__device__ __forceinline__ float asFloat(int v) { return __int_as_float(v); }
__device__ __forceinline__ void addTo(float &sum, float v) { sum += v; }
__device__ __forceinline__ void addTo(int &sum, float v) { sum += __float_as_int(v); }
