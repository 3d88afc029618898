// The reductions of common/reduce.def, and teams of threads that make one result together.
//
// A team is one thread, a warp or a block of THREADS: TEAM threads, which take the elements in
// turns. Results are combined in an order that depends on sizes alone.
#pragma once

#include "operand.cuh"

#include "common/reduce.h"

namespace needle {

constexpr u32 THREADS = 256, WARP = 32;

template <class T>
ELEMENT T lowest() {
  if constexpr (is_same<T, f32> || is_same<T, f64>) return static_cast<T>(-INFINITY);
  if constexpr (is_same<T, i32>) return static_cast<T>(0x80000000u);
  if constexpr (is_same<T, i64>) return static_cast<T>(0x8000000000000000u);
  return 0;
}
template <class T>
ELEMENT T highest() {
  if constexpr (is_same<T, f32> || is_same<T, f64>) return static_cast<T>(INFINITY);
  if constexpr (is_same<T, i32>) return 0x7fffffff;
  if constexpr (is_same<T, i64>) return 0x7fffffffffffffff;
  return 1;
}

// What there is of no elements, and how two results become one.
template <ReduceOp op>
struct Reduction;

#define LOWEST lowest<T>()
#define HIGHEST highest<T>()
#define REDUCTION(name, its_kind, of_nothing, formula)        \
  template <>                                                 \
  struct Reduction<ReduceOp::name> {                          \
    static constexpr ReduceKind kKind = ReduceKind::its_kind; \
    template <class T>                                        \
    ELEMENT static T nothing() {                              \
      return of_nothing;                                      \
    }                                                         \
    template <class T>                                        \
    ELEMENT static T step(T x, T y) {                         \
      return static_cast<T>(formula);                         \
    }                                                         \
  };
#include "common/reduce.def"
#undef LOWEST
#undef HIGHEST

// The type that results of a kind are taken in, for an output of type Out.
template <ReduceKind kind, class Out>
struct TotalOf {
  using Type = Computed<Out>;
};
template <>
struct TotalOf<ReduceKind::total, f32> {
  using Type = f64;
};
template <>
struct TotalOf<ReduceKind::total, f16_t> {
  using Type = f64;
};
template <>
struct TotalOf<ReduceKind::total, bf16_t> {
  using Type = f64;
};

// An element in that type.
template <class Total, class T>
ELEMENT Total as_total(T x) {
  const auto value = loaded(x);
  if constexpr (is_same<Total, b8>) return value != 0;
  if constexpr (is_same<Total, f32> || is_same<Total, f64>) return static_cast<Total>(value);
  return loaded(stored<Total>(value));
}

// Another lane's value; bytes travel as words.
template <class T>
ELEMENT T from_lane(T x, u32 distance) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(__shfl_down_sync(0xffffffffu, static_cast<u32>(x), distance));
  } else {
    return __shfl_down_sync(0xffffffffu, x, distance);
  }
}

// The team's result, from what each thread has: in its first thread. All threads of a block call
// this together. `combine(x, y)` takes x before y.
template <u32 SIZE, class T, class Combine>
ELEMENT T combined(T x, Combine combine) {
  if constexpr (SIZE > 1) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
      x = combine(x, from_lane(x, distance));
    }
  }
  if constexpr (SIZE > WARP) {
    __shared__ T of_warps[SIZE / WARP];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncthreads();  // what an earlier call left has been read
    if (lane == 0) of_warps[warp] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (u32 w = 1; w < SIZE / WARP; ++w) x = combine(x, of_warps[w]);
    }
  }
  return x;
}

// What one thread of the team has, for all of them. All threads of a block call this together.
template <u32 SIZE, class T>
ELEMENT T from_member(T x, u32 member) {
  if constexpr (SIZE == 1) {
    return x;
  } else if constexpr (SIZE == WARP) {
    if constexpr (sizeof(T) == 1) {
      return static_cast<T>(__shfl_sync(0xffffffffu, static_cast<u32>(x), member));
    } else {
      return __shfl_sync(0xffffffffu, x, member);
    }
  } else {
    __shared__ T shown;
    __syncthreads();  // what an earlier call left has been read
    if (threadIdx.x == member) shown = x;
    __syncthreads();
    return shown;
  }
}

}  // namespace needle
