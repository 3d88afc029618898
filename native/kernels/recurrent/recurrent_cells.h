// Recurrent cells: the arithmetic of one step on vectors of units, forward and backward.
//
// x and s are the parts of the gates that come from the input and the state. `gates` makes what it
// can of s without the state; `state` gives the next h, c becomes the next one, and `kept` is for
// backward. Apart, their chains of operations are short enough that a core runs several at once.
//
// backward gets the adjoints of h and c, dh and dc; dc becomes that of c before the step, dh what
// of the adjoint of h before the step does not come through s; dx and ds are those of x and s.
#pragma once

#include "kernels/math/vec_math.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

template <class T, int Kept>
struct Before {  // what backward sees of a step
  Vec<T> kept[Kept];
  Vec<T> h, h_before, c_before;
};

struct TanhCell {
  static constexpr int kGates = 1, kKept = 0;
  static constexpr bool kHasCell = false, kSplits = false;

  template <class V>
  NEEDLE_INLINE static void gates(const V* x, V* s) {
    s[0] += x[0];
  }

  template <class V>
  NEEDLE_INLINE static V state(const V*, const V* s, V, V&, V*) {
    return tanh(s[0]);
  }

  template <class V, class Step>
  NEEDLE_INLINE static void backward(const Step& step, V& dh, V&, V* dx, V*) {
    dx[0] = dh * (1 - step.h * step.h);
    dh = V{};
  }
};

struct ReluCell : TanhCell {
  template <class V>
  NEEDLE_INLINE static V state(const V*, const V* s, V, V&, V*) {
    return s[0] < 0 ? V{} : s[0];
  }

  template <class V, class Step>
  NEEDLE_INLINE static void backward(const Step& step, V& dh, V&, V* dx, V*) {
    dx[0] = step.h > 0 ? dh : V{};
    dh = V{};
  }
};

struct LstmCell {
  static constexpr int kGates = 4, kKept = 5;  // i, f, g, o; and c
  static constexpr bool kHasCell = true, kSplits = false;

  template <class V>
  NEEDLE_INLINE static void gates(const V* x, V* s) {
    s[0] = sigmoid(x[0] + s[0]);
    s[1] = sigmoid(x[1] + s[1]);
    s[2] = tanh(x[2] + s[2]);
    s[3] = sigmoid(x[3] + s[3]);
  }

  template <class V>
  NEEDLE_INLINE static V state(const V*, const V* s, V, V& c, V* kept) {
    const V i = s[0], f = s[1], g = s[2], o = s[3];
    c = f * c + i * g;
    kept[0] = i, kept[1] = f, kept[2] = g, kept[3] = o, kept[4] = c;
    return o * tanh(c);
  }

  template <class V, class Step>
  NEEDLE_INLINE static void backward(const Step& step, V& dh, V& dc, V* dx, V*) {
    const V i = step.kept[0], f = step.kept[1], g = step.kept[2], o = step.kept[3],
            y = tanh(step.kept[4]);
    dc += dh * o * (1 - y * y);
    dx[0] = dc * g * i * (1 - i);
    dx[1] = dc * step.c_before * f * (1 - f);
    dx[2] = dc * i * (1 - g * g);
    dx[3] = dh * y * o * (1 - o);
    dc *= f;
    dh = V{};
  }
};

struct GruCell {
  static constexpr int kGates = 3, kKept = 4;  // r, z, n; and the state's part of n
  static constexpr bool kHasCell = false, kSplits = true;

  template <class V>
  NEEDLE_INLINE static void gates(const V* x, V* s) {
    s[0] = sigmoid(x[0] + s[0]);
    s[1] = sigmoid(x[1] + s[1]);
  }

  template <class V>
  NEEDLE_INLINE static V state(const V* x, const V* s, V h, V&, V* kept) {
    const V r = s[0], z = s[1], m = s[2], n = tanh(x[2] + r * m);
    kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = m;
    return n + z * (h - n);
  }

  template <class V, class Step>
  NEEDLE_INLINE static void backward(const Step& step, V& dh, V&, V* dx, V* ds) {
    const V r = step.kept[0], z = step.kept[1], n = step.kept[2], m = step.kept[3];
    const V dn = dh * (1 - z) * (1 - n * n);
    dx[0] = ds[0] = dn * m * r * (1 - r);
    dx[1] = ds[1] = dh * (step.h_before - n) * z * (1 - z);
    dx[2] = dn;
    ds[2] = dn * r;
    dh *= z;
  }
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
