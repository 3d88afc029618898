// Operands of kernels: N strided views over one space of R axes, passed by value.
//
// A kernel takes one struct, which begins with the addresses of its operands; the host fills it in
// (backend/gpu/launch.py). It is a __grid_constant__ and R is a constant (RANK, one of 1, 2, 4, 8),
// so that nothing of it is copied to local memory. Elements are counted in 32 bits: the host cuts
// larger spaces. Strides count elements and have 64 bits; they may be 0 or negative.
#pragma once

#include "elements.cuh"

namespace needle {

template <int N, int R>
struct Operands {
  char* data[N];
  i64 strides[N][R];
  u32 shape[R];
  u32 size;  // the product of shape

  template <class T>
  ELEMENT T* at(int operand, i64 place) const {
    return reinterpret_cast<T*>(data[operand]) + place;
  }
};

// Where element i, counted in C order, lies in each operand.
template <int N>
struct Places {
  i64 at[N];
  ELEMENT i64 operator[](int operand) const { return at[operand]; }
};

template <int N, int R>
ELEMENT Places<N> places_of(const Operands<N, R>& operands, u32 i) {
  Places<N> places = {};
#pragma unroll
  for (int axis = R - 1; axis >= 0; --axis) {
    const u32 rest = axis > 0 ? i / operands.shape[axis] : 0;
    const u32 index = i - rest * operands.shape[axis];
    for (int n = 0; n < N; ++n) places.at[n] += index * operands.strides[n][axis];
    i = rest;
  }
  return places;
}

// Elementwise kernels: a thread computes PER_THREAD elements, which are a block apart, so that
// neighbours in a warp read neighbours in memory. `body(places)` is called for each.
constexpr u32 PER_THREAD = 4;

template <int N, int R, class Body>
ELEMENT void for_each_element(const Operands<N, R>& operands, Body body) {
  const u32 first = blockIdx.x * (blockDim.x * PER_THREAD) + threadIdx.x;
#pragma unroll
  for (u32 k = 0; k < PER_THREAD; ++k) {
    const u32 i = first + k * blockDim.x;
    if (i < operands.size) body(places_of(operands, i));
  }
}

}  // namespace needle
