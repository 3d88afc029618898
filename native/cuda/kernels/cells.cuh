// Recurrent cells: one step of a unit, and what it adds to the adjoints.
//
//   tanh, relu   h = f(x + s)
//   lstm         i, f, g, o = σ, σ, tanh, σ of x + s,   c = f c + i g,   h = o tanh(c)
//   gru          r, z = σ(x + s),  n = tanh(x_n + r s_n),  h = n + z (h - n)
#pragma once

#include "elements.cuh"

namespace needle {

using Tanh = Formula<UnaryOp::tanh>;
using Sigmoid = Formula<UnaryOp::sigmoid>;
using Relu = Formula<UnaryOp::relu>;

enum class Cell { tanh, relu, lstm, gru };

ELEMENT constexpr int gates_of(Cell cell) {
  return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1;
}
ELEMENT constexpr int kept_by(Cell cell) {
  return cell == Cell::lstm ? 5 : cell == Cell::gru ? 4 : 0;
}

// A unit before a step, and (h and c) after it. kept is what its adjoints need.
template <class S>
struct Unit {
  S h, c;
  S kept[5];
};

template <Cell kCell, class S>
ELEMENT void step(Unit<S>& unit, const S (&x)[4], const S (&s)[4]) {
  if constexpr (kCell == Cell::tanh) {
    unit.h = Tanh::apply(x[0] + s[0]);
  } else if constexpr (kCell == Cell::relu) {
    unit.h = Relu::apply(x[0] + s[0]);
  } else if constexpr (kCell == Cell::lstm) {
    const S i = Sigmoid::apply(x[0] + s[0]), f = Sigmoid::apply(x[1] + s[1]);
    const S g = Tanh::apply(x[2] + s[2]), o = Sigmoid::apply(x[3] + s[3]);
    unit.c = f * unit.c + i * g;
    unit.h = o * Tanh::apply(unit.c);
    const S kept[5] = {i, f, g, o, unit.c};
    for (int k = 0; k < 5; ++k) unit.kept[k] = kept[k];
  } else {
    const S r = Sigmoid::apply(x[0] + s[0]), z = Sigmoid::apply(x[1] + s[1]);
    const S n = Tanh::apply(x[2] + r * s[2]);
    unit.h = n + z * (unit.h - n);
    const S kept[5] = {r, z, n, s[2], 0};
    for (int k = 0; k < 4; ++k) unit.kept[k] = kept[k];
  }
}

// The adjoints of x, of s, of what h gets other than through s, and of c before the step.
template <class S>
struct Slopes {
  S gates[4], sums[4], direct, c;
};

// Given those of h and c after it. `h` is the state after a step of tanh or relu, before one of
// gru; `c` the one before.
template <Cell kCell, class S>
ELEMENT Slopes<S> slopes_of(S dh, S dc, S h, S c, const S (&kept)[5]) {
  Slopes<S> d = {};
  if constexpr (kCell == Cell::tanh) {
    d.gates[0] = dh * (1 - h * h);
  } else if constexpr (kCell == Cell::relu) {
    d.gates[0] = dh * (h > 0 ? S(1) : S(0));
  } else if constexpr (kCell == Cell::lstm) {
    const S i = kept[0], f = kept[1], g = kept[2], o = kept[3], y = Tanh::apply(kept[4]);
    dc += dh * o * (1 - y * y);
    d.gates[0] = dc * g * i * (1 - i);
    d.gates[1] = dc * c * f * (1 - f);
    d.gates[2] = dc * i * (1 - g * g);
    d.gates[3] = dh * y * o * (1 - o);
    d.c = dc * f;
  } else {
    const S r = kept[0], z = kept[1], n = kept[2], s_n = kept[3];
    const S dn = dh * (1 - z) * (1 - n * n);
    d.gates[0] = dn * s_n * r * (1 - r);
    d.gates[1] = dh * (h - n) * z * (1 - z);
    d.gates[2] = dn;
    d.direct = dh * z;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) d.sums[k] = d.gates[k];
  if constexpr (kCell == Cell::gru) d.sums[2] = d.gates[2] * kept[0];
  return d;
}

}  // namespace needle
