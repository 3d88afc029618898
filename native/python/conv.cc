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
    raise_type({kernel}, "%s must be a tuple of %d numbers", what, rank);
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t n = read_int(PyTuple_GET_ITEM(value.ptr(), i), {kernel}, what);
    if (n < lowest || n > kMost) {
      raise_value({kernel}, "%s %lld is outside %lld ... 2**30", what, static_cast<long long>(n),
                  static_cast<long long>(lowest));
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
  window.groups = read_int(groups, {kernel}, "groups");
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
    raise_value({kernel}, "images %s and %s do not fit filters %s in %lld groups",
                shape_text(x).c_str(), shape_text(y).c_str(), shape_text(w).c_str(),
                static_cast<long long>(groups));
  }
}

int read_rank(const View& a, const View& b, const View& c, const char* kernel) {
  if (a.ndim != b.ndim || a.ndim != c.ndim || a.ndim < 3 || a.ndim > kSpace + 2) {
    raise_value({kernel}, "expected operands with the same 3 to 5 axes, got %s, %s, %s",
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

}  // namespace

ConvFactors read_conv(const View& x, const View& w, const View& y, nb::handle stride,
                      nb::handle padding, nb::handle dilation, nb::handle groups,
                      const char* kernel) {
  const int rank = read_rank(y, x, w, kernel);
  const ConvWindow window = read_window(stride, padding, dilation, groups, rank, kernel);
  check_shapes(x, w, y, window.groups, kernel);
  return {window, work_of(w, y)};
}

namespace {

// What a convolution is called with: the output, two inputs and the window, read and checked.
struct ConvCall {
  Operand out, a, b;
  ConvWindow window;

  ConvCall(const char* kernel, nb::handle out_, nb::handle a_, const char* a_name, nb::handle b_,
           const char* b_name, nb::handle stride, nb::handle padding, nb::handle dilation,
           nb::handle groups)
      : out(read_output(out_, {kernel, "out"})),
        a(read_operand(a_, {kernel, a_name})),
        b(read_operand(b_, {kernel, b_name})) {
    require_dtype(a.view.dtype, out.view.dtype, {kernel, a_name});
    require_dtype(b.view.dtype, out.view.dtype, {kernel, b_name});
    const int rank = read_rank(out.view, a.view, b.view, kernel);
    window = read_window(stride, padding, dilation, groups, rank, kernel);
  }

  // x, w and y are those of out, a and b that have these roles.
  template <class Kernel>
  void run(const char* name, Kernel kernel, const View& x, const View& w, const View& y) const {
    check_shapes(x, w, y, window.groups, name);
    launch(work_of(w, y), {&out.view, &a.view, &b.view},
           [kernel, window = window](Views v) { kernel(*v[0], *v[1], *v[2], window); });
  }
};

void conv(nb::handle out, nb::handle x, nb::handle w, nb::handle stride, nb::handle padding,
          nb::handle dilation, nb::handle groups) {
  const ConvCall call("conv", out, x, "x", w, "w", stride, padding, dilation, groups);
  call.run("conv", kernels().conv, call.a.view, call.b.view, call.out.view);
}

void conv_by_data(nb::handle out, nb::handle y, nb::handle w, nb::handle stride, nb::handle padding,
                  nb::handle dilation, nb::handle groups) {
  const ConvCall call("conv_by_data", out, y, "y", w, "w", stride, padding, dilation, groups);
  call.run("conv_by_data", kernels().conv_by_data, call.out.view, call.b.view, call.a.view);
}

void conv_by_weight(nb::handle out, nb::handle x, nb::handle y, nb::handle stride,
                    nb::handle padding, nb::handle dilation, nb::handle groups) {
  const ConvCall call("conv_by_weight", out, x, "x", y, "y", stride, padding, dilation, groups);
  call.run("conv_by_weight", kernels().conv_by_weight, call.a.view, call.out.view, call.b.view);
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
