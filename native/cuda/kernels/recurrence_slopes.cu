// One step of a recurrent cell's adjoints, unit by unit: -DDTYPE=f32 -DCELL=lstm. The adjoint of h,
// which later steps left, gets that of the output; what comes out are the adjoints of x and s, and
// what h before the step gets directly. The rest, through s, is a product (matmul.cu).
#include "cells.cuh"

using namespace needle;

using S = Computed<DTYPE>;
constexpr Cell CELL_IS = Cell::CELL;
constexpr int GATES = gates_of(CELL_IS), KEPT = kept_by(CELL_IS);
constexpr bool HAS_C = CELL_IS == Cell::lstm;

struct Slope {
  char *dh, *dc, *sums, *dx, *ds;   // S (B, H), S (B, H), S (B, G H), and one step's of the outputs
  char *g_h, *kept, *h, *c_before;  // one step's
  i64 dx_row, dx_column, ds_row, ds_column, g_row, g_column, kept_row, kept_column;
  i64 h_row, h_column, c_row, c_column;  // c_before is DTYPE (c0), or S (kept)
  u32 batch, size, c_is_kept, has_ds;
};

template <class T>
ELEMENT T& of(char* data, i64 row_stride, u32 row, i64 column_stride, u32 column) {
  return reinterpret_cast<T*>(data)[row * row_stride + column * column_stride];
}

extern "C" __global__ void recurrence_slopes(const __grid_constant__ Slope p) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.batch * p.size) return;
  const u32 row = i / p.size, unit = i - row * p.size;
  S& dh = reinterpret_cast<S*>(p.dh)[i];
  const S adjoint = dh + loaded(of<DTYPE>(p.g_h, p.g_row, row, p.g_column, unit));
  const S h = KEPT == 5 ? S(0) : loaded(of<DTYPE>(p.h, p.h_row, row, p.h_column, unit));
  S kept[5] = {}, dc = 0, c = 0;
#pragma unroll
  for (int k = 0; k < KEPT; ++k) {
    kept[k] = of<S>(p.kept, p.kept_row, row, p.kept_column, k * p.size + unit);
  }
  if constexpr (HAS_C) {
    dc = reinterpret_cast<S*>(p.dc)[i];
    c = p.c_is_kept != 0 ? of<S>(p.c_before, p.c_row, row, p.c_column, unit)
                         : loaded(of<DTYPE>(p.c_before, p.c_row, row, p.c_column, unit));
  }
  const Slopes<S> d = slopes_of<CELL_IS>(adjoint, dc, h, c, kept);
  dh = d.direct;
  if constexpr (HAS_C) reinterpret_cast<S*>(p.dc)[i] = d.c;
#pragma unroll
  for (int gate = 0; gate < GATES; ++gate) {
    const u32 column = gate * p.size + unit;
    reinterpret_cast<S*>(p.sums)[row * (GATES * p.size) + column] = d.sums[gate];
    of<DTYPE>(p.dx, p.dx_row, row, p.dx_column, column) = stored<DTYPE>(d.gates[gate]);
    if (p.has_ds != 0) {
      of<DTYPE>(p.ds, p.ds_row, row, p.ds_column, column) = stored<DTYPE>(d.sums[gate]);
    }
  }
}
