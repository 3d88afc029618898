// Convolutions of 3 x 3 taps, and their adjoints in the data, by Winograd's tiles (winograd.h).
//
// A task takes some tiles and some panels of output channels: it transforms the tiles' inputs,
// multiplies them place by place,
//
//     sums[place] (tiles x outputs) = inputs[place] (tiles x channels) filters[place],
//
// and transforms the sums to outputs. As a rule all filters are transformed before, into panels of
// columns for each place. Where tiles are fewer than outputs, as in the last layers of a network,
// filters are what fills the caches: there a task takes all tiles and transforms the filters of its
// own panels (one image of 7 x 7 x 512: 1.14 ms, otherwise 3.08; by taps 1.42).
#pragma once

#include "winograd.h"

namespace needle::NEEDLE_ISA {
namespace {

class WinogradConv {
 public:
  WinogradConv(Image<float> out, Image<const float> in, Filter<const float> filter,
               const TapAxis (&axes)[kSpace], const Epilogue* epilogue = nullptr)
      : out_(out),
        in_(in),
        filter_(filter),
        is_adjoint_(axes[2].is_adjoint),
        tiles_(in.batch, axes),
        epilogue_(epilogue) {
    panels_ = ceil_div(out.channels, kWidth);
    plan();
  }

  void run() {
    const Workspace workspace(packs_apart_ ? filters_size(panels_) * kSize : 0);
    float* const filters = workspace.as<float>();
    if (packs_apart_) {
      parallel_for(panels_ * units(), kGrain, [&](int64_t begin, int64_t end) {
        pack_filters(filters, 0, panels_, begin, end);
      });
    }
    const int64_t blocks = ceil_div(tiles_.count(), part_tiles_);
    parallel_for(blocks * panel_parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / panel_parts_ * part_tiles_;
        const int64_t panel = task % panel_parts_ * part_panels_;
        run_task({first, min_of(part_tiles_, tiles_.count() - first), panel,
                  min_of(part_panels_, panels_ - panel)},
                 filters);
      }
    });
  }

 private:
  static constexpr int64_t kSize = sizeof(float);
  static constexpr int64_t kWidth = 2 * kLanes<float>;  // columns of a panel
  static constexpr int64_t kTaskTiles = 4 * kMostRows;
  static constexpr int64_t kTasks = 16;            // so many, if panels can be shared out
  static constexpr int64_t kLeastPanels = 4;       // for which inputs are transformed again
  static constexpr int64_t kOwnPanels = 2;         // of a task that transforms its filters
  static constexpr int64_t kMostInputs = 1 << 23;  // bytes, of such a task
  static constexpr int64_t kPackedRows = 16;       // of a panel, transformed together
  static constexpr int64_t kGrain = 4;             // times these, worth a task

  // Tiles [first, first + count), panels [panel, panel + panels).
  struct Part {
    int64_t first, count, panel, panels;
  };

  void plan() {
    const int64_t tiles = tiles_.count(), input_bytes = kPlaces * tiles * in_.channels * kSize;
    packs_apart_ = tiles > out_.channels || input_bytes > kMostInputs;
    part_tiles_ = packs_apart_ ? even_part(tiles, kTaskTiles) : tiles;
    const int64_t tasks = ceil_div(tiles, part_tiles_);
    const int64_t most = max_of(kLeastPanels, panels_ * tasks / kTasks);
    part_panels_ = even_part(panels_, packs_apart_ ? most : kOwnPanels);
    panel_parts_ = ceil_div(panels_, part_panels_);
  }

  // Filters of some panels, (16, panels, channels, kWidth); places are a line apart, as in Places.
  int64_t place_step(int64_t panels) const { return panels * in_.channels * kWidth + 64 / kSize; }
  int64_t filters_size(int64_t panels) const { return kPlaces * place_step(panels); }
  int64_t units() const { return ceil_div(in_.channels, kPackedRows); }

  // Transforms units [begin, end) of panels [panel, panel + panels).
  void pack_filters(float* filters, int64_t panel, int64_t panels, int64_t begin,
                    int64_t end) const {
    alignas(64) float taps[kTapSide * kTapSide * kPackedRows * kWidth];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % units() * kPackedRows;
      const int64_t rows = min_of(kPackedRows, in_.channels - row);
      copy_taps(taps, panel + i / units(), row, rows);
      float* const to = filters + (i / units() * in_.channels + row) * kWidth;
      for (int64_t j = 0; j < rows * kWidth; j += kLanes<float>) {
        transform_filter(to + j, place_step(panels), taps + j);
      }
    }
  }

  // (3, 3, kPackedRows, kWidth): rows of a panel of each tap, as the tiles' inputs meet them
  void copy_taps(float* to, int64_t panel, int64_t row, int64_t rows) const {
    const int64_t cols = min_of(kWidth, out_.channels - panel * kWidth);
    if (cols < kWidth) __builtin_memset(to, 0, kTapSide * kTapSide * kPackedRows * kWidth * kSize);
    const float* const from =
        filter_.data + row * filter_.in_step + panel * kWidth * filter_.out_step;
    for (int64_t tap = 0; tap < kTapSide * kTapSide; ++tap, to += kPackedRows * kWidth) {
      const int64_t h = tap / kTapSide, w = tap % kTapSide;
      const float* const at = from + (is_adjoint_ ? kTapSide - 1 - h : h) * filter_.step[1] +
                              (is_adjoint_ ? kTapSide - 1 - w : w) * filter_.step[2];
      if (filter_.out_step == 1) {
        for (int64_t c = 0; c < rows; ++c) {
          __builtin_memcpy(to + c * kWidth, at + c * filter_.in_step, cols * kSize);
        }
      } else if (filter_.in_step == 1) {
        transpose(to, kWidth, reinterpret_cast<const char*>(at), filter_.out_step * kSize, cols,
                  rows);
      } else {
        for (int64_t j = 0; j < cols; ++j) {
          const float* const column = at + j * filter_.out_step;
          for (int64_t c = 0; c < rows; ++c) to[c * kWidth + j] = column[c * filter_.in_step];
        }
      }
    }
  }

  // to[place] = G g G^T
  static void transform_filter(float* to, int64_t place_step, const float* taps) {
    Four columns[kTapSide];
    for (int j = 0; j < kTapSide; ++j) {
      const auto tap = [&](int i) {
        return load(taps + (i * kTapSide + j) * kPackedRows * kWidth);
      };
      columns[j] = filter_transform(tap(0), tap(1), tap(2));
    }
    for (int i = 0; i < kSeenSide; ++i) {
      const Four line = filter_transform(columns[0].at[i], columns[1].at[i], columns[2].at[i]);
      for (int j = 0; j < kSeenSide; ++j) store(to + (i * kSeenSide + j) * place_step, line.at[j]);
    }
  }

  void run_task(const Part& part, const float* filters) const {
    const int64_t col = part.panel * kWidth;
    const int64_t cols = min_of(part.panels * kWidth, out_.channels - col);
    const int64_t in_size = Places::size(part.count, in_.channels);
    const int64_t sums_size = Places::size(part.count, cols);
    const int64_t own_size = packs_apart_ ? 0 : filters_size(part.panels);
    const Workspace workspace((in_size + sums_size + own_size + in_.channels) * kSize, kept_tile);
    float* const room = workspace.as<float>();
    const Places inputs(room, part.count, in_.channels), sums(room + in_size, part.count, cols);
    float *const own = room + in_size + sums_size, *const zeros = own + own_size;
    __builtin_memset(zeros, 0, in_.channels * kSize);
    transform_inputs(inputs, in_, {tiles_, part.first, part.count}, zeros);
    if (packs_apart_) {
      filters += part.panel * in_.channels * kWidth;
      multiply(part, inputs, filters, place_step(panels_), sums, cols);
    } else {
      pack_filters(own, part.panel, part.panels, 0, part.panels * units());
      multiply(part, inputs, own, place_step(part.panels), sums, cols);
    }
    transform_sums(part, sums, col, cols);
    if (epilogue_ != nullptr) finish(part, col, cols);
  }

  void multiply(const Part& part, const Places& inputs, const float* filters, int64_t place_step,
                const Places& sums, int64_t cols) const {
    const Cuts rows(part.count, kMostRows);
    for (int64_t place = 0; place < kPlaces; ++place) {
      const float* b = filters + place * place_step;
      for (int64_t j = 0; j < cols; j += kWidth, b += in_.channels * kWidth) {
        const Panels<float> panels = {inputs.data + place * inputs.step, b};
        multiply_block_rows({&panels, 1, in_.channels, inputs.row, 1, kWidth}, 0,
                            sums.data + place * sums.step + j, sums.row, rows,
                            min_of(kWidth, cols - j), false);
      }
    }
  }

  // The outputs: A^T m A of each tile's sums m.
  void transform_sums(const Part& part, const Places& sums, int64_t col, int64_t cols) const {
    TileCursor cursor(tiles_, part.first);
    for (int64_t t = 0; t < part.count; ++t, cursor.next()) {
      const float* const row = sums.data + t * sums.row;
      float* const to = out_.data + cursor.image * out_.batch_step + cursor.h * out_.step[1] +
                        cursor.w * out_.step[2] + col;
      const int64_t height = min_of(kTileSide, tiles_.height.out - cursor.h);
      const int64_t width = min_of(kTileSide, tiles_.width.out - cursor.w);
      for_each_vec<float>(cols, [&](int64_t c, auto lanes) NEEDLE_INLINE_LAMBDA {
        Two columns[kSeenSide];
#pragma GCC unroll 4
        for (int j = 0; j < kSeenSide; ++j) {
          const auto sum = [&](int i) NEEDLE_INLINE_LAMBDA {
            return lanes.load(row + (i * kSeenSide + j) * sums.step + c);
          };
          columns[j] = output_transform(sum(0), sum(1), sum(2), sum(3));
        }
#pragma GCC unroll 2
        for (int i = 0; i < kTileSide; ++i) {
          const Two line = output_transform(columns[0].at[i], columns[1].at[i], columns[2].at[i],
                                            columns[3].at[i]);
          if (i >= height) break;
          float* const at = to + i * out_.step[1] + c;
          lanes.store(at, line.at[0]);
          if (width > 1) lanes.store(at + out_.step[2], line.at[1]);
        }
      });
    }
  }

  // The epilogue on the outputs of a part: runs of tiles beside each other.
  void finish(const Part& part, int64_t col, int64_t cols) const {
    const int64_t across = tiles_.width.tiles(), step = out_.step[2];
    TileCursor cursor(tiles_, part.first);
    for (int64_t t = 0; t < part.count;) {
      const int64_t run = min_of(part.count - t, across - cursor.w / kTileSide);
      const int64_t width = min_of(run * kTileSide, tiles_.width.out - cursor.w);
      const int64_t height = min_of(kTileSide, tiles_.height.out - cursor.h);
      const int64_t lines = width == tiles_.width.out ? height : 1;  // beside each other
      for (int64_t i = 0; i < height; i += lines) {
        const int64_t at =
            cursor.image * out_.batch_step + (cursor.h + i) * out_.step[1] + cursor.w * step;
        run_on_block(*epilogue_, out_.data + at + col, step, at / step, lines * width, col, cols);
      }
      t += run;
      cursor = TileCursor(tiles_, part.first + t);
    }
  }

  Image<float> out_;
  Image<const float> in_;
  Filter<const float> filter_;
  bool is_adjoint_;
  WinogradTiles tiles_;
  const Epilogue* epilogue_;
  int64_t panels_, part_tiles_, part_panels_, panel_parts_;
  bool packs_apart_;  // the filters, before the tasks
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
