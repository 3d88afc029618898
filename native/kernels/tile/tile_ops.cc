// The operations on tiles: one loop per formula of elementwise.def and compute type.
#include "kernels/math/formulas.h"
#include "tile.h"

namespace needle::NEEDLE_ISA {
namespace {

// Functions that cost more for all arguments than for those up to kLimit: a tile takes the quick
// one if it can.
template <auto op, class T>
struct Quick {};

#define QUICK(name, T, limit, formula)                    \
  template <>                                             \
  struct Quick<UnaryOp::name, T> {                        \
    static constexpr T kLimit = limit;                    \
    NEEDLE_INLINE static T apply(T x) { return formula; } \
  };
QUICK(exp, float, LARGEST_POWER, exp_of_moderate_f32(x))
QUICK(sigmoid, float, LARGEST_POWER, sigmoid_by_f32(x, exp_of_moderate_f32(-abs_f32(x))))
QUICK(sin, float, LARGEST_ANGLE, sin_of_moderate_f32(x))
QUICK(cos, float, LARGEST_ANGLE, cos_of_moderate_f32(x))
QUICK(tan, float, LARGEST_ANGLE, tan_of_moderate_f32(x))
QUICK(sin, double, LARGEST_ANGLE, sin_of_moderate_f64(x))
QUICK(cos, double, LARGEST_ANGLE, cos_of_moderate_f64(x))
#undef QUICK

template <auto op, class T>
concept HasQuick = requires { Quick<op, T>::kLimit; };

template <class T>
bool has_larger(const T* x, int64_t n, T limit) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= abs(x[i]) > limit;
  return found != 0;
}

// The result's tile may be an input's own (in-place), never shifted against it: hence ivdep. The
// input of a unary operation is a tile.
template <UnaryOp op, class T, class Result>
void unary_tile(void* out, const Input* in, int64_t n) {
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0].at);
  if constexpr (HasQuick<op, T>) {
    if (!has_larger(x, n, Quick<op, T>::kLimit)) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = Quick<op, T>::apply(x[i]);
      return;
    }
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Result>(Formula<op>::apply(x[i]));
}

template <BinaryOp op, class T, class Result>
void binary_tile(void* out, const Input* in, int64_t n) {
  using Op = Formula<op>;
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0].at);
  const T* y = static_cast<const T*>(in[1].at);
  const int64_t x_step = in[0].step, y_step = in[1].step;
  for (; n >= kRun; n -= kRun, to += kRun, x += x_step, y += y_step) {
#pragma GCC ivdep
    for (int64_t i = 0; i < kRun; ++i) to[i] = static_cast<Result>(Op::apply(x[i], y[i]));
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Result>(Op::apply(x[i], y[i]));
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

// op2 of op1(a, b) and c, or of c and op1(a, b).
template <BinaryOp op1, BinaryOp op2, bool kReversed>
struct PairOf {
  template <class T>
  NEEDLE_INLINE static T apply(T a, T b, T c) {
    const T first = Formula<op1>::apply(a, b);
    return kReversed ? Formula<op2>::apply(c, first) : Formula<op2>::apply(first, c);
  }
};

struct Select {
  template <class T>
  NEEDLE_INLINE static T apply(uint8_t condition, T x, T y) {
    return condition != 0 ? x : y;
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

template <BinaryOp op1, BinaryOp op2, bool kReversed>
constexpr PairRow pair_row() {
  using Op = PairOf<op1, op2, kReversed>;
  return {{ternary_tile<Op, float, float>, ternary_tile<Op, double, double>}};
}

// Has a kind a meaning for a compute type?
template <class T>
constexpr bool has_type(ElementwiseKind kind) {
  using enum ElementwiseKind;
  constexpr bool is_bool = is_same<T, uint8_t>;
  if (is_floating<T>) return kind != integer && kind != bits;
  return kind != floating && !(is_bool && (kind == number || kind == integer));
}

// The loop of a function for a compute type; nullptr where it has no meaning.
template <auto op, class T>
constexpr OpFn loop_of() {
  constexpr ElementwiseKind kind = Formula<op>::kKind;
  using Result = std::conditional_t<kind == ElementwiseKind::predicate, uint8_t, T>;
  if constexpr (!has_type<T>(kind)) {
    return nullptr;
  } else if constexpr (is_same<decltype(op), UnaryOp>) {
    return unary_tile<op, T, Result>;
  } else {
    return binary_tile<op, T, Result>;
  }
}

template <auto op>
constexpr OpRow row_of() {
  return {{loop_of<op, float>(), loop_of<op, double>(), loop_of<op, int32_t>(),
           loop_of<op, int64_t>(), loop_of<op, uint8_t>()},
          Formula<op>::kKind == ElementwiseKind::predicate};
}

}  // namespace

constexpr OpRow kUnary[] = {
#define UNARY(name, ...) row_of<UnaryOp::name>(),
#include "common/elementwise.def"
};

constexpr OpRow kBinary[] = {
#define BINARY(name, ...) row_of<BinaryOp::name>(),
#include "common/elementwise.def"
};

// By pair_number(), and kClipPair.
#define PAIR(op1, op2) \
  pair_row<BinaryOp::op1, BinaryOp::op2, false>(), pair_row<BinaryOp::op1, BinaryOp::op2, true>()
#define PAIRS(op1) PAIR(op1, add), PAIR(op1, subtract), PAIR(op1, multiply), PAIR(op1, divide)
constexpr PairRow kPair[] = {PAIRS(add),
                             PAIRS(subtract),
                             PAIRS(multiply),
                             PAIRS(divide),
                             {{clip_tile<float>, clip_tile<double>}}};
#undef PAIRS
#undef PAIR

constexpr OpFn kSelect[4] = {
    ternary_tile<Select, uint8_t, uint8_t>, ternary_tile<Select, uint8_t, uint16_t>,
    ternary_tile<Select, uint8_t, uint32_t>, ternary_tile<Select, uint8_t, uint64_t>};

}  // namespace needle::NEEDLE_ISA
