// Elements on the device: the functions of common/elements and common/formulas.h, what elements of
// each dtype are in memory, and casts between what is stored and what is computed.
#pragma once

#if defined(__CUDACC_RTC__)  // which has no headers of C
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif

#include "common/dtype.h"
#include "common/elementwise.h"

#define ELEMENT __device__ __forceinline__
#define LIB(name) ::name

namespace needle {

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

template <class X, class Y>
ELEMENT auto choose(bool condition, X x, Y y) -> decltype(x + y) {
  return condition ? x : y;
}

#include "common/elements/elements.h"

template <class F>
concept Single = is_same<F, float>;

#include "common/formulas.h"

// Stored elements, in the type that they are computed in.
ELEMENT f32 loaded(f32 x) { return x; }
ELEMENT f64 loaded(f64 x) { return x; }
ELEMENT f32 loaded(f16_t x) { return f32_of_f16(x.bits); }
ELEMENT f32 loaded(bf16_t x) { return f32_of_bf16(x.bits); }
ELEMENT i32 loaded(int8_t x) { return x; }
ELEMENT i32 loaded(int16_t x) { return x; }
ELEMENT i32 loaded(i32 x) { return x; }
ELEMENT i64 loaded(i64 x) { return x; }
ELEMENT i32 loaded(uint8_t x) { return x; }
ELEMENT b8 loaded(bool_t x) { return x.byte; }

template <class Stored>
using Computed = decltype(loaded(Stored()));

template <class To>
ELEMENT To whole_of(f32 x) {
  if constexpr (is_same<To, i64>) return i64_of_f32(x);
  return static_cast<To>(i32_of_f32(x));
}
template <class To>
ELEMENT To whole_of(f64 x) {
  if constexpr (is_same<To, i64>) return i64_of_f64(x);
  return static_cast<To>(i32_of_f64(x));
}

// A computed value as it is stored: the cast of NumPy's astype.
template <class To, class From>
ELEMENT To stored(From x) {
  constexpr bool is_floating = is_same<From, f32> || is_same<From, f64>;
  if constexpr (is_same<To, bool_t>) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (is_same<To, f16_t>) {
    if constexpr (is_same<From, f64>) return {f16_of_f32(round_to_odd_f32(x))};
    return {f16_of_f32(static_cast<f32>(x))};
  } else if constexpr (is_same<To, bf16_t>) {
    return {bf16_of_f32(static_cast<f32>(x))};
  } else if constexpr (is_same<To, f32> || is_same<To, f64> || !is_floating) {
    return static_cast<To>(x);
  } else {
    return whole_of<To>(x);
  }
}

// What a function stores for elements that are stored as T.
template <class F, class T>
struct ResultOf {
  using Type = T;
};
template <class F, class T>
  requires(F::kKind == ElementwiseKind::predicate)
struct ResultOf<F, T> {
  using Type = bool_t;
};
template <class F, class T>
using Result = typename ResultOf<F, T>::Type;

// An element as another type's.
template <class To, class From>
ELEMENT To copied(From x) {
  if constexpr (is_same<To, From>) {
    return x;
  } else {
    return stored<To>(loaded(x));
  }
}

// A number that the host passes in 8 bytes: a double for floating types, else an integer.
union Number {
  f64 real;
  i64 whole;

  template <class T>  // a type that elements are computed in
  ELEMENT T as() const {
    if constexpr (is_same<T, f32> || is_same<T, f64>) return static_cast<T>(real);
    return static_cast<T>(whole);
  }
  template <class T>
  ELEMENT T stored_as() const {
    if constexpr (is_same<T, f16_t>) return stored<T>(real);
    return stored<T>(as<Computed<T>>());
  }
};

}  // namespace needle
