// The kernels of needle/backend/protocol.py that are made for networks: attention, recurrence.
#include <algorithm>
#include <cstring>
#include <vector>

#include "bindings.h"

namespace needle {
namespace {

double read_float(nb::handle value, Site site, const char* what) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    raise_type(site, "%s must be float, got %s", what, class_name(value).c_str());
  }
  return number;
}

// Null for an operand that is not there.
const View* view_of(const Operand& operand) {
  return operand.handle.is_valid() ? &operand.view : nullptr;
}

// Reads the operands of attention, whose axes in front of the last two are those of `shape`.
class AttentionReader {
 public:
  AttentionReader(const char* kernel, nb::handle q, nb::handle k, nb::handle v, nb::handle mask,
                  nb::handle scale, bool is_causal, const View& like)
      : kernel_(kernel), ndim_(like.ndim) {
    if (ndim_ < 2 || !is_floating(like.dtype)) {
      raise_value({kernel}, "expected floating matrices, got %s of %s", shape_text(like).c_str(),
                  dtype_name(like.dtype));
    }
    dtype_ = like.dtype;
    sum_dtype_ = dtype_ == DType::f64 ? DType::f64 : DType::f32;
    std::copy(like.shape, like.shape + ndim_, shape_);
    q_ = read_operand(q, {kernel, "q"});
    k_ = read_operand(k, {kernel, "k"});
    v_ = read_operand(v, {kernel, "v"});
    if (q_.view.ndim < 2 || k_.view.ndim < 2 || v_.view.ndim < 2) {
      raise_value({kernel}, "expected q, k and v with at least two axes");
    }
    queries = q_.view.shape[q_.view.ndim - 2];
    size = q_.view.shape[q_.view.ndim - 1];
    keys = k_.view.shape[k_.view.ndim - 2];
    width = v_.view.shape[v_.view.ndim - 1];
    q_.view = fitted(q_, {queries, size}, dtype_, "q");
    k_.view = fitted(k_, {keys, size}, dtype_, "k");
    v_.view = fitted(v_, {keys, width}, dtype_, "v");
    if (!mask.is_none()) {
      mask_ = read_operand(mask, {kernel, "mask"});
      const bool chooses = mask_.view.dtype == DType::b8;
      mask_.view = fitted(mask_, {queries, keys}, chooses ? DType::b8 : sum_dtype_, "mask");
    }
    is_causal_ = is_causal;
    scale_ = read_float(scale, {kernel}, "scale");
  }

  // Launches kernel(views, inputs): the inputs follow these views.
  template <class F>
  void launch_with(std::vector<const View*> views, const F& kernel) const {
    const size_t first = views.size();
    for (const Operand* operand : {&q_, &k_, &v_, &mask_}) views.push_back(view_of(*operand));
    launch(work(), views, [=, scale = scale_, is_causal = is_causal_](Views v) {
      kernel(v, {v[first], v[first + 1], v[first + 2], v[first + 3], scale, is_causal});
    });
  }

  struct Matrix {
    int64_t rows, cols;
  };

  // Broadcast to the axes in front and this matrix.
  View fitted(const Operand& operand, Matrix matrix, DType dtype, const char* role) {
    require_dtype(operand.view.dtype, dtype, {kernel_, role});
    set_matrix(matrix);
    return broadcast(operand.view, shape_, ndim_, {kernel_, role});
  }

  void require(const Operand& operand, Matrix matrix, DType dtype, const char* role) {
    require_dtype(operand.view.dtype, dtype, {kernel_, role});
    set_matrix(matrix);
    require_shape(operand.view, shape_, ndim_, {kernel_, role});
  }

  DType dtype() const { return dtype_; }
  DType sum_dtype() const { return sum_dtype_; }

  int64_t work() const {
    int64_t heads = 1;
    for (int d = 0; d < ndim_ - 2; ++d) heads *= shape_[d];
    int64_t total = heads;
    for (const int64_t n : {queries, keys, size + width}) {
      if (__builtin_mul_overflow(total, n, &total)) return INT64_MAX;
    }
    return total;
  }

  int64_t queries, keys, size, width;

 private:
  void set_matrix(Matrix matrix) {
    shape_[ndim_ - 2] = matrix.rows;
    shape_[ndim_ - 1] = matrix.cols;
  }

  const char* const kernel_;
  const int ndim_;
  DType dtype_, sum_dtype_;
  int64_t shape_[kMaxDims];
  Operand q_, k_, v_, mask_;
  double scale_;
  bool is_causal_;
};

void attention(nb::handle out, nb::handle log_sums, nb::handle q, nb::handle k, nb::handle v,
               nb::handle mask, nb::handle scale, bool causal) {
  const auto kernel = kernels().attention;
  const Operand target = read_output(out, {"attention", "out"});
  const Operand logs = read_output(log_sums, {"attention", "log_sums"});
  AttentionReader reader("attention", q, k, v, mask, scale, causal, target.view);
  reader.require(target, {reader.queries, reader.width}, reader.dtype(), "out");
  reader.require(logs, {reader.queries, 1}, reader.sum_dtype(), "log_sums");
  reader.launch_with({&target.view, &logs.view},
                     [=](Views v, const AttentionInputs& inputs) { kernel(*v[0], *v[1], inputs); });
}

void attention_backward(nb::handle dq, nb::handle dk, nb::handle dv, nb::handle ds, nb::handle q,
                        nb::handle k, nb::handle v, nb::handle mask, nb::handle y,
                        nb::handle log_sums, nb::handle g, nb::handle g_log, nb::handle scale,
                        bool causal) {
  constexpr const char* kName = "attention_backward";
  const auto kernel = kernels().attention_backward;
  const Operand to_q = read_output(dq, {kName, "dq"});
  const Operand to_k = read_output(dk, {kName, "dk"});
  const Operand to_v = read_output(dv, {kName, "dv"});
  AttentionReader reader(kName, q, k, v, mask, scale, causal, to_q.view);
  const int64_t queries = reader.queries, keys = reader.keys;
  const DType dtype = reader.dtype(), sum_dtype = reader.sum_dtype();
  reader.require(to_q, {queries, reader.size}, dtype, "dq");
  reader.require(to_k, {keys, reader.size}, dtype, "dk");
  reader.require(to_v, {keys, reader.width}, dtype, "dv");
  Operand to_s;
  if (!ds.is_none()) {
    to_s = read_output(ds, {kName, "ds"});
    reader.require(to_s, {queries, keys}, sum_dtype, "ds");
  }
  Operand given[] = {read_operand(y, {kName, "y"}), read_operand(log_sums, {kName, "log_sums"}),
                     read_operand(g, {kName, "g"}), read_operand(g_log, {kName, "g_log"})};
  given[0].view = reader.fitted(given[0], {queries, reader.width}, dtype, "y");
  given[1].view = reader.fitted(given[1], {queries, 1}, sum_dtype, "log_sums");
  given[2].view = reader.fitted(given[2], {queries, reader.width}, dtype, "g");
  given[3].view = reader.fitted(given[3], {queries, 1}, sum_dtype, "g_log");
  std::vector<const View*> views = {&to_q.view, &to_k.view, &to_v.view, view_of(to_s)};
  for (const Operand& operand : given) views.push_back(&operand.view);
  reader.launch_with(views, [=](Views v, const AttentionInputs& inputs) {
    kernel({v[0], v[1], v[2], v[3]}, inputs, {v[4], v[5], v[6], v[7]});
  });
}

struct CellInfo {
  const char* name;
  RecurrentCell cell;
  int64_t gates, kept;
  bool has_cell, splits;  // an LSTM's c; a GRU's own ds
};

constexpr CellInfo kCells[] = {{"tanh", RecurrentCell::tanh, 1, 0, false, false},
                               {"relu", RecurrentCell::relu, 1, 0, false, false},
                               {"lstm", RecurrentCell::lstm, 4, 5, true, false},
                               {"gru", RecurrentCell::gru, 3, 4, false, true}};

const CellInfo& read_cell(nb::handle name, const char* kernel) {
  const char* const text = PyUnicode_Check(name.ptr()) ? text_of(name) : nullptr;
  PyErr_Clear();
  for (const CellInfo& info : kCells) {
    if (text != nullptr && std::strcmp(text, info.name) == 0) return info;
  }
  raise_value({kernel, "cell"}, "expected 'tanh', 'relu', 'lstm' or 'gru'");
}

// Reads the operands of a recurrence, whose sizes h (T, B, H) fixes.
class RecurrenceReader {
 public:
  RecurrenceReader(const char* kernel, const CellInfo& cell, const View& h)
      : kernel_(kernel), cell_(cell), dtype_(h.dtype) {
    if (h.ndim != 3 || !is_floating(dtype_)) {
      raise_value({kernel, "h"}, "expected a floating (T, B, H), got %s of %s",
                  shape_text(h).c_str(), dtype_name(dtype_));
    }
    steps_ = h.shape[0], batch_ = h.shape[1], size_ = h.shape[2];
  }

  Operand states(nb::handle object, const char* role, bool is_output) const {
    return read(object, role, is_output, dtype_, {steps_, batch_, size_}, 3);
  }
  Operand state(nb::handle object, const char* role, bool is_output) const {
    return read(object, role, is_output, dtype_, {batch_, size_}, 2);
  }
  Operand gates(nb::handle object, const char* role, bool is_output) const {
    return read(object, role, is_output, dtype_, {steps_, batch_, cell_.gates * size_}, 3);
  }
  Operand kept(nb::handle object, bool is_output) const {
    const DType dtype = dtype_ == DType::f64 ? DType::f64 : DType::f32;
    return read(object, "kept", is_output, dtype, {steps_, batch_, cell_.kept * size_}, 3);
  }
  Operand weights(nb::handle object, const char* role, int64_t rows) const {
    return read(object, role, false, dtype_, {rows, cell_.gates * size_}, 2);
  }

  int64_t size() const { return size_; }

  int64_t work() const {
    int64_t total = steps_;
    for (const int64_t n : {batch_, cell_.gates, size_, size_}) {
      if (__builtin_mul_overflow(total, n, &total)) return INT64_MAX;
    }
    return total;
  }

 private:
  struct Shape {
    int64_t n[3];
  };

  Operand read(nb::handle object, const char* role, bool is_output, DType dtype, Shape shape,
               int ndim) const {
    const Site site = {kernel_, role};
    Operand operand = is_output ? read_output(object, site) : read_operand(object, site);
    require_dtype(operand.view.dtype, dtype, site);
    require_shape(operand.view, shape.n, ndim, site);
    return operand;
  }

  const char* const kernel_;
  const CellInfo& cell_;
  const DType dtype_;
  int64_t steps_, batch_, size_;
};

void recurrence(nb::handle cell, nb::handle h, nb::handle c_last, nb::handle kept, nb::handle x,
                nb::handle h0, nb::handle c0, nb::handle w, nb::handle bias) {
  const auto kernel = kernels().recurrence;
  const CellInfo& info = read_cell(cell, "recurrence");
  const Operand states = read_output(h, {"recurrence", "h"});
  const RecurrenceReader reader("recurrence", info, states.view);
  const Operand keeps = reader.kept(kept, true), gates = reader.gates(x, "x", false);
  const Operand first = reader.state(h0, "h0", false);
  const Operand weights = reader.weights(w, "w", reader.size());
  Operand first_c, last_c, biases;
  if (info.has_cell) {
    first_c = reader.state(c0, "c0", false);
    last_c = reader.state(c_last, "c_last", true);
  }
  if (!bias.is_none()) biases = reader.weights(bias, "bias", 1);
  launch(reader.work(),
         {&states.view, &keeps.view, view_of(last_c), &gates.view, &first.view, view_of(first_c),
          &weights.view, view_of(biases)},
         [=, cell = info.cell](Views v) {
           kernel(cell, {v[0], v[1], v[2]}, {v[3], v[4], v[5], v[6], v[7]});
         });
}

void recurrence_backward(nb::handle cell, nb::handle dx, nb::handle ds, nb::handle dh0,
                         nb::handle dc0, nb::handle h, nb::handle kept, nb::handle h0,
                         nb::handle c0, nb::handle w, nb::handle g_h, nb::handle g_c) {
  constexpr const char* kName = "recurrence_backward";
  const auto kernel = kernels().recurrence_backward;
  const CellInfo& info = read_cell(cell, kName);
  const Operand states = read_operand(h, {kName, "h"});
  const RecurrenceReader reader(kName, info, states.view);
  const Operand to_x = reader.gates(dx, "dx", true), to_h0 = reader.state(dh0, "dh0", true);
  const Operand keeps = reader.kept(kept, false), first = reader.state(h0, "h0", false);
  const Operand weights = reader.weights(w, "w", reader.size());
  const Operand of_h = reader.states(g_h, "g_h", false);
  Operand to_s, to_c0, first_c, of_c;
  if (info.splits) to_s = reader.gates(ds, "ds", true);
  if (info.has_cell) {
    to_c0 = reader.state(dc0, "dc0", true);
    first_c = reader.state(c0, "c0", false);
    of_c = reader.state(g_c, "g_c", false);
  }
  launch(reader.work(),
         {&of_h.view, view_of(of_c), &to_x.view, view_of(to_s), &to_h0.view, view_of(to_c0),
          &states.view, &keeps.view, &first.view, view_of(first_c), &weights.view},
         [=, cell = info.cell](Views v) {
           kernel(cell, {v[0], v[1], v[2], v[3], v[4], v[5]}, {v[6], v[7], nullptr},
                  {nullptr, v[8], v[9], v[10], nullptr});
         });
}

}  // namespace

void bind_networks(nb::module_& m) {
  using nb::arg;
  m.def("attention", attention, arg("out"), arg("log_sums"), arg("q"), arg("k"), arg("v"),
        arg("mask").none(), arg("scale"), arg("causal"));
  m.def("attention_backward", attention_backward, arg("dq"), arg("dk"), arg("dv"), arg("ds").none(),
        arg("q"), arg("k"), arg("v"), arg("mask").none(), arg("y"), arg("log_sums"), arg("g"),
        arg("g_log"), arg("scale"), arg("causal"));
  m.def("recurrence", recurrence, arg("cell"), arg("h"), arg("c_last").none(), arg("kept"),
        arg("x"), arg("h0"), arg("c0").none(), arg("w"), arg("bias").none());
  m.def("recurrence_backward", recurrence_backward, arg("cell"), arg("dx"), arg("ds").none(),
        arg("dh0"), arg("dc0").none(), arg("h"), arg("kept"), arg("h0"), arg("c0").none(), arg("w"),
        arg("g_h"), arg("g_c").none());
}

}  // namespace needle
