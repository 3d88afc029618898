// A step of a recurrent cell, all of it: s = h w + bias for all gates of a unit in one thread, then
// the cell: -DDTYPE=f32 -DCELL=lstm.
//
// A tile is the product of 32 states by the gates of some units. Its columns are turned so that the
// four of a thread are the gates of one unit (of a cell with one gate, four units).
#include "cells.cuh"
#include "product.cuh"

using namespace needle;

using S = Computed<DTYPE>;
constexpr Cell CELL_IS = Cell::CELL;
constexpr int GATES = gates_of(CELL_IS), KEPT = kept_by(CELL_IS);
constexpr bool IS_SIMPLE = GATES == 1;
using Tile = Product<S, 8, 4 / WORD<S>>;
static_assert(Tile::EACH == 4 && Tile::SIDE == 32);
constexpr u32 UNITS = IS_SIMPLE ? 32 : 8;  // of a block

struct Step {
  char *state_after, *c, *h, *kept;  // S (B, H), S (B, H), and one step's of the outputs
  char *state, *x, *w, *bias;        // S (B, H), one step's x, and the operands
  i64 h_row, h_column, kept_row, kept_column, x_row, x_column, w_row, w_column, bias_column;
  u32 batch, size, has_bias;

  template <class T>
  ELEMENT T& of(char* data, i64 row_stride, u32 row, i64 column_stride, u32 column) const {
    return reinterpret_cast<T*>(data)[row * row_stride + column * column_stride];
  }
};

// The weights, by gates of units.
struct Gates {
  const Step& p;
  u32 first;  // unit
  u32 depth;
  bool by_depth;

  ELEMENT void fetch(S (&word)[WORD<S>], u32 side, u32 k) const {
    const u32 group = side / (8 * WORD<S>), thread = side / WORD<S> % 8;
#pragma unroll
    for (int i = 0; i < WORD<S>; ++i) {
      const u32 gate = IS_SIMPLE ? 0 : group * WORD<S> + i;
      const u32 unit = first + (IS_SIMPLE ? side + i : thread);
      const bool is_there = k < depth && gate < GATES && unit < p.size;
      word[i] =
          is_there ? loaded(p.of<DTYPE>(p.w, p.w_row, k, p.w_column, gate * p.size + unit)) : S(0);
    }
  }
};

// One unit of one row, given its sums.
ELEMENT void finish(const Step& p, u32 row, u32 unit, S (&s)[4]) {
  S x[4] = {};
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate) {
    const u32 column = gate * p.size + unit;
    x[gate] = loaded(p.of<DTYPE>(p.x, p.x_row, row, p.x_column, column));
    if (p.has_bias != 0) s[gate] += loaded(p.of<DTYPE>(p.bias, 0, 0, p.bias_column, column));
  }
  Unit<S> now;
  now.h = p.of<S>(p.state, p.size, row, 1, unit);
  if constexpr (CELL_IS == Cell::lstm) now.c = p.of<S>(p.c, p.size, row, 1, unit);
  step<CELL_IS>(now, x, s);
  p.of<S>(p.state_after, p.size, row, 1, unit) = now.h;
  p.of<DTYPE>(p.h, p.h_row, row, p.h_column, unit) = stored<DTYPE>(now.h);
  if constexpr (CELL_IS == Cell::lstm) p.of<S>(p.c, p.size, row, 1, unit) = now.c;
#pragma unroll
  for (int k = 0; k < KEPT; ++k) {
    p.of<S>(p.kept, p.kept_row, row, p.kept_column, k * p.size + unit) = now.kept[k];
  }
}

extern "C" __global__ void __launch_bounds__(64) recurrence_step(const __grid_constant__ Step p) {
  __shared__ Tile::Shared shared;
  const u32 across = (p.size + UNITS - 1) / UNITS;
  const u32 first = blockIdx.x % across * UNITS, row = blockIdx.x / across * Tile::SIDE;
  const Strided<S, S> states(reinterpret_cast<const S*>(p.state), p.size, 1, p.batch, p.size);
  const Gates gates = {p, first, p.size, false};
  Tile tile;
  tile.add(shared, states, gates, row, 0, 0, p.size);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 b = row + Tile::row(i);
    if (b >= p.batch) continue;
    if constexpr (IS_SIMPLE) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        S s[4] = {tile.sums[i][j]};
        if (first + Tile::column(j) < p.size) finish(p, b, first + Tile::column(j), s);
      }
    } else {
      const u32 unit = first + Tile::thread_column();
      if (unit < p.size) finish(p, b, unit, tile.sums[i]);
    }
  }
}
