// Winograd's convolution F(2 x 2, 3 x 3): what the three kernels of 3 x 3 filters have in common.
//
// A tile is 2 x 2 outputs and the 4 x 4 inputs d that they see. With
//
//           |1  0 -1  0|        |  1    0    0 |           |1  1  1  0|
//     B^T = |0  1  1  0|    G = | 1/2  1/2  1/2|     A^T = |0  1 -1 -1|
//           |0 -1  1  0|        | 1/2 -1/2  1/2|
//           |0  1  0 -1|        |  0    0    1 |
//
// and a filter g, the outputs are A^T (G g G^T * B^T d B) A, where * is elementwise: 16
// multiplications in the place of 36. Sums over channels, or over tiles, are taken between the
// transforms, so they are one matrix product (brgemm.h) for each of the 16 places of a tile.
//
// Chains of sums are a ninth as long as with taps, so errors are smaller as a rule. An output is
// made of nothing but the inputs that it sees: other taps of these cancel, up to the rounding of
// the largest product among them. (Two infinities leave NaN.)
#pragma once

#include "conv.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kPlaces = 16;   // of a transformed tile
constexpr int64_t kTileSide = 2;  // outputs of a tile along an axis
constexpr int64_t kSeenSide = 4;  // inputs of a tile along an axis
constexpr int64_t kTapSide = 3;

using Floats = Vec<float>;

// Each transform along one axis; along two it is applied to columns, then to rows.
struct Four {
  Floats at[4];
};
struct Three {
  Floats at[3];
};
struct Two {
  Floats at[2];
};

// B^T d
NEEDLE_INLINE Four input_transform(Floats a, Floats b, Floats c, Floats d) {
  return {{a - c, b + c, c - b, b - d}};
}
// G g
NEEDLE_INLINE Four filter_transform(Floats a, Floats b, Floats c) {
  const Floats even = (a + c) * 0.5f, odd = b * 0.5f;
  return {{a, even + odd, even - odd, c}};
}
// G^T u
NEEDLE_INLINE Three filter_adjoint(Floats a, Floats b, Floats c, Floats d) {
  const Floats even = (b + c) * 0.5f, odd = (b - c) * 0.5f;
  return {{a + even, odd, even + d}};
}
// A^T m
NEEDLE_INLINE Two output_transform(Floats a, Floats b, Floats c, Floats d) {
  return {{a + b + c, b - c - d}};
}
// A y
NEEDLE_INLINE Four output_adjoint(Floats a, Floats b) { return {{a, a + b, a - b, -b}}; }

// An axis of the images: output q sees the inputs from q - padding on.
struct WinogradAxis {
  int64_t in, out, padding;

  int64_t tiles() const { return ceil_div(out, kTileSide); }
};

// Tiles of all images, in the order (N, H, W). The adjoint in the data is a convolution too, by
// filters that are read from their end.
struct WinogradTiles {
  int64_t batch;
  WinogradAxis height, width;

  WinogradTiles(int64_t batch, const TapAxis (&axes)[kSpace])
      : batch(batch), height(axis_of(axes[1])), width(axis_of(axes[2])) {}

  int64_t count() const { return batch * height.tiles() * width.tiles(); }

  static WinogradAxis axis_of(const TapAxis& axis) {
    return {axis.in, axis.out, axis.is_adjoint ? kTapSide - 1 - axis.padding : axis.padding};
  }
};

// Where a tile is: its first output.
class TileCursor {
 public:
  TileCursor(const WinogradTiles& tiles, int64_t tile) : tiles_(&tiles) {
    const int64_t across = tiles.width.tiles(), down = tiles.height.tiles();
    w = tile % across * kTileSide;
    h = tile / across % down * kTileSide;
    image = tile / across / down;
  }

  void next() {
    if ((w += kTileSide) < tiles_->width.out) return;
    w = 0;
    if ((h += kTileSide) < tiles_->height.out) return;
    h = 0;
    ++image;
  }

  int64_t image, h, w;

 private:
  const WinogradTiles* tiles_;
};

// The 16 matrices of transformed tiles, or of sums, place by place: (16, rows, channels).
struct Places {
  float* data;
  int64_t row;   // from row to row
  int64_t step;  // from place to place

  // Rows of a multiple of 1 KB would share few sets of the first-level cache, and places of a
  // multiple of 4 KB one: each is kept a line apart.
  static int64_t row_of(int64_t channels) {
    const int64_t whole = ceil_div(channels, kLine) * kLine;
    return whole + (whole * kSize % 1024 == 0 ? kLine : 0);
  }
  static int64_t step_of(int64_t rows, int64_t row) { return rows * row + kLine; }
  static int64_t size(int64_t rows, int64_t channels) {
    return kPlaces * step_of(rows, row_of(channels));
  }

  Places(float* data, int64_t rows, int64_t channels)
      : data(data), row(row_of(channels)), step(step_of(rows, row)) {}

 private:
  static constexpr int64_t kSize = sizeof(float), kLine = 64 / kSize;
};

// Tiles [first, first + count), in the order of a cursor.
struct TileRange {
  const WinogradTiles& tiles;
  int64_t first, count;

  TileCursor begin() const { return TileCursor(tiles, first); }
};

// An image's N x N positions from (h, w) on, which are zeros outside of its height and width.
template <int64_t N>
struct Square {
  const float* at[N][N];

  Square(const Image<const float>& image, int64_t n, int64_t h, int64_t w, int64_t height,
         int64_t width, const float* zeros) {
    const float* const corner =
        image.data + n * image.batch_step + h * image.step[1] + w * image.step[2];
    for (int64_t i = 0; i < N; ++i) {
      for (int64_t j = 0; j < N; ++j) {
        const bool is_inside = h + i >= 0 && h + i < height && w + j >= 0 && w + j < width;
        at[i][j] = is_inside ? corner + i * image.step[1] + j * image.step[2] : zeros;
      }
    }
  }
};

// Writes row i of a transformed tile, for the channels of one vector.
NEEDLE_INLINE void store_line(const Places& to, int64_t t, int i, int64_t channel,
                              const Four& line) {
  float* const at = to.data + t * to.row + channel;
#pragma GCC unroll 4
  for (int j = 0; j < kSeenSide; ++j) store(at + (i * kSeenSide + j) * to.step, line.at[j]);
}

// to = B^T d B for the image's channels; `zeros` has as many.
inline void transform_inputs(const Places& to, const Image<const float>& image,
                             const TileRange& range, const float* zeros) {
  const WinogradAxis &height = range.tiles.height, &width = range.tiles.width;
  TileCursor cursor = range.begin();
  for (int64_t t = 0; t < range.count; ++t, cursor.next()) {
    const Square<kSeenSide> d(image, cursor.image, cursor.h - height.padding,
                              cursor.w - width.padding, height.in, width.in, zeros);
    for_each_vec<float>(image.channels, [&](int64_t c, auto lanes) NEEDLE_INLINE_LAMBDA {
      Four columns[kSeenSide];
#pragma GCC unroll 4
      for (int j = 0; j < kSeenSide; ++j) {
        columns[j] = input_transform(lanes.load(d.at[0][j] + c), lanes.load(d.at[1][j] + c),
                                     lanes.load(d.at[2][j] + c), lanes.load(d.at[3][j] + c));
      }
#pragma GCC unroll 4
      for (int i = 0; i < kSeenSide; ++i) {
        store_line(to, t, i, c,
                   input_transform(columns[0].at[i], columns[1].at[i], columns[2].at[i],
                                   columns[3].at[i]));
      }
    });
  }
}

// to = A y A^T, the adjoint of the outputs' transform.
inline void transform_gradients(const Places& to, const Image<const float>& image,
                                const TileRange& range, const float* zeros) {
  TileCursor cursor = range.begin();
  for (int64_t t = 0; t < range.count; ++t, cursor.next()) {
    const Square<kTileSide> y(image, cursor.image, cursor.h, cursor.w, range.tiles.height.out,
                              range.tiles.width.out, zeros);
    for_each_vec<float>(image.channels, [&](int64_t c, auto lanes) NEEDLE_INLINE_LAMBDA {
      const Four left = output_adjoint(lanes.load(y.at[0][0] + c), lanes.load(y.at[1][0] + c));
      const Four right = output_adjoint(lanes.load(y.at[0][1] + c), lanes.load(y.at[1][1] + c));
#pragma GCC unroll 4
      for (int i = 0; i < kSeenSide; ++i) {
        store_line(to, t, i, c, output_adjoint(left.at[i], right.at[i]));
      }
    });
  }
}

// C (rows x cols, no wider than a block) at column `col` of the sum, in blocks of even heights.
inline void multiply_block_rows(const PanelSum<float>& sum, int64_t col, float* c, int64_t c_row,
                                const Cuts& rows, int64_t cols, bool accumulate) {
  const BlockKernel<float> longer = block_kernel<float>(rows.length(0), cols);
  const BlockKernel<float> shorter = block_kernel<float>(rows.size, cols);
  for (int64_t i = 0; i < rows.count; ++i) {
    const int64_t row = rows.start(i);
    (i < rows.longer ? longer : shorter)(sum, row, col, c + row * c_row, c_row, accumulate);
  }
}

// Is a convolution of these axes one that tiles can compute?
inline bool has_tiles(const TapAxis (&axes)[kSpace], int64_t groups) {
  const TapAxis& depth = axes[0];
  if (groups != 1 || depth.taps != 1 || depth.in != 1 || depth.out != 1) return false;
  for (int d = 1; d < kSpace; ++d) {
    if (axes[d].taps != kTapSide || axes[d].stride != 1 || axes[d].dilation != 1) return false;
  }
  return true;
}

// Pairs of outputs and inputs inside that meet through some tap.
inline int64_t meetings(const TapAxis& axis) {
  int64_t total = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const int64_t shift = axis.is_adjoint ? axis.padding - tap : tap - axis.padding;
    total += max_of(0, min_of(axis.out, axis.in - shift) - max_of(0, -shift));
  }
  return total;
}

// Do tiles take less time than taps? In multiplications: those of the products, and what transforms
// take of time for each element of inputs, outputs and filters.
inline bool winograd_pays(const TapAxis (&axes)[kSpace], int64_t batch, int64_t in, int64_t out,
                          int64_t groups) {
  constexpr int64_t kTransform = 64, kLeastChannels = 16;
  if (!has_tiles(axes, groups) || in < kLeastChannels || out < kLeastChannels) return false;
  const int64_t tiles = WinogradTiles(batch, axes).count();
  const int64_t by_taps = batch * meetings(axes[1]) * meetings(axes[2]) * in * out;
  const int64_t by_tiles =
      kPlaces * tiles * in * out + kTransform * (tiles * (in + out) + in * out);
  return by_tiles < by_taps / 10 * 9;
}

}  // namespace
}  // namespace needle::NEEDLE_ISA
