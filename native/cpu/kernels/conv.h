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

#include "gemm.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int kSpace = 3;

// What threads keep between tasks and calls, beside the workspace of the call itself.
thread_local Memory kept_tile, kept_images;

constexpr int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

struct Tap {
  int64_t place;  // in the filter
  int64_t shift;
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
        taps[n++] = {place, shift};
        lowest = min_of(lowest, shift);
        highest = max_of(highest, shift);
      }
    }
    starts[axis.phases()] = n;
    if (n == 0) lowest = highest = 0;
  }

  const Tap* begin(int64_t phase) const { return taps_ + starts_[phase]; }
  const Tap* end(int64_t phase) const { return taps_ + starts_[phase + 1]; }

  // Does some tap see inputs whose distance from the lowest one has this remainder?
  bool sees(int64_t remainder, int64_t step, int64_t phases) const {
    for (const Tap* tap = begin(0); tap != end(phases - 1); ++tap) {
      if ((tap->shift - lowest) % step == remainder) return true;
    }
    return false;
  }

  int64_t lowest, highest;  // shifts

 private:
  const Tap* taps_;
  const int64_t* starts_;
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
};

// Images of few channels, seen through filters that are several taps wide, are unrolled when they
// are copied: each output along the width gets the inputs of its taps side by side. What is left is
// a filter one tap wide, whose channels are (KW, C).
constexpr int64_t kFewChannels = 4;

inline bool unrolls_width(const TapAxis (&axes)[kSpace], int64_t channels, int64_t groups) {
  return !axes[2].is_adjoint && groups == 1 && channels <= kFewChannels && axes[2].taps > 1;
}

inline TapAxis unrolled(const TapAxis& width) { return {width.out, width.out, 1, 1, 0, 1, false}; }

template <class T>
void copy_run(T* to, const T* from, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store(to + i, load(from + i));
  if (i == n) return;
  const Lanes<T> lanes(static_cast<int>(n - i));
  lanes.store(to + i, lanes.load(from + i));
}

// What output w sees of a line (positions `step` apart), tap by tap: (KW, C), zeros outside.
template <class T>
void copy_window(T* to, const T* line, int64_t step, const TapAxis& width, int64_t w,
                 int64_t channels) {
  const int64_t start = w * width.stride - width.padding;
  if (width.dilation == 1 && step == channels) {
    const int64_t first = min_of(max_of(0, -start), width.taps);
    const int64_t last = max_of(first, min_of(width.taps, width.in - start));
    for (int64_t i = 0; i < first * channels; ++i) to[i] = 0;
    copy_run(to + first * channels, line + (start + first) * step, (last - first) * channels);
    for (int64_t i = last * channels; i < width.taps * channels; ++i) to[i] = 0;
    return;
  }
  for (int64_t k = 0; k < width.taps; ++k, to += channels) {
    const int64_t place = start + k * width.dilation;
    const bool is_inside = place >= 0 && place < width.in;
    for (int64_t c = 0; c < channels; ++c) to[c] = is_inside ? line[place * step + c] : T(0);
  }
}

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
