// The adjoint of a convolution of 3 x 3 taps in its filter, by Winograd's tiles (winograd.h).
//
// It is the transposed computation: with the outputs' gradients y of a tile,
//
//     sums[place] (channels x outputs) = sum over tiles of (B^T d B)[place] (A y A^T)[place]
//
// and the filter's gradient is G^T sums G. A task owns a part of the filter, some channels and
// outputs, and goes through tiles in chunks, which it transforms and multiplies in the second-level
// cache. Where the parts are fewer than the tasks that are wanted, tiles are cut into segments too,
// whose filters are added in their order.
#pragma once

#include "winograd.h"

namespace needle::NEEDLE_ISA {
namespace {

class WinogradWeight {
 public:
  // axes: from x (in) to y (out), not adjoint; filter.out_step is 1.
  WinogradWeight(Filter<float> filter, Image<const float> x, Image<const float> y,
                 const TapAxis (&axes)[kSpace])
      : filter_(filter), x_(x), y_(y), axes_(axes), tiles_(x.batch, axes) {
    part_rows_ = even_part(x.channels, kPartSide);
    part_cols_ = even_part(y.channels, kPartSide, kLanes<float>);
    down_ = ceil_div(x.channels, part_rows_);
    across_ = ceil_div(y.channels, part_cols_);
    const int64_t chunks = ceil_div(tiles_.count(), kChunk);
    segments_ = min_of(chunks, ceil_div(kTasks, down_ * across_));
  }

  // Sums over few tiles take as long to store as to compute (one image of 7 x 7 x 512: 1.04 ms, by
  // taps 0.99).
  static bool is_worth_it(const Image<const float>& x, const Image<const float>& y,
                          const TapAxis (&axes)[kSpace], int64_t groups) {
    constexpr int64_t kLeastTiles = 32;
    return winograd_pays(axes, x.batch, x.channels, y.channels, groups) &&
           WinogradTiles(x.batch, axes).count() >= kLeastTiles;
  }

  void run() {
    sum_segments(filter_, axes_, x_.channels, y_.channels, segments_,
                 [&](const Filter<float>& sums, int64_t step) { run_tasks(sums, step); });
  }

 private:
  static constexpr int64_t kSize = sizeof(float);
  static constexpr int64_t kWidth = 2 * kLanes<float>;  // columns of a block
  // Most channels and outputs of a task, and tiles that are multiplied at once. One Zen 4 core, 32
  // images of 16 x 16 x 128: 11.9 ms; with 128 channels 14.1, with 32 tiles 12.5.
  static constexpr int64_t kPartSide = 64, kChunk = 64;
  static constexpr int64_t kTasks = 16;

  // Channels [row, row + rows) and outputs [col, col + cols) of the filter.
  struct Part {
    int64_t row, rows, col, cols;
  };

  void run_tasks(const Filter<float>& filter, int64_t segment_step) const {
    parallel_for(segments_ * down_ * across_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % (down_ * across_), segment = task / (down_ * across_);
        const int64_t row = part / across_ * part_rows_, col = part % across_ * part_cols_;
        Filter<float> to = filter;
        to.data += segment * segment_step;
        run_task(to, segment,
                 {row, min_of(part_rows_, x_.channels - row), col,
                  min_of(part_cols_, y_.channels - col)});
      }
    });
  }

  void run_task(const Filter<float>& to, int64_t segment, const Part& part) const {
    const int64_t x_size = Places::size(kChunk, part.rows);
    const int64_t y_size = Places::size(kChunk, part.cols);
    const int64_t sums_size = Places::size(part.rows, part.cols);
    const int64_t longest = max_of(part.rows, part.cols);
    const Workspace workspace((x_size + y_size + sums_size + longest) * kSize, kept_tile);
    float* const room = workspace.as<float>();
    const Places inputs(room, kChunk, part.rows), gradients(room + x_size, kChunk, part.cols);
    const Places sums(room + x_size + y_size, part.rows, part.cols);
    float* const zeros = sums.data + sums_size;
    __builtin_memset(zeros, 0, longest * kSize);
    const int64_t chunks = ceil_div(tiles_.count(), kChunk);
    const int64_t begin = segment * chunks / segments_;
    for (int64_t chunk = begin; chunk < (segment + 1) * chunks / segments_; ++chunk) {
      const int64_t first = chunk * kChunk, n = min_of(kChunk, tiles_.count() - first);
      transform_inputs(inputs, channels_of(x_, part.row, part.rows), {tiles_, first, n}, zeros);
      transform_gradients(gradients, channels_of(y_, part.col, part.cols), {tiles_, first, n},
                          zeros);
      multiply(part, inputs, gradients, sums, n, chunk > begin);
    }
    transform_sums(to, part, sums);
  }

  static Image<const float> channels_of(Image<const float> image, int64_t first, int64_t n) {
    image.data += first;
    image.channels = n;
    return image;
  }

  // sums (+)= transposed inputs times gradients, over n tiles
  void multiply(const Part& part, const Places& inputs, const Places& gradients, const Places& sums,
                int64_t n, bool accumulate) const {
    const Cuts rows(part.rows, kMostRows);
    for (int64_t place = 0; place < kPlaces; ++place) {
      const Panels<float> panels = {inputs.data + place * inputs.step,
                                    gradients.data + place * gradients.step};
      for (int64_t j = 0; j < part.cols; j += kWidth) {
        multiply_block_rows({&panels, 1, n, 1, inputs.row, gradients.row}, j,
                            sums.data + place * sums.step + j, sums.row, rows,
                            min_of(kWidth, part.cols - j), accumulate);
      }
    }
  }

  // G^T sums G
  void transform_sums(const Filter<float>& filter, const Part& part, const Places& sums) const {
    for (int64_t r = 0; r < part.rows; ++r) {
      const float* const row = sums.data + r * sums.row;
      float* const to = filter.data + (part.row + r) * filter.in_step + part.col;
      for_each_vec<float>(part.cols, [&](int64_t c, auto lanes) NEEDLE_INLINE_LAMBDA {
        Three columns[kSeenSide];
#pragma GCC unroll 4
        for (int j = 0; j < kSeenSide; ++j) {
          const auto sum = [&](int i) NEEDLE_INLINE_LAMBDA {
            return lanes.load(row + (i * kSeenSide + j) * sums.step + c);
          };
          columns[j] = filter_adjoint(sum(0), sum(1), sum(2), sum(3));
        }
#pragma GCC unroll 3
        for (int i = 0; i < kTapSide; ++i) {
          const Three line = filter_adjoint(columns[0].at[i], columns[1].at[i], columns[2].at[i],
                                            columns[3].at[i]);
#pragma GCC unroll 3
          for (int j = 0; j < kTapSide; ++j) {
            lanes.store(to + i * filter.step[1] + j * filter.step[2] + c, line.at[j]);
          }
        }
      });
    }
  }

  Filter<float> filter_;
  Image<const float> x_, y_;
  const TapAxis (&axes_)[kSpace];
  WinogradTiles tiles_;
  int64_t part_rows_, part_cols_, down_, across_, segments_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
