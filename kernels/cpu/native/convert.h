// Conversion of fp16, bf16 and fp8 (e4m3) in plain C: widening is exact, narrowing rounds to nearest even. NaN and
// infinity are kept.
#ifndef GEMMAUDIT_CONVERT_H
#define GEMMAUDIT_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float ga_float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static inline uint32_t ga_bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

static inline float ga_bf16_to_float(uint16_t h) { return ga_float_of((uint32_t)h << 16); }

static inline uint16_t ga_float_to_bf16(float f) {
  uint32_t u = ga_bits_of(f);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float ga_fp8_to_float(uint8_t code) {
  uint32_t magnitude = code & 0x7fu, sign = (uint32_t)(code & 0x80u) << 24;
  uint32_t subnormal = ga_bits_of((float)magnitude * 0x1p-9f), normal = (magnitude << 20) + (120u << 23);
  uint32_t u = magnitude < 8 ? subnormal : normal;
  return ga_float_of((magnitude == 0x7fu ? 0x7fc00000u : u) | sign);
}

// fp8 has no infinities: what rounds beyond 448 is NaN.
static inline uint8_t ga_float_to_fp8(float f) {
  uint32_t u = ga_bits_of(f), magnitude = u & 0x7fffffffu;
  uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
  // Adding 2^14 aligns the last bit with fp8's smallest denormal.
  uint32_t denormal = ga_bits_of(ga_float_of(magnitude) + 0x1p14f) - ga_bits_of(0x1p14f);
  uint32_t r = magnitude < (121u << 23) ? denormal : normal;
  if (magnitude > 0x43e80000u) r = 0x7fu; // 464
  return (uint8_t)(u >> 24 & 0x80u) | (uint8_t)r;
}

static inline float ga_fp16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  // Shifts exponent and mantissa, then corrects the bias: by an addition for normal numbers, by a float
  // subtraction for denormals.
  uint32_t normal = (rest << 13) + (112u << 23);
  uint32_t denormal = ga_bits_of(ga_float_of((rest << 13) + (113u << 23)) - ga_float_of(113u << 23));
  uint32_t special = (rest << 13) | 0x7f800000u;
  uint32_t u = rest >= 0x7c00u ? special : rest < 0x0400u ? denormal : normal;
  return ga_float_of(u | sign);
}

static inline uint16_t ga_float_to_fp16(float f) {
  uint32_t u = ga_bits_of(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns the last bit with fp16's smallest denormal.
  uint32_t denormal = ga_bits_of(ga_float_of(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t r = magnitude < (113u << 23) ? denormal : normal;
  if (magnitude >= 0x477ff000u) r = 0x7c00u; // rounds to infinity
  if (magnitude > 0x7f800000u) r = 0x7e00u;
  return (uint16_t)(sign | r);
}

#endif
