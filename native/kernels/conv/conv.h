// The geometry of convolutions: which input each tap of a filter sees from each output.
//
// Everything has three spatial axes (depth, height, width); those that an operand lacks have size
// 1. One axis at a time, an output q meets through tap k the input
//
//     q * stride + k * dilation - padding                       of a convolution, and
//     (q + padding - k * dilation) / stride, if that is whole   of its adjoint in the data.
//
// The adjoint's outputs therefore fall into `stride` phases (q modulo stride) that use different
// taps; inside a phase both are the same thing: output j of the phase meets, through each of its
// taps, input j * in_step + shift.
#pragma once

#include "kernels/gemm/gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int kSpace = 3;

// What threads keep between tasks and calls, beside the workspace of the call itself.
thread_local Memory kept_tile;

constexpr int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

struct Tap {
  int64_t place;  // in the filter
  int64_t shift;
  int64_t index, remainder;  // shift - lowest shift = index * in_step + remainder
};

// One axis of a convolution (or of its adjoint).
struct TapAxis {
  int64_t in, out, taps;  // sizes: of what is read, of what is written, of the filter
  int64_t stride, padding, dilation;
  bool is_adjoint;

  int64_t phases() const { return is_adjoint ? min_of(stride, max_of(out, 1)) : 1; }
  int64_t in_step() const { return is_adjoint ? 1 : stride; }
  int64_t out_step() const { return is_adjoint ? stride : 1; }

  // How many outputs a phase has; they lie out_step apart, the first one at `phase`.
  int64_t count(int64_t phase) const { return ceil_div(out - phase, out_step()); }

  bool meets(int64_t phase, int64_t place, int64_t* shift) const {
    if (!is_adjoint) {
      *shift = place * dilation - padding;
      return true;
    }
    const int64_t distance = phase + padding - place * dilation;
    *shift = floor_div(distance, stride);
    return *shift * stride == distance;
  }

  // Is there an output of the phase whose input is inside?
  bool is_inside(int64_t phase, int64_t shift) const {
    const int64_t first = max_of(0, -floor_div(shift, in_step()));
    return first < count(phase) && first * in_step() + shift < in;
  }
};

// The taps of an axis, phase by phase, without those that only ever see padding.
class TapTable {
 public:
  // `taps` and `starts` have room for axis.taps and axis.phases() + 1 entries.
  void fill(const TapAxis& axis, Tap* taps, int64_t* starts) {
    taps_ = taps;
    starts_ = starts;
    int64_t n = 0;
    lowest = INT64_MAX;
    highest = INT64_MIN;
    for (int64_t phase = 0; phase < axis.phases(); ++phase) {
      starts[phase] = n;
      for (int64_t place = 0; place < axis.taps; ++place) {
        int64_t shift;
        if (!axis.meets(phase, place, &shift) || !axis.is_inside(phase, shift)) continue;
        taps[n++] = {place, shift, 0, 0};
        lowest = min_of(lowest, shift);
        highest = max_of(highest, shift);
      }
    }
    starts[axis.phases()] = count_ = n;
    if (n == 0) lowest = highest = 0;
    for (int64_t i = 0; i < n; ++i) {
      taps[i].index = (taps[i].shift - lowest) / axis.in_step();
      taps[i].remainder = (taps[i].shift - lowest) % axis.in_step();
    }
  }

  const Tap* begin(int64_t phase) const { return taps_ + starts_[phase]; }
  const Tap* end(int64_t phase) const { return taps_ + starts_[phase + 1]; }

  bool has(int64_t place) const {
    for (int64_t i = 0; i < count_; ++i) {
      if (taps_[i].place == place) return true;
    }
    return false;
  }

  // Does some tap see inputs whose distance from the lowest one has this remainder?
  bool sees(int64_t remainder) const {
    for (int64_t i = 0; i < count_; ++i) {
      if (taps_[i].remainder == remainder) return true;
    }
    return false;
  }

  int64_t lowest, highest;  // shifts

 private:
  const Tap* taps_;
  const int64_t* starts_;
  int64_t count_;
};

// (N, D, H, W, C) with contiguous channels; steps count elements.
template <class T>
struct Image {
  T* data;
  int64_t batch, channels;
  int64_t batch_step, step[kSpace];
};

// (KD, KH, KW, in, out) with any steps.
template <class T>
struct Filter {
  T* data;
  int64_t step[kSpace], in_step, out_step;

  T* tap(int64_t d, int64_t h, int64_t w) const {
    return data + d * step[0] + h * step[1] + w * step[2];
  }
  T* tap(const TapAxis (&axes)[kSpace], int64_t number) const {
    const int64_t w = number % axes[2].taps, rest = number / axes[2].taps;
    return tap(rest / axes[1].taps, rest % axes[1].taps, w);
  }
};

inline int64_t count_taps(const TapAxis (&axes)[kSpace]) {
  return axes[0].taps * axes[1].taps * axes[2].taps;
}

template <class T>
void copy_run(T* to, const T* from, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store(to + i, load(from + i));
  if (i == n) return;
  const Lanes<T> lanes(static_cast<int>(n - i));
  lanes.store(to + i, lanes.load(from + i));
}

// A filter with `rows` x `cols` numbers for each tap as the sum of segments, in their order. `run`
// gets the first segment and the distance from each to the next; their rows are contiguous.
template <class T, class F>
void sum_segments(const Filter<T>& filter, const TapAxis (&axes)[kSpace], int64_t rows,
                  int64_t cols, int64_t segments, const F& run) {
  if (segments == 1) return run(filter, 0);
  const int64_t tap = rows * cols, size = count_taps(axes) * tap;
  const Workspace workspace(segments * size * static_cast<int64_t>(sizeof(T)));
  T* const parts = workspace.template as<T>();
  const int64_t line = axes[2].taps * tap;
  run(Filter<T>{parts, {axes[1].taps * line, line, tap}, cols, 1}, size);
  parallel_for(size / cols, max_of(1, (1 << 14) / cols), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const part = parts + i * cols;
      T* const to = filter.tap(axes, i / rows) + i % rows * filter.in_step;
      copy_run(to, part, cols);
      for (int64_t s = 1; s < segments; ++s) {
#pragma GCC ivdep
        for (int64_t j = 0; j < cols; ++j) to[j] += part[s * size + j];
      }
    }
  });
}

// n things in as few parts of at most `most` as possible, whose lengths differ by one at most: the
// first `longer` parts have size + 1, the others size.
struct Cuts {
  int64_t count, size, longer;

  Cuts(int64_t n, int64_t most)
      : count(ceil_div(n, most)), size(n / max_of(1, count)), longer(n - size * count) {}

  int64_t start(int64_t i) const { return i * size + min_of(i, longer); }
  int64_t length(int64_t i) const { return i < longer ? size + 1 : size; }
};

// Filters of one tap see whole images as one long line, if these are stored as one.
template <class A, class B>
void merge_points(TapAxis (&axes)[kSpace], Image<A>& in, Image<B>& out) {
  for (const TapAxis& a : axes) {
    if (a.taps != 1 || a.stride != 1 || a.padding != 0 || a.in != a.out) return;
  }
  const int64_t d = axes[0].in, h = axes[1].in, w = axes[2].in;
  const auto is_line = [&](const auto& image) {
    const int64_t* const s = image.step;
    return (h == 1 || s[1] == w * s[2]) && (d == 1 || s[0] == w * h * s[2]) &&
           (image.batch == 1 || image.batch_step == w * h * d * s[2]);
  };
  if (!is_line(in) || !is_line(out)) return;
  axes[2].in = axes[2].out = in.batch * d * h * w;
  axes[0].in = axes[0].out = axes[1].in = axes[1].out = 1;
  in.batch = out.batch = 1;
}

// Few channels, and filters several taps wide: the inputs of an output's taps along the width lie
// side by side, (KW, C). They are read as the channels of a filter one tap wide, from a copy of the
// line with its padding; those of the next output start `stride` positions later.
constexpr int64_t kFewChannels = 4;

class Unrolling {
 public:
  Unrolling() = default;
  Unrolling(const TapAxis& width, int64_t channels) : width_(width), channels_(channels) {}

  static bool is_worth_it(const TapAxis& width, int64_t channels, int64_t groups) {
    return !width.is_adjoint && groups == 1 && channels <= kFewChannels && width.taps > 1 &&
           width.dilation == 1;
  }

  TapAxis axis() const { return {width_.out, width_.out, 1, 1, 0, 1, false}; }
  int64_t channels() const { return width_.taps * channels_; }
  int64_t step() const { return width_.stride * channels_; }
  int64_t line(int64_t outputs) const { return (outputs - 1) * step() + channels(); }

  // What `outputs` outputs from `first` on see of a line whose positions are `from_step` apart.
  template <class T>
  void copy_line(T* to, const T* from, int64_t from_step, int64_t first, int64_t outputs) const {
    const int64_t start = first * width_.stride - width_.padding;
    const int64_t end = start + (outputs - 1) * width_.stride + width_.taps;
    const int64_t inside = min_of(max_of(start, 0), end);
    const int64_t last = max_of(inside, min_of(end, width_.in));
    for (int64_t i = 0; i < (inside - start) * channels_; ++i) to[i] = 0;
    T* const middle = to + (inside - start) * channels_;
    if (from_step == channels_) {
      copy_run(middle, from + inside * from_step, (last - inside) * channels_);
    } else {
      for (int64_t i = 0; i < last - inside; ++i) {
        for (int64_t c = 0; c < channels_; ++c) {
          middle[i * channels_ + c] = from[(inside + i) * from_step + c];
        }
      }
    }
    for (int64_t i = (last - start) * channels_; i < (end - start) * channels_; ++i) to[i] = 0;
  }

 private:
  TapAxis width_;
  int64_t channels_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
