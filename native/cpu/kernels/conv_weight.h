// The adjoint of a convolution in its filter: for every tap, channels of x times channels of y,
// summed over the positions that meet through it.
//
// It is batch-reduce GEMM again: rows are x's channels, columns y's, and a panel is a run of
// positions along a line. Both operands are read where they are; only when lines are short they are
// copied first, images innermost (D, H, W, n, C), which makes runs n times longer. Positions are
// taken in chunks that stay in the second-level cache while all taps pass over them. Small filters
// are summed in segments of positions, large ones in tasks of taps and columns: either way, every
// sum is cut by shape and added in a fixed order.
#pragma once

#include "conv.h"

namespace needle {
namespace NEEDLE_ISA {
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
    unrolls_ = Unrolling::is_worth_it(axes[2], x.channels, groups);
    if (unrolls_) {
      unrolling_ = Unrolling(axes[2], x.channels);
      axes_[2] = unrolling_.axis();
      rows_ = unrolling_.channels();
    }
    cols_ = y.channels / groups;
    panels_ = ceil_div(cols_, kWidth);
  }

  void run() {
    const bool is_short = axes_[2].out < kShortLine && x_.batch > 1 && !unrolls_;
    if (!is_short && !unrolls_) return sum(false);
    const Image<const T> x = x_, y = y_;
    const int64_t line = unrolls_ ? unrolling_.line(axes_[2].out) : axes_[2].in * x.channels;
    const int64_t x_image = axes_[0].in * axes_[1].in * line;
    const int64_t y_line = is_short ? axes_[2].out * y.channels : 0;
    const int64_t image = max_of(1, x_image + axes_[0].out * axes_[1].out * y_line) * kSize;
    const int64_t most = min_of(x.batch, max_of(kRows, kPackedBytes / image));
    const Workspace workspace(image * most, kept_images);
    for (int64_t first = 0; first < x.batch; first += most) {
      const int64_t n = min_of(most, x.batch - first);
      T* const room = workspace.template as<T>();
      if (is_short) {
        images_ = n;
        x_ = side_by_side(x, first, {axes_[0].in, axes_[1].in, axes_[2].in}, room);
        y_ = side_by_side(y, first, {axes_[0].out, axes_[1].out, axes_[2].out}, room + x_image * n);
      } else {
        x_ = padded_lines(x, first, n, line, room);
        y_.data = y.data + first * y.batch_step;
      }
      sum(first > 0);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kWidth = 2 * kLanes<T>;  // columns of a block
  static constexpr int64_t kShortLine = 12;         // positions
  static constexpr int64_t kPackedBytes = 1 << 25;  // of images side by side
  static constexpr int64_t kChunk = 256;            // positions that a block of sums adds at once
  static constexpr int64_t kSmallFilter = 1 << 18;  // bytes of sums that stay in the cache
  static constexpr int64_t kTasks = 16;             // so many, if there is enough work:
  static constexpr int64_t kTaskWork = 1 << 20;     // multiplications worth a task

  // images_ images from `first` on as (D, H, W, n, C)
  Image<const T> side_by_side(const Image<const T>& image, int64_t first,
                              const int64_t (&shape)[kSpace], T* room) const {
    const int64_t channels = image.channels, place = images_ * channels;
    parallel_for(shape[0] * shape[1], 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const T* const from = image.data + first * image.batch_step +
                              line / shape[1] * image.step[0] + line % shape[1] * image.step[1];
        T* to = room + line * shape[2] * place;
        for (int64_t w = 0; w < shape[2]; ++w) {
          const T* source = from + w * image.step[2];
          for (int64_t n = 0; n < images_; ++n, to += channels, source += image.batch_step) {
            copy_run(to, source, channels);
          }
        }
      }
    });
    return {room, 1, channels, 0, {shape[1] * shape[2] * place, shape[2] * place, place}};
  }

  // `count` images from `first` on as (n, D, H, line), to be read unrolled
  Image<const T> padded_lines(const Image<const T>& image, int64_t first, int64_t count,
                              int64_t line, T* room) const {
    const int64_t height = axes_[1].in, lines = axes_[0].in * height;
    parallel_for(count * lines, max_of(1, (1 << 14) / line), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* const from = image.data + (first + i / lines) * image.batch_step +
                              i % lines / height * image.step[0] + i % height * image.step[1];
        unrolling_.copy_line(room + i * line, from, image.step[2], 0, axes_[2].out);
      }
    });
    return {room, count, rows_, lines * line, {height * line, line, unrolling_.step()}};
  }

  // The filter (+)= the sums over all positions.
  void sum(bool accumulate) {
    plan();
    if (segments_ == 1) {
      run_tasks(filter_, 0, accumulate);
      return;
    }
    const int64_t taps = axes_[0].taps * axes_[1].taps * axes_[2].taps;
    const int64_t row = groups_ * cols_, size = taps * rows_ * row;
    const Workspace workspace(segments_ * size * kSize);
    Filter<T> part = filter_;
    part.data = workspace.template as<T>();
    part.in_step = row;
    part.step[2] = rows_ * row;
    part.step[1] = axes_[2].taps * part.step[2];
    part.step[0] = axes_[1].taps * part.step[1];
    run_tasks(part, size, false);
    parallel_for(taps * rows_, max_of(1, (1 << 14) / row), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) add_segments(part.data + i * row, size, i, accumulate);
    });
  }

  // Row i of the filter (+)= the sum of its segments, in their order.
  void add_segments(const T* part, int64_t size, int64_t i, bool accumulate) const {
    const int64_t tap = i / rows_, w = tap % axes_[2].taps, rest = tap / axes_[2].taps;
    T* const to = filter_.data + rest / axes_[1].taps * filter_.step[0] +
                  rest % axes_[1].taps * filter_.step[1] + w * filter_.step[2] +
                  i % rows_ * filter_.in_step;
    for (int64_t j = 0; j < groups_ * cols_; ++j) {
      T total = part[j];
      for (int64_t s = 1; s < segments_; ++s) total += part[s * size + j];
      to[j] = accumulate ? to[j] + total : total;
    }
  }

  void plan() {
    const int64_t taps = axes_[0].taps * axes_[1].taps * axes_[2].taps;
    lines_ = x_.batch * axes_[0].out * axes_[1].out;
    const int64_t filter_size = taps * rows_ * cols_;
    const int64_t work = lines_ * images_ * axes_[2].out * filter_size * groups_;
    const int64_t wanted = max_of(1, min_of(kTasks, work / kTaskWork));
    const bool is_small = filter_size * kSize <= kSmallFilter;
    part_panels_ = panels_;
    tap_lines_ = is_small ? 1 : axes_[0].taps * axes_[1].taps;
    int64_t tasks = groups_ * tap_lines_;
    if (!is_small && tasks < wanted) {
      part_panels_ = ceil_div(panels_, ceil_div(wanted, tasks));
      tasks *= ceil_div(panels_, part_panels_);
    }
    segments_ = min_of(ceil_div(wanted, tasks), max_of(1, lines_));
    chunk_lines_ = max_of(1, kChunk / max_of(1, images_ * axes_[2].out));
    // With strides, the images of one position are a run; otherwise a whole line is.
    runs_per_line_ = images_ > 1 && axes_[2].stride > 1 ? axes_[2].out : 1;
  }

  void run_tasks(const Filter<T>& filter, int64_t segment_step, bool accumulate) {
    const int64_t panel_parts = ceil_div(panels_, part_panels_);
    parallel_for(
        segments_ * groups_ * tap_lines_ * panel_parts, 1, [&](int64_t begin, int64_t end) {
          Scratch<4096> scratch(chunk_lines_ * runs_per_line_ *
                                static_cast<int64_t>(sizeof(Panels<T>)));
          Panels<T>* const list = scratch.template as<Panels<T>>();
          for (int64_t task = begin; task < end; ++task) {
            int64_t rest = task;
            const int64_t panel = rest % panel_parts * part_panels_;
            rest /= panel_parts;
            const int64_t tap_line = rest % tap_lines_;
            rest /= tap_lines_;
            const int64_t group = rest % groups_, segment = rest / groups_;
            Filter<T> sums = filter;
            sums.data += segment * segment_step + group * cols_;
            const int64_t first = segment * lines_ / segments_;
            const int64_t last = (segment + 1) * lines_ / segments_;
            for (int64_t line = first; line < last || line == first; line += chunk_lines_) {
              add_chunk(sums, group, tap_line, panel, line, min_of(last, line + chunk_lines_), list,
                        accumulate || line > first);
            }
          }
        });
  }

  // Lines [line, last) of positions, added to all taps of the task.
  void add_chunk(const Filter<T>& sums, int64_t group, int64_t tap_line, int64_t panel,
                 int64_t line, int64_t last, Panels<T>* list, bool accumulate) const {
    const int64_t tap_lines = axes_[0].taps * axes_[1].taps;
    const int64_t first_tap = tap_lines_ == 1 ? 0 : tap_line;
    const int64_t last_tap = tap_lines_ == 1 ? tap_lines : tap_line + 1;
    for (int64_t tap = first_tap; tap < last_tap; ++tap) {
      const int64_t kd = tap / axes_[1].taps, kh = tap % axes_[1].taps;
      for (int64_t kw = 0; kw < axes_[2].taps; ++kw) {
        PanelSum<T> sum = list_runs(group, kd, kh, kw, line, last, list);
        T* const to = sums.data + kd * sums.step[0] + kh * sums.step[1] + kw * sums.step[2];
        for (int64_t p = panel; p < min_of(panels_, panel + part_panels_); ++p) {
          const int64_t col = p * kWidth, cols = min_of(kWidth, cols_ - col);
          const int64_t height = even_part(rows_, kRows);
          for (int64_t row = 0; row < rows_; row += height) {
            block_kernel<T>(min_of(height, rows_ - row), cols)(
                sum, row, col, to + row * sums.in_step + col, sums.in_step, accumulate);
          }
        }
      }
    }
  }

  // The runs of positions on lines [line, last) that meet through a tap.
  PanelSum<T> list_runs(int64_t group, int64_t kd, int64_t kh, int64_t kw, int64_t line,
                        int64_t last, Panels<T>* list) const {
    const TapAxis &depth = axes_[0], &height = axes_[1], &width = axes_[2];
    const int64_t shift = kw * width.dilation - width.padding;
    const int64_t first = max_of(0, -floor_div(shift, width.stride));
    const int64_t end = min_of(width.out, floor_div(width.in - 1 - shift, width.stride) + 1);
    const bool is_line = runs_per_line_ == 1;
    PanelSum<T> sum = {list, 0, 0, 1, 0, 0};
    sum.depth = is_line ? max_of(0, end - first) * images_ : images_;
    sum.a_col = images_ > 1 ? x_.channels : width.stride * x_.step[2];
    sum.b_row = images_ > 1 ? y_.channels : y_.step[2];
    int64_t h = line % height.out, d = line / height.out % depth.out;
    int64_t n = line / height.out / depth.out;
    for (; line < last && first < end; ++line, ++h) {
      if (h == height.out) {
        h = 0;
        if (++d == depth.out) d = 0, ++n;
      }
      const int64_t in_d = d * depth.stride + kd * depth.dilation - depth.padding;
      const int64_t in_h = h * height.stride + kh * height.dilation - height.padding;
      if (in_d < 0 || in_d >= depth.in || in_h < 0 || in_h >= height.in) continue;
      const T* a = x_.data + group * rows_ + n * x_.batch_step + in_d * x_.step[0] +
                   in_h * x_.step[1] + (first * width.stride + shift) * x_.step[2];
      const T* b = y_.data + group * cols_ + n * y_.batch_step + d * y_.step[0] + h * y_.step[1] +
                   first * y_.step[2];
      for (int64_t w = first; w < (is_line ? first + 1 : end); ++w) {
        list[sum.count++] = {a, b};
        a += width.stride * x_.step[2];
        b += y_.step[2];
      }
    }
    return sum;
  }

  Filter<T> filter_;
  Image<const T> x_, y_;
  TapAxis axes_[kSpace];
  int64_t groups_, rows_, cols_, panels_;  // of one group: channels of x, of y, panels of those
  int64_t images_ = 1;                     // side by side at each position
  int64_t lines_, chunk_lines_, runs_per_line_;
  int64_t segments_, tap_lines_, part_panels_;
  bool unrolls_;
  Unrolling unrolling_;
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
