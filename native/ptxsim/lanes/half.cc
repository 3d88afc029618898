// Instructions of float16 and bfloat16, and of pairs of them: computed in float32, rounded once.
//
// float32 has more than twice the bits, so that rounding its sum, product or quotient again gives
// what one rounding would have given. A fused multiply-add is computed in float64, rounded to odd.
#include "half_bits.h"
#include "lanes.h"

namespace ptxsim::PTXSIM_ISA {
namespace {

struct Add {
  static float of(float a, float b) { return a + b; }
};
struct Sub {
  static float of(float a, float b) { return a - b; }
};
struct Mul {
  static float of(float a, float b) { return a * b; }
};
struct Min {
  static float of(float a, float b) {
    if (a == b) return __builtin_signbit(a) ? a : b;
    return a < b || b != b ? a : b;
  }
};
struct Max {
  static float of(float a, float b) {
    if (a == b) return __builtin_signbit(a) ? b : a;
    return a > b || b != b ? a : b;
  }
};
template <class Op>
struct OrNan {
  static float of(float a, float b) { return a != a || b != b ? __builtin_nanf("") : Op::of(a, b); }
};
struct Ex2 {
  static float of(float a) { return __builtin_exp2f(a); }
};
struct Tanh {
  static float of(float a) { return __builtin_tanhf(a); }
};
struct Eq {
  static bool of(float a, float b) { return a == b; }
};
struct Lt {
  static bool of(float a, float b) { return a < b; }
};
struct Le {
  static bool of(float a, float b) { return a <= b; }
};
struct Ordered {
  static bool of(float a, float b) { return a == a && b == b; }
};

// a * b is exact in float64. The sum is rounded to odd: if it was inexact, its last bit is set, so
// rounding it again to a shorter number goes the right way. Sum and error: Knuth's two-sum.
inline float fma_to_odd(float a, float b, float c) {
  const double product = double{a} * b, addend = c, sum = product + addend;
  if (!__builtin_isfinite(sum)) return static_cast<float>(sum);
  const double other = sum - product;
  const double error = (product - (sum - other)) + (addend - other);
  if (error == 0) return static_cast<float>(sum);
  s64 bits;
  std::memcpy(&bits, &sum, 8);
  if (!(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
  double odd;
  std::memcpy(&odd, &bits, 8);
  // And once more from float64 to float32, whose last bit again says "inexact".
  float low = static_cast<float>(odd);
  if (static_cast<double>(low) != odd && !(bits_of(low) & 1)) {
    const bool up = (double{low} < odd) == (odd > 0);
    low = float_of(bits_of(low) + (up ? 1 : -1));
  }
  return low;
}
struct Fma {
  static float of(float a, float b, float c) { return fma_to_odd(a, b, c); }
};
struct FmaRelu {
  static float of(float a, float b, float c) {
    const float r = fma_to_odd(a, b, c);
    return r > 0 ? r : r != r ? r : 0.0f;
  }
};

// A pair holds the second half in its upper 16 bits. Pair = 1 or 2 halves per lane.
template <class H, u32 Pair, class Op>
void half_one(const char* registers, const u32* sources, void* result) {
  const u32* a = source<u32>(registers, sources[0]);
  u32* d = static_cast<u32*>(result);
  for (u32 l = 0; l < kLanes; ++l) {
    u32 bits = H::down(Op::of(H::up(a[l])));
    if (Pair == 2) bits |= H::down(Op::of(H::up(a[l] >> 16))) << 16;
    d[l] = bits;
  }
}
template <class H, u32 Pair, class Op>
void half_two(const char* registers, const u32* sources, void* result) {
  const u32* a = source<u32>(registers, sources[0]);
  const u32* b = source<u32>(registers, sources[1]);
  u32* d = static_cast<u32*>(result);
  for (u32 l = 0; l < kLanes; ++l) {
    u32 bits = H::down(Op::of(H::up(a[l]), H::up(b[l])));
    if (Pair == 2) bits |= H::down(Op::of(H::up(a[l] >> 16), H::up(b[l] >> 16))) << 16;
    d[l] = bits;
  }
}
template <class H, u32 Pair, class Op>
void half_three(const char* registers, const u32* sources, void* result) {
  const u32* a = source<u32>(registers, sources[0]);
  const u32* b = source<u32>(registers, sources[1]);
  const u32* c = source<u32>(registers, sources[2]);
  u32* d = static_cast<u32*>(result);
  for (u32 l = 0; l < kLanes; ++l) {
    u32 bits = H::down(Op::of(H::up(a[l]), H::up(b[l]), H::up(c[l])));
    if (Pair == 2)
      bits |= H::down(Op::of(H::up(a[l] >> 16), H::up(b[l] >> 16), H::up(c[l] >> 16))) << 16;
    d[l] = bits;
  }
}

// Of a pair, the half that Shift selects.
template <class H, u32 Shift, class Op>
void half_compare(const char* registers, const u32* sources, void* result) {
  const u32* a = source<u32>(registers, sources[0]);
  const u32* b = source<u32>(registers, sources[1]);
  u32 mask = 0;
  for (u32 l = 0; l < kLanes; ++l)
    mask |= u32{Op::of(H::up(a[l] >> Shift), H::up(b[l] >> Shift))} << l;
  *static_cast<u32*>(result) = mask;
}

template <u32 Sign>
struct Flip {
  static u32 of(u32 a) { return a ^ Sign; }
};
template <u32 Sign>
struct Clear {
  static u32 of(u32 a) { return a & ~Sign; }
};

// One function per half and per pair of halves.
#define PAIRS(name, operands, kind, ...)                    \
  {name ".f16", operands, kind<F16, 1, __VA_ARGS__>},       \
      {name ".f16x2", operands, kind<F16, 2, __VA_ARGS__>}, \
      {name ".bf16", operands, kind<BF16, 1, __VA_ARGS__>}, \
      {name ".bf16x2", operands, kind<BF16, 2, __VA_ARGS__>},
#define SIGNS(name, op, half, pair)                                                  \
  {name ".f16", "ww", one<op<half>, u32>}, {name ".bf16", "ww", one<op<half>, u32>}, \
      {name ".f16x2", "ww", one<op<pair>, u32>}, {name ".bf16x2", "ww", one<op<pair>, u32>},
#define COMPARES(name, op)                                          \
  {"setp." name ".f16", "pww", half_compare<F16, 0, op>},           \
      {"setp." name ".f16.high", "pww", half_compare<F16, 16, op>}, \
      {"setp." name ".bf16", "pww", half_compare<BF16, 0, op>},     \
      {"setp." name ".bf16.high", "pww", half_compare<BF16, 16, op>},

const Form kTable[] = {
    PAIRS("add", "www", half_two, Add) PAIRS("sub", "www", half_two, Sub)
        PAIRS("mul", "www", half_two, Mul) PAIRS("fma", "wwww", half_three, Fma)
            PAIRS("fma.relu", "wwww", half_three, FmaRelu) PAIRS("min", "www", half_two, Min)
                PAIRS("max", "www", half_two, Max) PAIRS("min.NaN", "www", half_two, OrNan<Min>)
                    PAIRS("max.NaN", "www", half_two, OrNan<Max>) PAIRS("ex2", "ww", half_one, Ex2)
                        PAIRS("tanh", "ww", half_one, Tanh) SIGNS("neg", Flip, 0x8000, 0x80008000)
                            SIGNS("abs", Clear, 0xffff8000, 0x80008000) COMPARES("eq", Eq)
                                COMPARES("lt", Lt) COMPARES("le", Le) COMPARES("num", Ordered)};

}  // namespace

Forms half_forms() { return {kTable, sizeof kTable / sizeof *kTable}; }

}  // namespace ptxsim::PTXSIM_ISA
