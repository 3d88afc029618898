// The convolutions of needle/backend/protocol.py.
#include "bindings.h"

namespace needle {
namespace {

constexpr int kSpace = 3;
constexpr int64_t kMost = int64_t{1} << 30;  // products of two sizes or steps stay in 64 bits

// A tuple with one number for each of the last `rank` spatial axes; the others keep theirs.
void read_steps(nb::handle value, int rank, int64_t lowest, int64_t (&steps)[kSpace],
                const char* kernel, const char* what) {
  if (!PyTuple_Check(value.ptr()) || PyTuple_GET_SIZE(value.ptr()) != rank) {
    raise_type({kernel, nullptr}, "%s must be a tuple of %d numbers", what, rank);
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t n = read_int(PyTuple_GET_ITEM(value.ptr(), i), {kernel, nullptr}, what);
    if (n < lowest || n > kMost) {
      raise_value({kernel, nullptr}, "%s %lld is outside %lld ... 2**30", what,
                  static_cast<long long>(n), static_cast<long long>(lowest));
    }
    steps[kSpace - rank + i] = n;
  }
}

ConvWindow read_window(nb::handle stride, nb::handle padding, nb::handle dilation,
                       nb::handle groups, int rank, const char* kernel) {
  ConvWindow window = {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1};
  read_steps(stride, rank, 1, window.stride, kernel, "stride");
  read_steps(padding, rank, -kMost, window.padding, kernel, "padding");
  read_steps(dilation, rank, 1, window.dilation, kernel, "dilation");
  window.groups = read_int(groups, {kernel, nullptr}, "groups");
  return window;
}

// x (N, S..., C), w (K..., C / groups, O) and y (N, P..., O) belong together.
void check_shapes(const View& x, const View& w, const View& y, int64_t groups, const char* kernel) {
  bool fits = x.shape[0] == y.shape[0] && groups >= 1 && groups <= kMost;
  const int channels = x.ndim - 1;
  fits = fits && w.shape[channels - 1] <= kMost && w.shape[channels] % groups == 0 &&
         x.shape[channels] == w.shape[channels - 1] * groups &&
         y.shape[channels] == w.shape[channels];
  for (int d = 0; fits && d < channels; ++d) {
    fits = x.shape[d] <= kMost && y.shape[d] <= kMost && (d == channels - 1 || w.shape[d] <= kMost);
  }
  if (!fits) {
    raise_value({kernel, nullptr}, "images %s and %s do not fit filters %s in %lld groups",
                shape_text(x).c_str(), shape_text(y).c_str(), shape_text(w).c_str(),
                static_cast<long long>(groups));
  }
}

int read_rank(const View& a, const View& b, const View& c, const char* kernel) {
  if (a.ndim != b.ndim || a.ndim != c.ndim || a.ndim < 3 || a.ndim > kSpace + 2) {
    raise_value({kernel, nullptr}, "expected operands with the same 3 to 5 axes, got %s, %s, %s",
                shape_text(a).c_str(), shape_text(b).c_str(), shape_text(c).c_str());
  }
  return a.ndim - 2;
}

int64_t work_of(const View& w, const View& y) {
  int64_t work;
  const int64_t outputs = y.shape[y.ndim - 1];
  if (__builtin_mul_overflow(w.size(), outputs == 0 ? 0 : y.size() / outputs, &work)) {
    work = INT64_MAX;
  }
  return work;
}

void conv(nb::handle out, nb::handle x, nb::handle w, nb::handle stride, nb::handle padding,
          nb::handle dilation, nb::handle groups) {
  const auto kernel = kernels().conv;
  const Operand target = read_output(out, {"conv", "out"});
  const Operand images = read_operand(x, {"conv", "x"}), filters = read_operand(w, {"conv", "w"});
  const View &to = target.view, &from = images.view, &by = filters.view;
  require_dtype(from.dtype, to.dtype, {"conv", "x"});
  require_dtype(by.dtype, to.dtype, {"conv", "w"});
  const int rank = read_rank(to, from, by, "conv");
  const ConvWindow window = read_window(stride, padding, dilation, groups, rank, "conv");
  check_shapes(from, by, to, window.groups, "conv");
  launch(work_of(by, to), {&to, &from, &by}, [=](Views v) { kernel(*v[0], *v[1], *v[2], window); });
}

void conv_by_data(nb::handle out, nb::handle y, nb::handle w, nb::handle stride, nb::handle padding,
                  nb::handle dilation, nb::handle groups) {
  constexpr const char* name = "conv_by_data";
  const auto kernel = kernels().conv_by_data;
  const Operand target = read_output(out, {name, "out"});
  const Operand images = read_operand(y, {name, "y"}), filters = read_operand(w, {name, "w"});
  const View &to = target.view, &from = images.view, &by = filters.view;
  require_dtype(from.dtype, to.dtype, {name, "y"});
  require_dtype(by.dtype, to.dtype, {name, "w"});
  const int rank = read_rank(to, from, by, name);
  const ConvWindow window = read_window(stride, padding, dilation, groups, rank, name);
  check_shapes(to, by, from, window.groups, name);
  launch(work_of(by, from), {&to, &from, &by},
         [=](Views v) { kernel(*v[0], *v[1], *v[2], window); });
}

void conv_by_weight(nb::handle out, nb::handle x, nb::handle y, nb::handle stride,
                    nb::handle padding, nb::handle dilation, nb::handle groups) {
  constexpr const char* name = "conv_by_weight";
  const auto kernel = kernels().conv_by_weight;
  const Operand target = read_output(out, {name, "out"});
  const Operand images = read_operand(x, {name, "x"}), made = read_operand(y, {name, "y"});
  const View &to = target.view, &from = images.view, &by = made.view;
  require_dtype(from.dtype, to.dtype, {name, "x"});
  require_dtype(by.dtype, to.dtype, {name, "y"});
  const int rank = read_rank(to, from, by, name);
  const ConvWindow window = read_window(stride, padding, dilation, groups, rank, name);
  check_shapes(from, to, by, window.groups, name);
  launch(work_of(to, by), {&to, &from, &by}, [=](Views v) { kernel(*v[0], *v[1], *v[2], window); });
}

}  // namespace

void bind_conv(nb::module_& m) {
  using nb::arg;
  m.def("conv", conv, arg("out"), arg("x"), arg("w"), arg("stride"), arg("padding"),
        arg("dilation"), arg("groups"));
  m.def("conv_by_data", conv_by_data, arg("out"), arg("y"), arg("w"), arg("stride"), arg("padding"),
        arg("dilation"), arg("groups"));
  m.def("conv_by_weight", conv_by_weight, arg("out"), arg("x"), arg("y"), arg("stride"),
        arg("padding"), arg("dilation"), arg("groups"));
}

}  // namespace needle
