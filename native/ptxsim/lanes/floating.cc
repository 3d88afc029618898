// Instructions of float32 and float64. Rounding modes other than to nearest, .ftz and .sat are
// applied around these functions (exec/modifiers.cc).
#include "lanes.h"

namespace ptxsim::PTXSIM_ISA {
namespace {

inline float fma_of(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma_of(double a, double b, double c) { return __builtin_fma(a, b, c); }

struct Add {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T of(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <class T>
  static T of(T a, T b, T c) {
    return fma_of(a, b, c);
  }
};
// NaN loses against a number, and -0 is less than +0.
struct Min {
  template <class T>
  static T of(T a, T b) {
    if (a == b) return __builtin_signbit(a) ? a : b;
    return a < b || b != b ? a : b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    if (a == b) return __builtin_signbit(a) ? b : a;
    return a > b || b != b ? a : b;
  }
};
template <class Op>
struct OrNan {
  static float of(float a, float b) { return a != a || b != b ? __builtin_nanf("") : Op::of(a, b); }
};
// By their bits, so that NaN keeps its payload.
struct Neg {
  static u32 of(u32 a) { return a ^ 0x80000000u; }
  static u64 of(u64 a) { return a ^ u64{1} << 63; }
};
struct Abs {
  static u32 of(u32 a) { return a & 0x7fffffffu; }
  static u64 of(u64 a) { return a & ~(u64{1} << 63); }
};
struct CopySign {  // of a, to b
  static u32 of(u32 a, u32 b) { return (a & 0x80000000u) | (b & 0x7fffffffu); }
  static u64 of(u64 a, u64 b) { return (a & u64{1} << 63) | (b & ~(u64{1} << 63)); }
};
struct Sqrt {
  static float of(float a) { return __builtin_sqrtf(a); }
  static double of(double a) { return __builtin_sqrt(a); }
};
struct Rcp {
  template <class T>
  static T of(T a) {
    return 1 / a;
  }
};
struct Rsqrt {
  static float of(float a) { return static_cast<float>(1 / __builtin_sqrt(a)); }
  static double of(double a) { return 1 / __builtin_sqrt(a); }
};
struct Ex2 {
  static float of(float a) { return __builtin_exp2f(a); }
};
struct Lg2 {
  static float of(float a) { return __builtin_log2f(a); }
};
struct Sin {
  static float of(float a) { return __builtin_sinf(a); }
};
struct Cos {
  static float of(float a) { return __builtin_cosf(a); }
};
struct Tanh {
  static float of(float a) { return __builtin_tanhf(a); }
};
struct Eq {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct Lt {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Ordered {
  template <class T>
  static bool of(T a, T b) {
    return a == a && b == b;
  }
};

// testp: finite, infinite, number, notanumber, normal, subnormal.
template <u32 Which, class T>
void test(const char* registers, const u32* sources, void* result) {
  const T* a = source<T>(registers, sources[0]);
  u32 mask = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const bool truth[] = {__builtin_isfinite(a[l]) != 0,
                          __builtin_isinf_sign(a[l]) != 0,
                          a[l] == a[l],
                          a[l] != a[l],
                          __builtin_isnormal(a[l]) != 0,
                          __builtin_isfinite(a[l]) && a[l] != 0 && !__builtin_isnormal(a[l])};
    mask |= u32{truth[Which]} << l;
  }
  *static_cast<u32*>(result) = mask;
}

const Form kTable[] = {
#define FLOATS(name, op, kind, w, d) \
  {name ".f32", w, kind<op, float>}, {name ".f64", d, kind<op, double>},
#define FLOAT_BITS(name, op, kind, w, d) \
  {name ".f32", w, kind<op, u32>}, {name ".f64", d, kind<op, u64>},
    FLOATS("add", Add, two, "www", "ddd") FLOATS("sub", Sub, two, "www", "ddd")
        FLOATS("mul", Mul, two, "www", "ddd") FLOATS("div", Div, two, "www", "ddd") FLOATS(
            "fma", Fma, three, "wwww", "dddd") FLOATS("mad", Fma, three, "wwww", "dddd")
            FLOATS("min", Min, two, "www", "ddd") FLOATS("max", Max, two, "www", "ddd")
                FLOATS("sqrt", Sqrt, one, "ww", "dd") FLOATS("rcp", Rcp, one, "ww", "dd") FLOATS(
                    "rsqrt", Rsqrt, one, "ww", "dd") FLOATS("setp.eq", Eq, compare, "pww", "pdd")
                    FLOATS("setp.lt", Lt, compare, "pww", "pdd")
                        FLOATS("setp.le", Le, compare, "pww", "pdd")
                            FLOATS("setp.num", Ordered, compare, "pww", "pdd") FLOAT_BITS(
                                "neg", Neg, one, "ww", "dd") FLOAT_BITS("abs", Abs, one, "ww", "dd")
                                FLOAT_BITS("copysign", CopySign, two, "www", "ddd"){
                                    "min.NaN.f32", "www", two<OrNan<Min>, float>},
    {"max.NaN.f32", "www", two<OrNan<Max>, float>},
    {"ex2.f32", "ww", one<Ex2, float>},
    {"lg2.f32", "ww", one<Lg2, float>},
    {"sin.f32", "ww", one<Sin, float>},
    {"cos.f32", "ww", one<Cos, float>},
    {"tanh.f32", "ww", one<Tanh, float>},
#define TEST(which, number)                           \
  {"testp." which ".f32", "pw", test<number, float>}, \
      {"testp." which ".f64", "pd", test<number, double>},
    TEST("finite", 0) TEST("infinite", 1) TEST("number", 2) TEST("notanumber", 3) TEST("normal", 4)
        TEST("subnormal", 5)};

}  // namespace

Forms floating_forms() { return {kTable, sizeof kTable / sizeof *kTable}; }

}  // namespace ptxsim::PTXSIM_ISA
