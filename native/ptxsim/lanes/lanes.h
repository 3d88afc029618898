// How functions over the 32 lanes of a warp are written. Included once per instruction set.
//
// Sources are compiled for the plain architecture and for AVX2 with FMA, in namespaces of their own
// (PTXSIM_ISA); the best set that the machine runs is chosen when a program is decoded. Nothing of
// the standard library that could become a weak symbol is used here.
#pragma once

#include <cstring>

#include "../base.h"
#include "forms.h"

namespace ptxsim::PTXSIM_ISA {
namespace {

// A result lane depends on the source lanes of the same number alone, so registers may coincide.
#define EACH_LANE _Pragma("GCC ivdep") for (u32 l = 0; l < kLanes; ++l)

template <bool C, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

// Types of 8 and 16 bits lie in 32 bits.
template <class T>
using Lane = typename Choose<sizeof(T) < 4, u32, T>::type;

template <class T>
inline const Lane<T>* source(const char* registers, u32 slot) {
  return reinterpret_cast<const Lane<T>*>(registers + slot);
}

template <class T>
struct UnsignedOf {
  using type = T;
};
template <>
struct UnsignedOf<s8> {
  using type = u8;
};
template <>
struct UnsignedOf<s16> {
  using type = u16;
};

// A short result has zeros above it.
template <class T>
inline Lane<T> stored(T value) {
  return static_cast<Lane<T>>(static_cast<typename UnsignedOf<T>::type>(value));
}

template <class Op, class T, class R = T>
void one(const char* registers, const u32* sources, void* result) {
  const auto* a = source<T>(registers, sources[0]);
  auto* d = static_cast<Lane<R>*>(result);
  EACH_LANE d[l] = stored<R>(Op::of(static_cast<T>(a[l])));
}

template <class Op, class T, class B = T, class R = T>
void two(const char* registers, const u32* sources, void* result) {
  const auto* a = source<T>(registers, sources[0]);
  const auto* b = source<B>(registers, sources[1]);
  auto* d = static_cast<Lane<R>*>(result);
  EACH_LANE d[l] = stored<R>(Op::of(static_cast<T>(a[l]), static_cast<B>(b[l])));
}

template <class Op, class T, class B = T, class C = T, class R = T>
void three(const char* registers, const u32* sources, void* result) {
  const auto* a = source<T>(registers, sources[0]);
  const auto* b = source<B>(registers, sources[1]);
  const auto* c = source<C>(registers, sources[2]);
  auto* d = static_cast<Lane<R>*>(result);
  EACH_LANE d[l] =
      stored<R>(Op::of(static_cast<T>(a[l]), static_cast<B>(b[l]), static_cast<C>(c[l])));
}

template <class Op, class T>
void four(const char* registers, const u32* sources, void* result) {
  const auto* a = source<T>(registers, sources[0]);
  const auto* b = source<T>(registers, sources[1]);
  const auto* c = source<u32>(registers, sources[2]);
  const auto* e = source<u32>(registers, sources[3]);
  auto* d = static_cast<Lane<T>*>(result);
  EACH_LANE d[l] = stored<T>(Op::of(static_cast<T>(a[l]), static_cast<T>(b[l]), c[l], e[l]));
}

// A comparison gives a mask with a bit per lane.
template <class Op, class T>
void compare(const char* registers, const u32* sources, void* result) {
  const auto* a = source<T>(registers, sources[0]);
  const auto* b = source<T>(registers, sources[1]);
  u32 truth[kLanes];
  EACH_LANE truth[l] = Op::of(static_cast<T>(a[l]), static_cast<T>(b[l])) ? 1u << l : 0;
  u32 mask = 0;
  for (u32 l = 0; l < kLanes; ++l) mask |= truth[l];
  *static_cast<u32*>(result) = mask;
}

}  // namespace
}  // namespace ptxsim::PTXSIM_ISA
