// out = a, cast, where neighbours in out's memory are not neighbours in a's: -DOUT=f32
// -DDTYPE=f16_t -DRANK=2. For every place of the other axes, tiles of a matrix that out has by rows
// and a by columns go through shared memory, so that both are read and written by neighbours.
#include "operand.cuh"

using namespace needle;

struct Transpose {
  Operands<2, RANK> x;    // out, a over the other axes
  i64 out_row, a_column;  // strides; those along out's rows and a's columns are 1
  u32 rows, columns;
};

constexpr u32 SIDE = 32, LINES = 8;
constexpr u32 PITCH = SIDE + (sizeof(OUT) < 4 ? 4 / sizeof(OUT) : 1);  // a bank more than a row

extern "C" __global__ void __launch_bounds__(SIDE* LINES)
    transpose(const __grid_constant__ Transpose p) {
  __shared__ OUT tile[SIDE][PITCH];
  const u32 across = (p.columns + SIDE - 1) / SIDE, down = (p.rows + SIDE - 1) / SIDE;
  const u32 column = blockIdx.x % across * SIDE, row = blockIdx.x / across % down * SIDE;
  const Places<2> at = places_of(p.x, blockIdx.x / across / down);
  const u32 lane = threadIdx.x % SIDE, line = threadIdx.x / SIDE;
  const DTYPE* const a = p.x.at<DTYPE>(1, at[1]);
  OUT* const out = p.x.at<OUT>(0, at[0]);
#pragma unroll
  for (u32 k = line; k < SIDE; k += LINES) {
    if (row + lane < p.rows && column + k < p.columns) {
      tile[k][lane] = copied<OUT>(a[row + lane + (column + k) * p.a_column]);
    }
  }
  __syncthreads();
#pragma unroll
  for (u32 k = line; k < SIDE; k += LINES) {
    if (row + k < p.rows && column + lane < p.columns) {
      out[(row + k) * p.out_row + column + lane] = tile[lane][k];
    }
  }
}
