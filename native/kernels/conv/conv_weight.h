// The adjoint of a convolution in its filter: for every tap, channels of x times channels of y,
// summed over the positions that meet through it.
//
// It is batch-reduce GEMM again: rows are x's channels, columns y's, and a panel is a run of
// positions along a line. A task owns a part of the filter (some rows and columns, all taps) and
// goes through positions in chunks: it copies a chunk of x and of y into panels of as many channels
// as a block of the product has rows and columns, where the runs of all taps are read side by side,
// from the first- and second-level cache. When lines are short, a chunk holds several images,
// innermost, (D, H, W, n, channels), which makes runs n times longer. Where the parts are fewer
// than the tasks that are wanted, positions are cut into segments too, whose sums are added in
// their order: every sum is cut by shape.
#pragma once

#include "conv.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
class TapWeight {
 public:
  // axes: from x (in) to y (out), not adjoint. filter.in_step is from channel to channel of x,
  // filter.out_step is 1.
  TapWeight(Filter<T> filter, Image<const T> x, Image<const T> y, const TapAxis (&axes)[kSpace],
            int64_t groups)
      : filter_(filter), x_(x), y_(y), groups_(groups) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
    rows_ = x.channels / groups;
    cols_ = y.channels / groups;
    unrolls_ = Unrolling::is_worth_it(axes[2], x.channels, groups);
    if (unrolls_) {
      unrolling_ = Unrolling(axes[2], x.channels);
      axes_[2] = unrolling_.axis();
      rows_ = unrolling_.channels();
    } else {
      merge_points(axes_, x_, y_);
    }
    plan();
  }

  void run() {
    sum_segments(filter_, axes_, rows_, groups_ * cols_, segments_,
                 [&](const Filter<T>& sums, int64_t step) { run_tasks(sums, step); });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kWidth = 2 * kLanes<T>;  // columns of a block
  static constexpr int64_t kPartRows = 256;         // most rows and columns of a task
  static constexpr int64_t kPartCols = 128;
  static constexpr int64_t kPartBytes = 1 << 18;   // of its sums
  static constexpr int64_t kChunk = 256;           // positions that a block adds at once
  static constexpr int64_t kChunkBytes = 1 << 18;  // of x and y at those, in the cache
  static constexpr int64_t kAhead = 8;             // positions, from prefetching to copying
  static constexpr int64_t kTasks = 16;            // so many, if there is enough work:
  static constexpr int64_t kTaskWork = 1 << 20;    // multiplications worth a task

  // What a task computes of the filter: channels of a group.
  struct Part {
    int64_t group, row, rows, col, cols;
  };

  // Positions of y in some images: [first, last) along each axis, and the inputs that they see.
  struct Chunk {
    int64_t image, images, first[kSpace], last[kSpace], in_first[kSpace], in_last[kSpace];
  };

  // A chunk in panels: of x by `pitch` channels, `x_step` apart; of y by kWidth, `y_step` apart.
  struct Packed {
    T *x, *y;
    int64_t pitch, x_step, y_step;
  };

  void plan() {
    taps_ = count_taps(axes_);
    part_cols_ = even_part(cols_, kPartCols, kWidth);
    const int64_t most_rows = kPartBytes / (taps_ * part_cols_ * kSize);
    part_rows_ = even_part(rows_, max_of(kMostRows, min_of(kPartRows, most_rows)));
    const int64_t room = kChunkBytes / ((part_rows_ + part_cols_) * kSize);
    const int64_t positions = max_of(kChunk / 2, min_of(kChunk, room));
    part_[0] = 1;
    part_[2] = even_part(axes_[2].out, positions);
    part_[1] = even_part(axes_[1].out, max_of(1, positions / part_[2]));
    const bool is_whole = part_[1] == axes_[1].out && !unrolls_;
    images_ = is_whole ? even_part(x_.batch, max_of(1, positions / (part_[1] * part_[2]))) : 1;
    chunks_ = ceil_div(x_.batch, images_);
    for (int d = 0; d < kSpace; ++d) chunks_ *= ceil_div(axes_[d].out, part_[d]);
    parts_ = groups_ * ceil_div(rows_, part_rows_) * ceil_div(cols_, part_cols_);
    const int64_t outputs = y_.batch * axes_[0].out * axes_[1].out * axes_[2].out;
    const int64_t work = outputs * taps_ * rows_ * cols_ * groups_;
    segments_ = min_of(chunks_, ceil_div(max_of(1, min_of(kTasks, work / kTaskWork)), parts_));
  }

  void run_tasks(const Filter<T>& filter, int64_t segment_step) const {
    parallel_for(segments_ * parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        Filter<T> sums = filter;
        sums.data += task / parts_ * segment_step;
        run_task(sums, part_of(task % parts_), task / parts_);
      }
    });
  }

  Part part_of(int64_t part) const {
    const int64_t across = ceil_div(cols_, part_cols_), down = ceil_div(rows_, part_rows_);
    const int64_t col = part % across * part_cols_, row = part / across % down * part_rows_;
    return {part / across / down, row, min_of(part_rows_, rows_ - row), col,
            min_of(part_cols_, cols_ - col)};
  }

  void run_task(const Filter<T>& sums, const Part& part, int64_t segment) const {
    const Cuts rows(part.rows, kMostRows);
    const int64_t positions = images_ * part_[1] * part_[2];
    Packed packed;
    packed.pitch = unrolls_ ? unrolling_.step() : rows.length(0);
    packed.x_step = most_inputs() * packed.pitch + kLanes<T>;
    packed.y_step = positions * kWidth;
    const int64_t x_size = unrolls_ ? most_inputs() / part_[2] * unrolling_.line(part_[2])
                                    : rows.count * packed.x_step;
    const int64_t y_size = ceil_div(part.cols, kWidth) * packed.y_step;
    const int64_t list_bytes = part_[1] * sizeof(Panels<T>);
    const Workspace workspace((x_size + y_size) * kSize + list_bytes, kept_tile);
    packed.y = workspace.template as<T>();
    Panels<T>* const list = reinterpret_cast<Panels<T>*>(packed.y + y_size);
    packed.x = reinterpret_cast<T*>(reinterpret_cast<char*>(list) + list_bytes);
    const int64_t first = segment * chunks_ / segments_;
    for (int64_t i = first; i < (segment + 1) * chunks_ / segments_; ++i) {
      const Chunk chunk = chunk_of(i);
      pack_x(chunk, part, rows, packed);
      pack_y(chunk, part, packed);
      add_chunk(sums, chunk, part, rows, packed, list, i > first);
    }
  }

  // Inputs that a chunk sees at most, as they are packed.
  int64_t most_inputs() const {
    int64_t most[kSpace];
    for (int d = 0; d < kSpace; ++d) {
      const TapAxis& axis = axes_[d];
      most[d] = min_of(axis.in, (part_[d] - 1) * axis.stride + (axis.taps - 1) * axis.dilation + 1);
    }
    return images_ * most[0] * most[1] * packed_inputs(most[2]);
  }

  // A line is packed by remainders: every stride-th input, then those after each of them, and so
  // on.
  int64_t remainders(int64_t inputs) const { return min_of(axes_[2].stride, inputs); }
  int64_t remainder_step(int64_t inputs) const { return ceil_div(inputs, axes_[2].stride); }
  int64_t packed_inputs(int64_t inputs) const {
    return remainders(inputs) * remainder_step(inputs);
  }

  Chunk chunk_of(int64_t i) const {
    Chunk chunk;
    for (int d = kSpace - 1; d >= 0; --d) {
      const TapAxis& axis = axes_[d];
      const int64_t parts = ceil_div(axis.out, part_[d]);
      chunk.first[d] = i % parts * part_[d];
      chunk.last[d] = min_of(axis.out, chunk.first[d] + part_[d]);
      chunk.in_first[d] = max_of(0, chunk.first[d] * axis.stride - axis.padding);
      chunk.in_last[d] = min_of(axis.in, (chunk.last[d] - 1) * axis.stride - axis.padding +
                                             (axis.taps - 1) * axis.dilation + 1);
      i /= parts;
    }
    chunk.image = i * images_;
    chunk.images = min_of(images_, x_.batch - chunk.image);
    return chunk;
  }

  // Is there a tap through which a chunk's outputs see this input?
  bool is_seen(const Chunk& chunk, int d, int64_t input) const {
    const TapAxis& axis = axes_[d];
    for (int64_t k = 0; k < axis.taps; ++k) {
      const int64_t distance = input + axis.padding - k * axis.dilation;
      const int64_t output = floor_div(distance, axis.stride);
      if (output * axis.stride != distance) continue;
      if (output >= chunk.first[d] && output < chunk.last[d]) return true;
    }
    return false;
  }

  int64_t line_step(const Chunk& chunk, const Packed& packed) const {
    const int64_t inputs = packed_inputs(chunk.in_last[2] - chunk.in_first[2]);
    return unrolls_ ? unrolling_.line(inputs) : inputs * chunk.images * packed.pitch;
  }

  // (panels, D, H, remainders, W, images, pitch), or (D, H, padded lines) to be read unrolled
  void pack_x(const Chunk& chunk, const Part& part, const Cuts& rows, const Packed& packed) const {
    if (chunk.in_first[2] >= chunk.in_last[2]) return;
    const int64_t step = line_step(chunk, packed);
    T* to = packed.x;
    for (int64_t d = chunk.in_first[0]; d < chunk.in_last[0]; ++d) {
      for (int64_t h = chunk.in_first[1]; h < chunk.in_last[1]; ++h, to += step) {
        if (!is_seen(chunk, 0, d) || !is_seen(chunk, 1, h)) continue;
        const T* const from =
            x_.data + chunk.image * x_.batch_step + d * x_.step[0] + h * x_.step[1];
        if (unrolls_) {
          unrolling_.copy_line(to, from, x_.step[2], chunk.first[2],
                               chunk.last[2] - chunk.first[2]);
        } else {
          pack_x_line(to, from + part.group * rows_ + part.row, chunk, rows, packed);
        }
      }
    }
  }

  void pack_x_line(T* line, const T* from, const Chunk& chunk, const Cuts& rows,
                   const Packed& packed) const {
    const int64_t stride = axes_[2].stride, inputs = chunk.in_last[2] - chunk.in_first[2];
    for (int64_t remainder = 0; remainder < remainders(inputs); ++remainder) {
      T* to = line + remainder * remainder_step(inputs) * chunk.images * packed.pitch;
      const int64_t first = chunk.in_first[2] + remainder;
      for (int64_t w = sees(first) ? first : chunk.in_last[2]; w < chunk.in_last[2]; w += stride) {
        const T* source = from + w * x_.step[2];
        for (int64_t n = 0; n < chunk.images; ++n, to += packed.pitch, source += x_.batch_step) {
          prefetch(source + kAhead * stride * x_.step[2], rows.start(rows.count) * kSize);
          for (int64_t r = 0; r < rows.count; ++r) {
            copy_over(to + r * packed.x_step, source + rows.start(r), rows.length(r));
          }
        }
      }
    }
  }

  // Does a tap meet inputs that are a multiple of the stride away?
  bool sees(int64_t input) const {
    const TapAxis& axis = axes_[2];
    for (int64_t k = 0; k < axis.taps; ++k) {
      if ((input + axis.padding - k * axis.dilation) % axis.stride == 0) return true;
    }
    return false;
  }

  // (panels, H, W, images, kWidth)
  void pack_y(const Chunk& chunk, const Part& part, const Packed& packed) const {
    const T* const from = y_.data + chunk.image * y_.batch_step + chunk.first[0] * y_.step[0] +
                          part.group * cols_ + part.col;
    T* to = packed.y;
    for (int64_t h = chunk.first[1]; h < chunk.last[1]; ++h) {
      for (int64_t w = chunk.first[2]; w < chunk.last[2]; ++w) {
        const T* source = from + h * y_.step[1] + w * y_.step[2];
        for (int64_t n = 0; n < chunk.images; ++n, to += kWidth, source += y_.batch_step) {
          T* panel = to;
          for (int64_t j = 0; j < part.cols; j += kWidth, panel += packed.y_step) {
            copy_over(panel, source + j, min_of(kWidth, part.cols - j));
          }
        }
      }
    }
  }

  // Whole vectors are written: what follows the run must be written later.
  static void copy_over(T* to, const T* from, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes<T> <= n; i += kLanes<T>) store(to + i, load(from + i));
    if (i < n) store(to + i, Lanes<T>(static_cast<int>(n - i)).load(from + i));
  }

  // Adds a chunk to the sums of all taps.
  void add_chunk(const Filter<T>& sums, const Chunk& chunk, const Part& part, const Cuts& rows,
                 const Packed& packed, Panels<T>* list, bool accumulate) const {
    const int64_t height = rows.length(0), tall = rows.longer == 0 ? rows.count : rows.longer;
    for (int64_t j = 0; j < part.cols; j += kWidth) {
      const int64_t cols = min_of(kWidth, part.cols - j), y_panel = j / kWidth * packed.y_step;
      const BlockKernel<T> tall_kernel = block_kernel<T>(height, cols);
      const BlockKernel<T> low_kernel = block_kernel<T>(max_of(1, height - 1), cols);
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const int64_t kw = tap % axes_[2].taps, rest = tap / axes_[2].taps;
        const int64_t kh = rest % axes_[1].taps, kd = rest / axes_[1].taps;
        const PanelSum<T> sum = list_runs(chunk, {kd, kh, kw}, packed, list);
        T* const to =
            sums.tap(kd, kh, kw) + part.row * sums.in_step + part.group * cols_ + part.col + j;
        for (int64_t r = 0; r < rows.count; ++r) {
          const int64_t x_panel = unrolls_ ? part.row + rows.start(r) : r * packed.x_step;
          (r < tall ? tall_kernel : low_kernel)(
              sum, x_panel, y_panel, to + rows.start(r) * sums.in_step, sums.in_step, accumulate);
        }
      }
    }
  }

  // The runs of a chunk's positions that meet through a tap.
  PanelSum<T> list_runs(const Chunk& chunk, const int64_t (&tap)[kSpace], const Packed& packed,
                        Panels<T>* list) const {
    const TapAxis& width = axes_[2];
    const int64_t images = chunk.images, shift = tap[2] * width.dilation - width.padding;
    const int64_t first = max_of(chunk.first[2], -floor_div(shift, width.stride));
    const int64_t inside = floor_div(width.in - 1 - shift, width.stride) + 1;
    const int64_t last = min_of(chunk.last[2], inside);
    PanelSum<T> sum = {list, 0, max_of(0, last - first) * images, 1, packed.pitch, kWidth};
    const int64_t d = input(0, chunk.first[0], tap[0]);
    if (first >= last || d < 0 || d >= axes_[0].in) return sum;
    const int64_t lines = chunk.in_last[1] - chunk.in_first[1];
    const int64_t start = first * width.stride + shift - chunk.in_first[2];
    const int64_t inputs = chunk.in_last[2] - chunk.in_first[2];
    const int64_t place = start % width.stride * remainder_step(inputs) + start / width.stride;
    const T* const x = packed.x + place * images * packed.pitch;
    const T* const y = packed.y + (first - chunk.first[2]) * images * kWidth;
    const int64_t x_line = line_step(chunk, packed);
    const int64_t y_line = (chunk.last[2] - chunk.first[2]) * images * kWidth;
    for (int64_t h = chunk.first[1]; h < chunk.last[1]; ++h) {
      const int64_t in_h = input(1, h, tap[1]);
      if (in_h < 0 || in_h >= axes_[1].in) continue;
      const int64_t line = (d - chunk.in_first[0]) * lines + in_h - chunk.in_first[1];
      list[sum.count++] = {x + line * x_line, y + (h - chunk.first[1]) * y_line};
    }
    return sum;
  }

  // The input that an output meets through a tap.
  int64_t input(int d, int64_t output, int64_t tap) const {
    return output * axes_[d].stride + tap * axes_[d].dilation - axes_[d].padding;
  }

  Filter<T> filter_;
  Image<const T> x_, y_;
  TapAxis axes_[kSpace];
  int64_t groups_, rows_, cols_, taps_;     // rows and columns of a group: channels of x, of y
  int64_t part_rows_, part_cols_, parts_;   // of the filter, a task each
  int64_t images_, part_[kSpace], chunks_;  // images and positions of a chunk
  int64_t segments_;
  bool unrolls_;
  Unrolling unrolling_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
