// The operations on tiles: one loop per formula of elementwise.def and compute type.
#include "formulas.h"
#include "tile.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

NEEDLE_INLINE bool_t as_result(bool x, bool_t) { return make_bool(x); }

template <class T>
NEEDLE_INLINE T as_result(T x, T) {
  return x;
}

// Functions whose formula for all floats costs more than one for moderate arguments: a tile takes
// the quick one if it can. `rare` computes the others.
template <class Op, class T>
struct Quick {};

template <class Function>
struct Periodic {  // large angles need more digits of pi than math.h has
  static constexpr float kLimit = kLargestAngle;
  NEEDLE_INLINE static float apply(float x) { return Function::apply(x); }
  static float rare(float x) { return static_cast<float>(Function::apply(static_cast<double>(x))); }
};
template <>
struct Quick<sin_unary, float> : Periodic<sin_unary> {};
template <>
struct Quick<cos_unary, float> : Periodic<cos_unary> {};
template <>
struct Quick<tan_unary, float> : Periodic<tan_unary> {};

template <>
struct Quick<sin_unary, double> {
  static constexpr double kLimit = static_cast<double>(kLargestAngle);
  NEEDLE_INLINE static double apply(double x) { return sin_of_moderate(x); }
  static double rare(double x) { return sin(x); }
};
template <>
struct Quick<cos_unary, double> {
  static constexpr double kLimit = static_cast<double>(kLargestAngle);
  NEEDLE_INLINE static double apply(double x) { return cos_of_moderate(x); }
  static double rare(double x) { return cos(x); }
};

template <>
struct Quick<exp_unary, float> {
  static constexpr float kLimit = kLargestPower;
  NEEDLE_INLINE static float apply(float x) { return exp_of_moderate(x); }
  NEEDLE_INLINE static float rare(float x) { return exp(x); }
};
template <>
struct Quick<sigmoid_unary, float> {
  static constexpr float kLimit = kLargestPower;
  NEEDLE_INLINE static float apply(float x) { return sigmoid_by(x, exp_of_moderate(-abs(x))); }
  NEEDLE_INLINE static float rare(float x) { return sigmoid(x); }
};

template <class Op, class T>
concept HasQuick = requires { Quick<Op, T>::kLimit; };

template <class T>
bool has_larger(const T* x, int64_t n, T limit) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= abs(x[i]) > limit;
  return found != 0;
}

// The result's tile may be an input's own (in-place), never shifted against it: hence ivdep. The
// input of a unary operation is a tile.
template <class Op, class T, class Result>
void unary_tile(void* out, const Input* in, int64_t n) {
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0].at);
  if constexpr (HasQuick<Op, T>) {
    using Function = Quick<Op, T>;
    if (has_larger(x, n, Function::kLimit)) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = Function::rare(x[i]);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = Function::apply(x[i]);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = as_result(Op::apply(x[i]), Result{});
  }
}

template <class Op, class T, class Result>
void binary_tile(void* out, const Input* in, int64_t n) {
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0].at);
  const T* y = static_cast<const T*>(in[1].at);
  const int64_t x_step = in[0].step, y_step = in[1].step;
  for (; n >= kRun; n -= kRun, to += kRun, x += x_step, y += y_step) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kRun; ++i) to[i] = as_result(Op::apply(x[i], y[i]), Result{});
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = as_result(Op::apply(x[i], y[i]), Result{});
}

template <class Op, class First, class T>
void ternary_tile(void* out, const Input* in, int64_t n) {
  T* to = static_cast<T*>(out);
  const First* a = static_cast<const First*>(in[0].at);
  const T* b = static_cast<const T*>(in[1].at);
  const T* c = static_cast<const T*>(in[2].at);
  const int64_t a_step = in[0].step, b_step = in[1].step, c_step = in[2].step;
  for (; n >= kRun; n -= kRun, to += kRun, a += a_step, b += b_step, c += c_step) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kRun; ++i) to[i] = Op::apply(a[i], b[i], c[i]);
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Op::apply(a[i], b[i], c[i]);
}

// Op2 of Op1(a, b) and c, or of c and Op1(a, b).
template <class Op1, class Op2, bool kReversed>
struct PairOf {
  template <class T>
  NEEDLE_INLINE static T apply(T a, T b, T c) {
    const T first = Op1::apply(a, b);
    return kReversed ? Op2::apply(c, first) : Op2::apply(first, c);
  }
};

struct Select {
  template <class T>
  NEEDLE_INLINE static T apply(bool_t condition, T x, T y) {
    return condition.byte != 0 ? x : y;
  }
};

// minimum(maximum(a, b), c) on vectors: of numbers, compilers make jumps of two choices in a row.
template <class T>
void clip_tile(void* out, const Input* in, int64_t n) {
  T* to = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0].at);
  const T* b = static_cast<const T*>(in[1].at);
  const T* c = static_cast<const T*>(in[2].at);
  for (; n > 0; n -= kRun, to += kRun, a += in[0].step, b += in[1].step, c += in[2].step) {
    for_each_vec<T>(n < kRun ? n : kRun, [&](int64_t i, auto lanes) {
      const Vec<T> x = lanes.load(a + i), low = lanes.load(b + i), high = lanes.load(c + i);
      const Vec<T> clipped = smaller_of(larger_of(x, low), high);  // NaN if high is
      const Vec<T> fitting = low != low ? low : clipped;
      lanes.store(to + i, x != x ? x : fitting);
    });
  }
}

template <class Op1, class Op2, bool kReversed>
constexpr PairRow pair_row() {
  using Op = PairOf<Op1, Op2, kReversed>;
  return {{ternary_tile<Op, float, float>, ternary_tile<Op, double, double>}};
}

template <ElementwiseKind kind, class T>
using ResultOf = std::conditional_t<kind == ElementwiseKind::predicate, bool_t, T>;

template <class T>
constexpr bool is_real = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class Op, ElementwiseKind kind, class T>
constexpr OpFn unary_function() {
  constexpr bool fits = kind != ElementwiseKind::floating || is_real<T>;
  if constexpr (fits && requires(T x) { Op::apply(x); }) {
    return unary_tile<Op, T, ResultOf<kind, T>>;
  } else {
    return nullptr;
  }
}

template <class Op, ElementwiseKind kind, class T>
constexpr OpFn binary_function() {
  constexpr bool fits = kind != ElementwiseKind::floating || is_real<T>;
  if constexpr (fits && requires(T x) { Op::apply(x, x); }) {
    return binary_tile<Op, T, ResultOf<kind, T>>;
  } else {
    return nullptr;
  }
}

template <class Op, ElementwiseKind kind>
constexpr OpRow unary_row() {
  return {{unary_function<Op, kind, float>(), unary_function<Op, kind, double>(),
           unary_function<Op, kind, int32_t>(), unary_function<Op, kind, int64_t>(),
           unary_function<Op, kind, bool_t>()},
          kind};
}

template <class Op, ElementwiseKind kind>
constexpr OpRow binary_row() {
  return {{binary_function<Op, kind, float>(), binary_function<Op, kind, double>(),
           binary_function<Op, kind, int32_t>(), binary_function<Op, kind, int64_t>(),
           binary_function<Op, kind, bool_t>()},
          kind};
}

}  // namespace

constexpr OpRow kUnary[] = {
#define UNARY(name, kind, formula) unary_row<name##_unary, ElementwiseKind::kind>(),
#define BINARY(name, kind, formula)
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY
};

constexpr OpRow kBinary[] = {
#define UNARY(name, kind, formula)
#define BINARY(name, kind, formula) binary_row<name##_binary, ElementwiseKind::kind>(),
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY
};

// By pair_number(), and kClipPair.
#define PAIRS(op1)                                                                     \
  pair_row<op1, add_binary, false>(), pair_row<op1, add_binary, true>(),               \
      pair_row<op1, subtract_binary, false>(), pair_row<op1, subtract_binary, true>(), \
      pair_row<op1, multiply_binary, false>(), pair_row<op1, multiply_binary, true>(), \
      pair_row<op1, divide_binary, false>(), pair_row<op1, divide_binary, true>()
constexpr PairRow kPair[] = {PAIRS(add_binary),
                             PAIRS(subtract_binary),
                             PAIRS(multiply_binary),
                             PAIRS(divide_binary),
                             {{clip_tile<float>, clip_tile<double>}}};
#undef PAIRS

constexpr OpFn kSelect[4] = {
    ternary_tile<Select, bool_t, uint8_t>, ternary_tile<Select, bool_t, uint16_t>,
    ternary_tile<Select, bool_t, uint32_t>, ternary_tile<Select, bool_t, uint64_t>};

}  // namespace NEEDLE_ISA
}  // namespace needle
