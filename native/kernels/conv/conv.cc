// Convolution, and its adjoints in the data and in the filter: which kernel a shape takes.

#include "conv_depthwise.h"
#include "conv_taps.h"
#include "conv_weight.h"
#include "conv_winograd.h"
#include "conv_winograd_weight.h"
#include "kernels/alias.h"
#include "kernels/entries.h"

namespace needle::NEEDLE_ISA {
namespace {

// Calls body(Tag<type to compute in>): halves in float, integers and bools in 64 bits, which wrap.
template <class F>
void with_conv_type(DType dtype, F&& body) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return body(Tag<float>{});
    case DType::f64: return body(Tag<double>{});
    default: return body(Tag<uint64_t>{});
  }
}

template <class T>
constexpr DType kHeldAs = is_same<T, float>    ? DType::f32
                          : is_same<T, double> ? DType::f64
                                               : DType::i64;

// A view of Ts whose last `contiguous` axes are in C order: the view itself, or a compact copy.
template <class T>
class Plain {
 public:
  explicit Plain(const View& v, int contiguous = 1)
      : view_(v), is_copy_(!is_plain(v, contiguous)), scratch_(is_copy_ ? v.size() * kSize : 0) {
    if (!is_copy_) return;
    view_.data = scratch_.template as<char>();
    view_.dtype = kHeldAs<T>;
    view_.set_compact_strides();
  }

  const View& load(const View& v) const {
    if (is_copy_) copy(view_, v);
    return view_;
  }
  void store(const View& v) const {
    if (is_copy_) copy(v, view_);
  }
  const View& view() const { return view_; }

 private:
  static constexpr int64_t kSize = sizeof(T);

  static bool is_plain(const View& v, int contiguous) {
    if (v.dtype != kHeldAs<T>) return false;
    int64_t stride = 1;
    for (int axis = v.ndim - 1; axis >= v.ndim - contiguous; --axis) {
      if (v.shape[axis] > 1 && v.strides[axis] != stride) return false;
      stride *= v.shape[axis];
    }
    return true;
  }

  View view_;
  bool is_copy_;
  Scratch<64> scratch_;
};

// (N, S..., C) with three spatial axes
template <class T>
Image<T> image_of(const View& v) {
  Image<T> image = {
      reinterpret_cast<T*>(v.data), v.shape[0], v.shape[v.ndim - 1], v.strides[0], {}};
  for (int i = 1; i < v.ndim - 1; ++i) image.step[i + kSpace + 1 - v.ndim] = v.strides[i];
  return image;
}

// (K..., C, O); the adjoint reads O and writes C. The steps of axes with one element mean nothing,
// so there they are those of compact filters, whose taps may be taken for channels (Unrolling).
template <class T>
Filter<T> filter_of(const View& v, bool is_adjoint = false) {
  const int64_t c = v.shape[v.ndim - 2], o = v.shape[v.ndim - 1];
  const int64_t outputs = o == 1 ? 1 : v.strides[v.ndim - 1];
  const int64_t channels = c == 1 ? o * outputs : v.strides[v.ndim - 2];
  Filter<T> filter = {reinterpret_cast<T*>(v.data),
                      {},
                      is_adjoint ? outputs : channels,
                      is_adjoint ? channels : outputs};
  for (int i = 0; i < v.ndim - 2; ++i) filter.step[i + kSpace + 2 - v.ndim] = v.strides[i];
  return filter;
}

struct Axes {
  TapAxis of[kSpace];

  // From `in` to `out` (images) through filters `w`.
  Axes(const View& in, const View& out, const View& w, const ConvWindow& window, bool is_adjoint) {
    for (int d = 0; d < kSpace; ++d) {
      const int i = d - kSpace + w.ndim - 2;  // the operands' axis, or none
      const auto size = [&](const View& v, int axis) { return i < 0 ? 1 : v.shape[axis]; };
      of[d] = {size(in, i + 1),   size(out, i + 1),   size(w, i), window.stride[d],
               window.padding[d], window.dilation[d], is_adjoint};
    }
  }
};

// The channels of a group, if they are as many out as in, and vectors hold several groups; else 0.
template <class T>
int64_t narrow_channels(const View& w, const ConvWindow& window) {
  const int64_t per = w.shape[w.ndim - 2];
  if (window.groups == 1 || w.shape[w.ndim - 1] != per * window.groups) return 0;
  const bool is_several = is_same<T, float> && 2 * per <= kLanes<float>;
  return per == 1 || (is_several && (per == 2 || per == 4 || per == 8)) ? per : 0;
}

// Calls body with the channels of a group as a constant.
template <class T, int Per = is_same<T, float> ? kLanes<float> / 2 : 1, class F>
void with_narrow(int64_t per, F&& body) {
  if constexpr (Per > 1) {
    if (per != Per) return with_narrow<T, Per / 2>(per, body);
  }
  body(std::integral_constant<int, Per>{});
}

// A convolution, or its adjoint in the data, whose filters see several channels.
template <class T>
void run_conv(Image<T> out, Image<const T> in, Filter<const T> filter, const Axes& axes,
              int64_t groups, const Epilogue* epilogue = nullptr) {
  if constexpr (is_same<T, float>) {
    if (winograd_pays(axes.of, in.batch, in.channels, out.channels, groups)) {
      return WinogradConv(out, in, filter, axes.of, epilogue).run();
    }
  }
  TapConv<T>(out, in, filter, axes.of, groups, epilogue).run();
}

template <class T>
void run_conv_weight(Filter<T> filter, Image<const T> x, Image<const T> y, const Axes& axes,
                     int64_t groups) {
  if constexpr (is_same<T, float>) {
    if (WinogradWeight::is_worth_it(x, y, axes.of, groups)) {
      return WinogradWeight(filter, x, y, axes.of).run();
    }
  }
  TapWeight<T>(filter, x, y, axes.of, groups).run();
}

template <class T>
void conv_as(const View& out, const View& in, const View& w, const ConvWindow& window,
             bool is_adjoint, const Epilogue* epilogue = nullptr) {
  const Axes axes(in, out, w, window, is_adjoint);
  const bool unrolls = Unrolling::is_worth_it(axes.of[2], in.shape[in.ndim - 1], window.groups);
  const Plain<T> to(out), from(in), filters(w, unrolls ? w.ndim : 0);
  const Image<T> made = image_of<T>(to.view());
  const Image<const T> images = image_of<const T>(from.load(in));
  const View& taps = filters.load(w);
  if (const int64_t per = narrow_channels<T>(w, window)) {
    const Filter<const T> filter = filter_of<const T>(taps);
    with_narrow<T>(per, [&](auto n) { DepthwiseConv<T, n>(made, images, axes.of).run(filter); });
  } else {
    const Filter<const T> filter = filter_of<const T>(taps, is_adjoint);
    run_conv<T>(made, images, filter, axes, window.groups, epilogue);
  }
  to.store(out);
}

template <class T>
void conv_by_weight_as(const View& out, const View& x, const View& y, const ConvWindow& window) {
  const Axes axes(x, y, out, window, false);
  const bool unrolls = Unrolling::is_worth_it(axes.of[2], x.shape[x.ndim - 1], window.groups);
  const Plain<T> to(out, unrolls ? out.ndim : 1), left(x), right(y);
  const Filter<T> filter = filter_of<T>(to.view());
  const Image<const T> from = image_of<const T>(left.load(x));
  const Image<const T> made = image_of<const T>(right.load(y));
  if (const int64_t per = narrow_channels<T>(out, window)) {
    with_narrow<T>(per, [&](auto n) { DepthwiseWeight<T, n>(from, made, axes.of).run(filter); });
  } else {
    run_conv_weight<T>(filter, from, made, axes, window.groups);
  }
  to.store(out);
}

// A matrix of positions and channels as the images (N, P..., O) of that shape.
View images_of(const View& matrix, const int64_t* shape, int ndim) {
  View images = matrix;
  images.ndim = ndim;
  int64_t stride = matrix.shape[0] == 1 ? shape[ndim - 1] : matrix.strides[0];  // not 0
  for (int axis = ndim - 2; axis >= 0; stride *= shape[axis--]) {
    images.shape[axis] = shape[axis];
    images.strides[axis] = stride;
  }
  images.shape[ndim - 1] = matrix.shape[1];
  images.strides[ndim - 1] = matrix.strides[1];
  return images;
}

// Is there nothing to compute? An output without inputs is zero.
bool is_done(const View& out, const View& a, const View& b) {
  if (out.size() == 0) return true;
  if (a.size() > 0 && b.size() > 0) return false;
  char zero = 0;
  View zeros = out;
  zeros.data = &zero;
  zeros.dtype = DType::b8;
  for (int axis = 0; axis < out.ndim; ++axis) zeros.strides[axis] = 0;
  copy(out, zeros);
  return true;
}

// Calls body(Tag<type to compute in>, a, b) if there is something to compute; neither a nor b is
// out's memory.
template <class F>
void with_inputs(const View& out, const View& a, const View& b, const F& body) {
  if (is_done(out, a, b)) return;
  const Unaliased left(a, out), right(b, out);
  with_conv_type(out.dtype, [&](auto tag) { body(tag, left.view(), right.view()); });
}

}  // namespace

void conv(const View& out, const View& x, const View& w, const ConvWindow& window) {
  with_inputs(out, x, w, [&](auto tag, const View& images, const View& filters) {
    conv_as<typename decltype(tag)::type>(out, images, filters, window, false);
  });
}

void conv_then(const TileProgram& program, const View* const* operands, const int64_t* shape,
               const ConvWindow& window) {
  if (operands[0]->size() == 0) return;
  const ThenOperands all = {program, operands};
  const View &x = all.a(), &w = all.b();
  const int holder = all.holder();
  const bool takes_tiles = holder >= 0 && all.output(holder).strides[1] == 1 && x.size() > 0 &&
                           w.size() > 0 && narrow_channels<float>(w, window) == 0 &&
                           all.writes_no_input();
  if (takes_tiles) {
    const Epilogue epilogue = all.epilogue();
    const View y = images_of(all.output(holder), shape, x.ndim);
    return conv_as<float>(y, x, w, window, false, &epilogue);
  }
  all.run_apart([&](const View& y) { conv(images_of(y, shape, x.ndim), x, w, window); });
}

void conv_by_data(const View& out, const View& y, const View& w, const ConvWindow& window) {
  with_inputs(out, y, w, [&](auto tag, const View& images, const View& filters) {
    conv_as<typename decltype(tag)::type>(out, images, filters, window, true);
  });
}

void conv_by_weight(const View& out, const View& x, const View& y, const ConvWindow& window) {
  with_inputs(out, x, y, [&](auto tag, const View& left, const View& right) {
    conv_by_weight_as<typename decltype(tag)::type>(out, left, right, window);
  });
}

}  // namespace needle::NEEDLE_ISA
