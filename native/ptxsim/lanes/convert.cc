// The conversions that kernels use in their loops; exec/convert.cc does all others.
#include "half_bits.h"
#include "lanes.h"

namespace ptxsim::PTXSIM_ISA {
namespace {

template <class T>
struct To {
  template <class S>
  static T of(S a) {
    return static_cast<T>(a);
  }
};
struct FromF16 {
  static float of(u32 a) { return F16::up(a); }
};
struct ToF16 {
  static u32 of(float a) { return F16::down(a); }
};
struct FromBF16 {
  static float of(u32 a) { return BF16::up(a); }
};
struct ToBF16 {
  static u32 of(float a) { return BF16::down(a); }
};
// Towards zero, clamped to the type, NaN to zero.
struct ToS32 {
  static s32 of(float a) {
    if (a != a) return 0;
    return a >= 2147483648.0f    ? 0x7fffffff
           : a <= -2147483648.0f ? -0x7fffffff - 1
                                 : static_cast<s32>(a);
  }
};

const Form kTable[] = {
    {"cvt.u64.u32", "dw", one<To<u64>, u32, u64>},
    {"cvt.s64.s32", "dw", one<To<s64>, s32, s64>},
    {"cvt.u32.u64", "wd", one<To<u32>, u64, u32>},
    {"cvt.u32.u16", "ww", one<To<u32>, u16, u32>},
    {"cvt.u16.u32", "ww", one<To<u16>, u32, u16>},
    {"cvt.s32.s16", "ww", one<To<s32>, s16, s32>},
    {"cvt.rn.f32.s32", "ww", one<To<float>, s32, float>},
    {"cvt.rn.f32.u32", "ww", one<To<float>, u32, float>},
    {"cvt.rzi.s32.f32", "ww", one<ToS32, float, s32>},
    {"cvt.f64.f32", "dw", one<To<double>, float, double>},
    {"cvt.rn.f32.f64", "wd", one<To<float>, double, float>},
    {"cvt.f32.f16", "ww", one<FromF16, u32, float>},
    {"cvt.rn.f16.f32", "ww", one<ToF16, float, u32>},
    {"cvt.f32.bf16", "ww", one<FromBF16, u32, float>},
    {"cvt.rn.bf16.f32", "ww", one<ToBF16, float, u32>},
};

}  // namespace

Forms convert_forms() { return {kTable, sizeof kTable / sizeof *kTable}; }

}  // namespace ptxsim::PTXSIM_ISA
