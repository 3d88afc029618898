// The words of Philox 4x32-10 (Salmon et al., 2011), and numbers made of them.
#pragma once

#include "elements.cuh"

namespace needle {

enum class RandomKind { uniform, normal };

struct Philox {
  u32 words[4];
  ELEMENT u32 word(u32 i) const {  // without an index at run time, which would need local memory
    const u32 low = (i & 1) != 0 ? words[1] : words[0], high = (i & 1) != 0 ? words[3] : words[2];
    return (i & 2) != 0 ? high : low;
  }
};

ELEMENT Philox philox(u64 seed, u64 counter) {
  u32 x0 = static_cast<u32>(counter), x1 = static_cast<u32>(counter >> 32), x2 = 0, x3 = 0;
  u32 key0 = static_cast<u32>(seed), key1 = static_cast<u32>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9, key1 += 0xBB67AE85) {
    const u32 high0 = __umulhi(x0, 0xD2511F53), low0 = x0 * 0xD2511F53;
    const u32 high1 = __umulhi(x2, 0xCD9E8D57), low1 = x2 * 0xCD9E8D57;
    x0 = high1 ^ x1 ^ key0;
    x1 = low1;
    x2 = high0 ^ x3 ^ key1;
    x3 = low0;
  }
  return {{x0, x1, x2, x3}};
}

// In [0, 1). Halves drop the bits below their mantissa, since rounding could reach 1.
template <class T>
ELEMENT T uniform(u32 word, u32 second) {
  if constexpr (is_same<T, f64>) {
    return static_cast<f64>((u64{word} << 32 | second) >> 11) * 0x1p-53;
  } else {
    const f32 x = static_cast<f32>(word >> 8) * 0x1p-24f;
    if constexpr (is_same<T, bf16_t>) return {static_cast<uint16_t>(bits_f32(x) >> 16)};
    const T nearest = stored<T>(x);
    if constexpr (is_same<T, f16_t>) {
      return {static_cast<uint16_t>(nearest.bits - (loaded(nearest) > x ? 1 : 0))};
    } else {
      return nearest;
    }
  }
}

// Box and Muller's sqrt(-2 ln u1) cos(2 pi u2), with u1 in (0, 1], u2 in [0, 1). Of s = 1/4 -
// |u2 - 1/2|, which is exact, cos(2 pi u2) = -sin(2 pi s): the sine is a polynomial up to pi / 2.
template <class T>
ELEMENT T normal(u32 word, u32 second) {
  const f64 u1 = static_cast<f64>((word >> 8) + 1) * 0x1p-24;
  const f64 u2 = static_cast<f64>(second >> 8) * 0x1p-24;
  const f64 s = 0.25 - ::fabs(u2 - 0.5);
  if constexpr (is_same<T, f64>) {
    return -::sinpi(2 * s) * ::sqrt(-2 * ::log(u1));
  } else {
    const f64 x = 6.283185307179586 * s, z = x * x;
    const f64 p = POLY7(f64, z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                        1.0 / 6227020800.0, -1.0 / 1307674368000.0);
    const f64 sine = x + x * z * p;
    const f64 radius = ::sqrt(-2 * 0.69314718055994531 * log2_in_f64(u1));
    return stored<T>(static_cast<f32>(-sine * radius));
  }
}

}  // namespace needle
