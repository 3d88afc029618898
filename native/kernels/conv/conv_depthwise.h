// Depthwise convolution: one filter for each channel, so vectors of channels take the place of
// matrices. A block of outputs along a line is a sum over taps of vectors times vectors.
//
// Groups of few channels, `Per` in and out, are the same with Per terms for each tap: a vector
// holds several groups, and in term j every channel meets the j-th input of its group.
#pragma once

#include <utility>

#include "conv.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kDepthwiseGrain = 1 << 16;  // products worth a task
constexpr int64_t kPacked = 1 << 13;          // weights worth one

// What every lane's group of `Per` lanes has in its j-th.
template <int Per, int J, class V, int... I>
NEEDLE_INLINE V spread_member(V v, std::integer_sequence<int, I...>) {
  if constexpr (Per == 1) {
    return v;
  } else {
    typedef int32_t Places __attribute__((vector_size(sizeof(V))));  // of floats
    return __builtin_shuffle(v, Places{(I / Per * Per + J)...});
  }
}

// sums[j] += the j-th of each group in x, times w[j]
template <class T, int Per, int J = 0>
NEEDLE_INLINE void add_members(Vec<T> x, const Vec<T>* w, Vec<T>* sums, int step) {
  const Vec<T> spread = spread_member<Per, J>(x, std::make_integer_sequence<int, kLanes<T>>{});
  sums[J * step] = multiply_add(spread, w[J], sums[J * step]);
  if constexpr (J + 1 < Per) add_members<T, Per, J + 1>(x, w, sums, step);
}

// The filter's taps (KD KH KW, Per, C), compact: row j is what channels do with the j-th input.
template <class T, int Per>
void pack_taps(T* to, const Filter<const T>& filter, const TapAxis (&axes)[kSpace],
               int64_t channels) {
  const int64_t taps = count_taps(axes), grain = kPacked / channels;
  parallel_for(taps * Per, max_of(1, grain), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t j = row % Per;
      const T* const from = filter.tap(axes, row / Per);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t in = axes[2].is_adjoint ? c % Per : j, out = c - c % Per + j;
        to[row * channels + c] =
            from[in * filter.in_step + (axes[2].is_adjoint ? out : c) * filter.out_step];
      }
    }
  });
}

// out[i][c] = sum over the list of a[i * in_step + group(c) + j] * b[j][c], j < Per, for i <
// Outputs and Vecs vectors of c; b's rows are `channels` long.
template <class T, int Per, int Outputs, int Vecs, class L>
NEEDLE_INLINE void add_vecs(const Panels<T>* list, int64_t count, int64_t in_step, T* out,
                            int64_t out_step, int64_t c, int64_t channels, const L& lanes) {
  Vec<T> acc[Outputs][Vecs] = {};
  for (int64_t p = 0; p < count; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) {
      const int64_t at = c + v * kLanes<T>;
      Vec<T> weights[Per];
#pragma GCC unroll 8
      for (int j = 0; j < Per; ++j) weights[j] = lanes.load(list[p].b + j * channels + at);
      const T* a = list[p].a + at;
#pragma GCC unroll 8
      for (int i = 0; i < Outputs; ++i, a += in_step) {
        add_members<T, Per>(lanes.load(a), weights, &acc[i][v], 0);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < Outputs; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < Vecs; ++v) lanes.store(out + i * out_step + c + v * kLanes<T>, acc[i][v]);
  }
}

// The same for all channels.
template <class T, int Per, int Outputs>
void add_taps(const Panels<T>* list, int64_t count, int64_t in_step, T* out, int64_t out_step,
              int64_t channels) {
  constexpr int kVecs = Outputs < 4 ? 4 / Outputs : 1;  // sums that do not wait for each other
  const WholeVec<T> whole;
  int64_t c = 0;
  for (; c + kVecs * kLanes<T> <= channels; c += kVecs * kLanes<T>) {
    add_vecs<T, Per, Outputs, kVecs>(list, count, in_step, out, out_step, c, channels, whole);
  }
  for (; c + kLanes<T> <= channels; c += kLanes<T>) {
    add_vecs<T, Per, Outputs, 1>(list, count, in_step, out, out_step, c, channels, whole);
  }
  if (c == channels) return;
  const Lanes<T> lanes(static_cast<int>(channels - c));
  add_vecs<T, Per, Outputs, 1>(list, count, in_step, out, out_step, c, channels, lanes);
}

template <class T>
using AddTaps = void (*)(const Panels<T>* list, int64_t count, int64_t in_step, T* out,
                         int64_t out_step, int64_t channels);

constexpr int kMostOutputs = 8;  // summed at once

// add_taps for 1 to kMostOutputs outputs
template <class T, int Per, int Outputs = kMostOutputs>
AddTaps<T> taps_adder(int64_t outputs) {
  if constexpr (Outputs > 1) {
    if (outputs != Outputs) return taps_adder<T, Per, Outputs - 1>(outputs);
  }
  return add_taps<T, Per, Outputs>;
}

// A depthwise convolution or its adjoint in the data, with Per channels in a group.
template <class T, int Per>
class DepthwiseConv {
 public:
  DepthwiseConv(Image<T> out, Image<const T> in, const TapAxis (&axes)[kSpace])
      : out_(out), in_(in) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
  }

  void run(const Filter<const T>& filter) {
    const int64_t taps = count_taps(axes_);
    const int64_t row = Per * out_.channels;  // of a tap
    const Workspace workspace(taps * row * static_cast<int64_t>(sizeof(T)));
    taps_ = workspace.template as<T>();
    pack_taps<T, Per>(workspace.template as<T>(), filter, axes_, out_.channels);
    const int64_t lines = out_.batch * axes_[0].out * axes_[1].out;
    const int64_t work = max_of(1, axes_[2].out * taps * row);
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
        if (n_taps > 0) {  // what the next line of outputs sees first
          prefetch(list[lowest].a + in_.step[1], outputs * in_step * int64_t{sizeof(T)});
        }
        taps_adder<T, Per>(outputs)(list, n_taps, in_step, to, out_step, out_.channels);
      };
      for (int64_t j = 0; j < first; ++j) run(j, 1);
      const Cuts cuts(last - first, kMostOutputs);
      for (int64_t i = 0; i < cuts.count; ++i) run(first + cuts.start(i), cuts.length(i));
      for (int64_t j = last; j < count; ++j) run(j, 1);
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
          list[count++].b = taps_ + tap * Per * out_.channels;
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
template <class T, int Per>
class DepthwiseWeight {
 public:
  DepthwiseWeight(Image<const T> x, Image<const T> y, const TapAxis (&axes)[kSpace])
      : x_(x), y_(y) {
    for (int d = 0; d < kSpace; ++d) axes_[d] = axes[d];
  }

  void run(const Filter<T>& filter) const {
    const int64_t taps = count_taps(axes_);
    const int64_t lines = x_.batch * axes_[0].out * axes_[1].out, size = taps * Per * x_.channels;
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
    const int64_t channels = x_.channels, grain = kPacked / (channels * segments);
    parallel_for(taps * Per, max_of(1, grain), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* const to = filter.tap(axes_, row / Per) + row % Per * filter.in_step;
        T* const total = sums + row * channels;
        for (int64_t s = 1; s < segments; ++s) {
          for (int64_t c = 0; c < channels; ++c) total[c] += total[s * size + c];
        }
        for (int64_t c = 0; c < channels; ++c) to[c * filter.out_step] = total[c];
      }
    });
  }

 private:
  static constexpr int64_t kSegments = 16;
  static constexpr int kVecs = Per < 4 ? 4 / Per : 1;  // of channels, summed at once

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
          add_run(x, y, kw, sums + (tap + kw) * Per * x_.channels);
        }
      }
    }
  }

  // sums[j][c] += the products of x, of member j of c's group, and y that meet through tap kw on a
  // line
  void add_run(const T* x, const T* y, int64_t kw, T* sums) const {
    const TapAxis& width = axes_[2];
    const int64_t shift = kw * width.dilation - width.padding;
    const int64_t first = max_of(0, -floor_div(shift, width.stride));
    const int64_t end = min_of(width.out, floor_div(width.in - 1 - shift, width.stride) + 1);
    if (first >= end) return;
    x += (first * width.stride + shift) * x_.step[2];
    y += first * y_.step[2];
    int64_t c = 0;
    for (; c + kVecs * kLanes<T> <= x_.channels; c += kVecs * kLanes<T>) {
      add_products<kVecs>(x + c, y + c, end - first, sums + c, WholeVec<T>{});
    }
    for (; c < x_.channels; c += kLanes<T>) {
      const Lanes<T> lanes(static_cast<int>(min_of(kLanes<T>, x_.channels - c)));
      add_products<1>(x + c, y + c, end - first, sums + c, lanes);
    }
  }

  // The same of n positions and Vecs vectors of channels.
  template <int Vecs, class L>
  void add_products(const T* x, const T* y, int64_t n, T* sums, const L& lanes) const {
    const int64_t x_step = axes_[2].stride * x_.step[2], y_step = y_.step[2];
    Vec<T> acc[Per][Vecs] = {};
    for (int64_t i = 0; i < n; ++i, x += x_step, y += y_step) {
#pragma GCC unroll 4
      for (int v = 0; v < Vecs; ++v) {
        Vec<T> by[Per];
#pragma GCC unroll 8
        for (int j = 0; j < Per; ++j) by[j] = lanes.load(y + v * kLanes<T>);
        add_members<T, Per>(lanes.load(x + v * kLanes<T>), by, &acc[0][v], Vecs);
      }
    }
    for (int j = 0; j < Per; ++j) {
      for (int v = 0; v < Vecs; ++v) {
        T* const sum = sums + j * x_.channels + v * kLanes<T>;
        lanes.store(sum, lanes.load(sum) + acc[j][v]);
      }
    }
  }

  Image<const T> x_, y_;
  TapAxis axes_[kSpace];
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
