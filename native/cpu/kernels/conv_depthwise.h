// Depthwise convolution: one filter for each channel, so vectors of channels take the place of
// matrices. A block of outputs along a line is a sum over taps of vectors times vectors.
#pragma once

#include "conv.h"

namespace needle {
namespace NEEDLE_ISA {
namespace {

constexpr int64_t kDepthwiseGrain = 1 << 16;  // products worth a task

// The filter's taps (KD KH KW, C), compact.
template <class T>
void pack_taps(T* to, const Filter<const T>& filter, const TapAxis (&axes)[kSpace],
               int64_t channels) {
  for (int64_t d = 0; d < axes[0].taps; ++d) {
    for (int64_t h = 0; h < axes[1].taps; ++h) {
      for (int64_t w = 0; w < axes[2].taps; ++w, to += channels) {
        const T* const from =
            filter.data + d * filter.step[0] + h * filter.step[1] + w * filter.step[2];
        for (int64_t c = 0; c < channels; ++c) to[c] = from[c * filter.out_step];
      }
    }
  }
}

// out[i][c] = sum over the list of a[i * in_step + c] * b[c], for i < Outputs and Vecs vectors of c
template <class T, int Outputs, int Vecs>
[[gnu::always_inline]] inline void add_vecs(const Panels<T>* list, int64_t count, int64_t in_step,
                                            T* out, int64_t out_step, int64_t c) {
  Vec<T> acc[Outputs][Vecs] = {};
  for (int64_t p = 0; p < count; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const Vec<T> weight = load(list[p].b + c + v * kLanes<T>);
      const T* a = list[p].a + c + v * kLanes<T>;
#pragma GCC unroll 8
      for (int i = 0; i < Outputs; ++i, a += in_step) {
        acc[i][v] = multiply_add(load(a), weight, acc[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Outputs; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) store(out + i * out_step + c + v * kLanes<T>, acc[i][v]);
  }
}

// The same for all channels.
template <class T, int Outputs>
void add_taps(const Panels<T>* list, int64_t count, int64_t in_step, T* out, int64_t out_step,
              int64_t channels) {
  constexpr int kVecs = Outputs < 4 ? 4 / Outputs : 1;  // sums that do not wait for each other
  int64_t c = 0;
  for (; c + kVecs * kLanes<T> <= channels; c += kVecs * kLanes<T>) {
    add_vecs<T, Outputs, kVecs>(list, count, in_step, out, out_step, c);
  }
  for (; c + kLanes<T> <= channels; c += kLanes<T>) {
    add_vecs<T, Outputs, 1>(list, count, in_step, out, out_step, c);
  }
  if (c == channels) return;
  const Lanes<T> lanes(static_cast<int>(channels - c));
  for (int i = 0; i < Outputs; ++i) {
    Vec<T> acc = {};
    for (int64_t p = 0; p < count; ++p) {
      acc = multiply_add(lanes.load(list[p].a + i * in_step + c), lanes.load(list[p].b + c), acc);
    }
    lanes.store(out + i * out_step + c, acc);
  }
}

template <class T>
using AddTaps = void (*)(const Panels<T>* list, int64_t count, int64_t in_step, T* out,
                         int64_t out_step, int64_t channels);

constexpr int kMostOutputs = 8;  // summed at once

// add_taps for 1 to kMostOutputs outputs
template <class T, int Outputs = kMostOutputs>
AddTaps<T> taps_adder(int64_t outputs) {
  if constexpr (Outputs > 1) {
    if (outputs != Outputs) return taps_adder<T, Outputs - 1>(outputs);
  }
  return add_taps<T, Outputs>;
}

// A depthwise convolution or its adjoint in the data.
template <class T>
class DepthwiseConv {
 public:
  DepthwiseConv(Image<T> out, Image<const T> in, const TapAxis (&axes)[kSpace])
      : out_(out), in_(in) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
  }

  void run(const Filter<const T>& filter) {
    const int64_t taps = axes_[0].taps * axes_[1].taps * axes_[2].taps;
    const Workspace workspace(taps * out_.channels * static_cast<int64_t>(sizeof(T)));
    taps_ = workspace.template as<T>();
    pack_taps(workspace.template as<T>(), filter, axes_, out_.channels);
    const int64_t lines = out_.batch * axes_[0].out * axes_[1].out;
    const int64_t work = max_of(1, axes_[2].out * taps * out_.channels);
    parallel_for(lines, max_of(1, kDepthwiseGrain / work), [&](int64_t begin, int64_t end) {
      Scratch<4096> scratch(taps * static_cast<int64_t>(sizeof(Panels<T>)));
      for (int64_t line = begin; line < end; ++line) {
        run_line(line, scratch.template as<Panels<T>>());
      }
    });
  }

 private:
  void run_line(int64_t line, Panels<T>* list) const {
    const int64_t h = line % axes_[1].out, rest = line / axes_[1].out;
    const int64_t d = rest % axes_[0].out, n = rest / axes_[0].out;
    const T* const in = in_.data + n * in_.batch_step;
    T* const out = out_.data + n * out_.batch_step + d * out_.step[0] + h * out_.step[1];
    const TapAxis& width = axes_[2];
    const int64_t in_step = width.in_step() * in_.step[2];
    const int64_t out_step = width.out_step() * out_.step[2];
    for (int64_t phase = 0; phase < width.phases(); ++phase) {
      const int64_t count = width.count(phase);
      int64_t first, last;  // outputs of the phase whose taps are all inside
      inner_outputs(phase, &first, &last);
      const auto run = [&](int64_t j, int64_t outputs) {
        T* const to = out + (phase + j * width.out_step()) * out_.step[2];
        const int64_t n_taps = list_taps(in, d, h, phase, j, list);
        const int64_t lowest = width.is_adjoint ? 0 : n_taps - 1;
        if (n_taps > 0) prefetch_below(list[lowest].a, outputs * in_step);
        taps_adder<T>(outputs)(list, n_taps, in_step, to, out_step, out_.channels);
      };
      for (int64_t j = 0; j < first; ++j) run(j, 1);
      const Cuts cuts(last - first, kMostOutputs);
      for (int64_t i = 0; i < cuts.count; ++i) run(first + cuts.start(i), cuts.length(i));
      for (int64_t j = last; j < count; ++j) run(j, 1);
    }
  }

  // Of the line of inputs that the next line of outputs sees first.
  void prefetch_below(const T* last_input, int64_t n) const {
    const T* const below = last_input + in_.step[1];
    for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(T))) {
      __builtin_prefetch(below + i);
    }
  }

  void inner_outputs(int64_t phase, int64_t* first, int64_t* last) const {
    const TapAxis& width = axes_[2];
    *first = 0;
    *last = width.count(phase);
    for (int64_t place = 0; place < width.taps; ++place) {
      int64_t shift;
      if (!width.meets(phase, place, &shift)) continue;
      *first = max_of(*first, -floor_div(shift, width.in_step()));
      *last = min_of(*last, floor_div(width.in - 1 - shift, width.in_step()) + 1);
    }
    *first = min_of(*first, width.count(phase));
    *last = max_of(*last, *first);
  }

  // What output j of a line's phase sees inside the input, and the weights that it has there.
  int64_t list_taps(const T* in, int64_t d, int64_t h, int64_t phase, int64_t j,
                    Panels<T>* list) const {
    int64_t count = 0, in_d, in_h, in_w;
    for (int64_t kd = 0; kd < axes_[0].taps; ++kd) {
      if (!sees(axes_[0], d, kd, &in_d)) continue;
      for (int64_t kh = 0; kh < axes_[1].taps; ++kh) {
        if (!sees(axes_[1], h, kh, &in_h)) continue;
        for (int64_t kw = 0; kw < axes_[2].taps; ++kw) {
          if (!sees(axes_[2], phase + j * axes_[2].out_step(), kw, &in_w)) continue;
          const int64_t tap = (kd * axes_[1].taps + kh) * axes_[2].taps + kw;
          list[count].a = in + in_d * in_.step[0] + in_h * in_.step[1] + in_w * in_.step[2];
          list[count++].b = taps_ + tap * out_.channels;
        }
      }
    }
    return count;
  }

  static bool sees(const TapAxis& axis, int64_t output, int64_t place, int64_t* input) {
    int64_t shift;
    const int64_t phase = output % axis.out_step();
    if (!axis.meets(phase, place, &shift)) return false;
    *input = output / axis.out_step() * axis.in_step() + shift;
    return *input >= 0 && *input < axis.in;
  }

  Image<T> out_;
  Image<const T> in_;
  TapAxis axes_[kSpace];
  const T* taps_;
};

// The adjoint in the filter: sums over segments of lines, added in their order.
template <class T>
class DepthwiseWeight {
 public:
  DepthwiseWeight(Image<const T> x, Image<const T> y, const TapAxis (&axes)[kSpace])
      : x_(x), y_(y) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
  }

  void run(const Filter<T>& filter) const {
    const int64_t taps = axes_[0].taps * axes_[1].taps * axes_[2].taps;
    const int64_t lines = x_.batch * axes_[0].out * axes_[1].out, size = taps * x_.channels;
    const int64_t work = lines * axes_[2].out * size;
    const int64_t segments = max_of(1, min_of(min_of(kSegments, lines), work / kDepthwiseGrain));
    const Workspace workspace(segments * size * static_cast<int64_t>(sizeof(T)));
    T* const sums = workspace.template as<T>();
    __builtin_memset(sums, 0, segments * size * sizeof(T));
    parallel_for(segments, 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        for (int64_t line = s * lines / segments; line < (s + 1) * lines / segments; ++line) {
          add_line(line, sums + s * size);
        }
      }
    });
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t w = tap % axes_[2].taps, rest = tap / axes_[2].taps;
      T* const to = filter.data + rest / axes_[1].taps * filter.step[0] +
                    rest % axes_[1].taps * filter.step[1] + w * filter.step[2];
      for (int64_t c = 0; c < x_.channels; ++c) {
        const T* const part = sums + tap * x_.channels + c;
        T total = part[0];
        for (int64_t s = 1; s < segments; ++s) total += part[s * size];
        to[c * filter.out_step] = total;
      }
    }
  }

 private:
  static constexpr int64_t kSegments = 16;
  static constexpr int kVecs = 4;  // of channels, summed at once

  void add_line(int64_t line, T* sums) const {
    const int64_t h = line % axes_[1].out, rest = line / axes_[1].out;
    const int64_t d = rest % axes_[0].out, n = rest / axes_[0].out;
    const T* const y = y_.data + n * y_.batch_step + d * y_.step[0] + h * y_.step[1];
    for (int64_t kd = 0; kd < axes_[0].taps; ++kd) {
      const int64_t in_d = d * axes_[0].stride + kd * axes_[0].dilation - axes_[0].padding;
      if (in_d < 0 || in_d >= axes_[0].in) continue;
      for (int64_t kh = 0; kh < axes_[1].taps; ++kh) {
        const int64_t in_h = h * axes_[1].stride + kh * axes_[1].dilation - axes_[1].padding;
        if (in_h < 0 || in_h >= axes_[1].in) continue;
        const T* const x = x_.data + n * x_.batch_step + in_d * x_.step[0] + in_h * x_.step[1];
        const int64_t tap = (kd * axes_[1].taps + kh) * axes_[2].taps;
        for (int64_t kw = 0; kw < axes_[2].taps; ++kw) {
          add_run(x, y, kw, sums + (tap + kw) * x_.channels);
        }
      }
    }
  }

  // sums[c] += the products of x and y that meet through tap kw on a line
  void add_run(const T* x, const T* y, int64_t kw, T* sums) const {
    const TapAxis& width = axes_[2];
    const int64_t shift = kw * width.dilation - width.padding;
    const int64_t first = max_of(0, -floor_div(shift, width.stride));
    const int64_t end = min_of(width.out, floor_div(width.in - 1 - shift, width.stride) + 1);
    if (first >= end) return;
    x += (first * width.stride + shift) * x_.step[2];
    y += first * y_.step[2];
    const int64_t x_step = width.stride * x_.step[2];
    int64_t c = 0;
    for (; c + kVecs * kLanes<T> <= x_.channels; c += kVecs * kLanes<T>) {
      Vec<T> acc[kVecs] = {};
      for (int64_t i = 0; i < end - first; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < kVecs; ++v) {
          const int64_t at = c + v * kLanes<T>;
          acc[v] = multiply_add(load(x + i * x_step + at), load(y + i * y_.step[2] + at), acc[v]);
        }
      }
      for (int v = 0; v < kVecs; ++v) {
        T* const sum = sums + c + v * kLanes<T>;
        store(sum, load(sum) + acc[v]);
      }
    }
    for (; c < x_.channels; c += kLanes<T>) {
      const Lanes<T> lanes(static_cast<int>(min_of(kLanes<T>, x_.channels - c)));
      Vec<T> acc = {};
      for (int64_t i = 0; i < end - first; ++i) {
        acc = multiply_add(lanes.load(x + i * x_step + c), lanes.load(y + i * y_.step[2] + c), acc);
      }
      lanes.store(sums + c, lanes.load(sums + c) + acc);
    }
  }

  Image<const T> x_, y_;
  TapAxis axes_[kSpace];
};

}  // namespace
}  // namespace NEEDLE_ISA
}  // namespace needle
