// The operations on tiles: one loop per formula of elementwise.def and compute type.
#include "scalar.h"
#include "tile.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

// A formula may be a reference (c ? x : y); its result is a value.
template <class T>
using Value = std::remove_cvref_t<T>;

#define UNARY(name, kind, formula)                                     \
  struct name##_unary {                                                \
    template <class T>                                                 \
    NEEDLE_INLINE static auto apply(T x) -> Value<decltype(formula)> { \
      return formula;                                                  \
    }                                                                  \
  };
#define BINARY(name, kind, formula)                                         \
  struct name##_binary {                                                    \
    template <class T>                                                      \
    NEEDLE_INLINE static auto apply(T x, T y) -> Value<decltype(formula)> { \
      return formula;                                                       \
    }                                                                       \
  };
#include "../../common/elementwise.def"
#undef UNARY
#undef BINARY

NEEDLE_INLINE bool_t as_result(bool x, bool_t) { return make_bool(x); }

template <class T>
NEEDLE_INLINE T as_result(T x, T) {
  return x;
}

// sin, cos and tan of large floats need more digits of pi than math.h has.
template <class Op, class T>
constexpr bool is_periodic = false;
template <>
constexpr bool is_periodic<sin_unary, float> = true;
template <>
constexpr bool is_periodic<cos_unary, float> = true;
template <>
constexpr bool is_periodic<tan_unary, float> = true;

bool has_large_angle(const float* x, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= abs(x[i]) > kLargestAngle;
  return found != 0;
}

// The result's tile may be an input's own (in-place), never shifted against it: hence ivdep.
template <class Op, class T, class Result>
void unary_tile(void* out, const void* const* in, int64_t n) {
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0]);
  if constexpr (is_periodic<Op, T>) {
    if (has_large_angle(x, n)) {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(Op::apply(static_cast<double>(x[i])));
      return;
    }
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = as_result(Op::apply(x[i]), Result{});
}

template <class Op, class T, class Result>
void binary_tile(void* out, const void* const* in, int64_t n) {
  Result* to = static_cast<Result*>(out);
  const T* x = static_cast<const T*>(in[0]);
  const T* y = static_cast<const T*>(in[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = as_result(Op::apply(x[i], y[i]), Result{});
}

// Op2 of Op1(a, b) and c, or of c and Op1(a, b).
template <class Op1, class Op2, bool kReversed, class T>
void pair_tile(void* out, const void* const* in, int64_t n) {
  T* to = static_cast<T*>(out);
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T first = Op1::apply(a[i], b[i]);
    to[i] = kReversed ? Op2::apply(c[i], first) : Op2::apply(first, c[i]);
  }
}

template <class Op1, class Op2, bool kReversed>
constexpr PairRow pair_row() {
  return {{pair_tile<Op1, Op2, kReversed, float>, pair_tile<Op1, Op2, kReversed, double>}};
}

template <class T>
void select_tile(void* out, const void* const* in, int64_t n) {
  T* to = static_cast<T*>(out);
  const bool_t* condition = static_cast<const bool_t*>(in[0]);
  const T* x = static_cast<const T*>(in[1]);
  const T* y = static_cast<const T*>(in[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = condition[i].byte != 0 ? x[i] : y[i];
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

constexpr PairRow kPair[] = {
    pair_row<add_binary, add_binary, false>(),
    pair_row<add_binary, add_binary, true>(),
    pair_row<add_binary, subtract_binary, false>(),
    pair_row<add_binary, subtract_binary, true>(),
    pair_row<add_binary, multiply_binary, false>(),
    pair_row<add_binary, multiply_binary, true>(),
    pair_row<subtract_binary, add_binary, false>(),
    pair_row<subtract_binary, add_binary, true>(),
    pair_row<subtract_binary, subtract_binary, false>(),
    pair_row<subtract_binary, subtract_binary, true>(),
    pair_row<subtract_binary, multiply_binary, false>(),
    pair_row<subtract_binary, multiply_binary, true>(),
    pair_row<multiply_binary, add_binary, false>(),
    pair_row<multiply_binary, add_binary, true>(),
    pair_row<multiply_binary, subtract_binary, false>(),
    pair_row<multiply_binary, subtract_binary, true>(),
    pair_row<multiply_binary, multiply_binary, false>(),
    pair_row<multiply_binary, multiply_binary, true>(),
};

constexpr OpFn kSelect[4] = {select_tile<uint8_t>, select_tile<uint16_t>, select_tile<uint32_t>,
                             select_tile<uint64_t>};

}  // namespace NEEDLE_ISA
}  // namespace needle
