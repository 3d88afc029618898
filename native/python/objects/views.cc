// Views of arrays in the common cases of reshape, broadcast_to and getitem, on any device: no
// memory is touched. Where there is more to decide or to explain they give None, and
// ndarray/movement.py and ndarray/index/gather.py go on.
#include <algorithm>

#include "types.h"

namespace needle {
namespace {

struct Layout {
  View view;  // shape and strides
  int64_t offset;
};

bool read_exact(PyObject* value, int64_t& number) {
  if (value == nullptr || !PyLong_CheckExact(value)) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

// A tuple of plain ints: those of traced arrays may be more than that.
bool read_exact(PyObject* tuple, int64_t* numbers, int& count) {
  if (tuple == nullptr || !PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > kMaxDims) {
    return false;
  }
  count = static_cast<int>(PyTuple_GET_SIZE(tuple));
  for (int i = 0; i < count; ++i) {
    if (!read_exact(PyTuple_GET_ITEM(tuple, i), numbers[i])) return false;
  }
  return true;
}

bool read_layout(const ArrayFields* array, Layout& layout) {
  if (array == nullptr || array->dtype == nullptr || array->device == nullptr ||
      array->handle == nullptr) {
    return false;
  }
  int steps = 0;
  return read_exact(array->shape, layout.view.shape, layout.view.ndim) &&
         read_exact(array->strides, layout.view.strides, steps) && steps == layout.view.ndim &&
         read_exact(array->offset, layout.offset);
}

PyObject* make_view(const ArrayFields& of, const Layout& layout) {
  const View& view = layout.view;
  return build_array(class_of(of), make_tuple(view.shape, view.ndim),
                     make_tuple(view.strides, view.ndim), nb::int_(layout.offset), of.dtype,
                     of.device, of.handle);
}

// Calls find(array's layout, argument, layout of the view); None if it says no.
template <class F>
PyObject* view_of(PyObject* const* arguments, Py_ssize_t count, const char* name, const F& find) {
  return guarded([&]() -> PyObject* {
    if (count != 2) raise_type({name}, "expected an array and its argument");
    const ArrayFields* const array = array_fields(arguments[0]);
    Layout from, to;
    if (!read_layout(array, from) || !find(from, arguments[1], to)) Py_RETURN_NONE;
    return make_view(*array, to);
  });
}

bool product_of(const View& view, int64_t& product) {
  product = 1;
  for (int d = 0; d < view.ndim; ++d) {
    if (view.shape[d] < 0 || __builtin_mul_overflow(product, view.shape[d], &product)) return false;
  }
  return true;
}

// Of elements that lie in C order.
bool reshape(const Layout& from, PyObject* shape, Layout& to) {
  int64_t before, after;
  if (!is_compact(from.view) || !read_exact(shape, to.view.shape, to.view.ndim)) return false;
  if (!product_of(from.view, before) || !product_of(to.view, after) || before != after) {
    return false;
  }
  to.view.set_compact_strides();
  to.offset = from.offset;
  return true;
}

bool stretch(const Layout& from, PyObject* shape, Layout& to) {
  if (!read_exact(shape, to.view.shape, to.view.ndim)) return false;
  const int added = to.view.ndim - from.view.ndim;
  std::fill(to.view.strides, to.view.strides + std::max(0, added), 0);
  const int64_t* const sizes = to.view.shape;
  bool fits =
      added >= 0 && std::all_of(sizes, sizes + to.view.ndim, [](int64_t n) { return n >= 0; });
  for (int d = 0; fits && d < from.view.ndim; ++d) {
    const int64_t n = from.view.shape[d], m = to.view.shape[added + d];
    to.view.strides[added + d] = n == m ? from.view.strides[d] : 0;
    fits = n == m || n == 1;
  }
  to.offset = from.offset;
  return fits;
}

// What a[index] shows, entry by entry; each function says whether the entry is a plain one.
class Cut {
 public:
  Cut(const Layout& from, Layout& to) : from_(from), to_(to) {
    to_.view.ndim = 0;
    to_.offset = from.offset;
  }

  bool take(PyObject* entry) {
    if (entry == Py_None) return append(1, 0);
    int64_t position;
    if (PySlice_Check(entry)) return take_slice(entry);
    return read_exact(entry, position) && take_position(position);
  }

  bool take_all(int count) {
    for (int i = 0; i < count; ++i) {
      if (axis_ == from_.view.ndim) return false;
      if (!append(from_.view.shape[axis_], from_.view.strides[axis_])) return false;
      ++axis_;
    }
    return true;
  }

 private:
  bool append(int64_t size, int64_t stride) {
    if (to_.view.ndim == kMaxDims) return false;
    to_.view.shape[to_.view.ndim] = size;
    to_.view.strides[to_.view.ndim++] = stride;
    return true;
  }

  bool move(int64_t steps) {
    int64_t distance;
    return !__builtin_mul_overflow(steps, from_.view.strides[axis_], &distance) &&
           !__builtin_add_overflow(to_.offset, distance, &to_.offset);
  }

  bool take_position(int64_t position) {
    if (axis_ == from_.view.ndim) return false;
    const int64_t n = from_.view.shape[axis_];
    if (position < -n || position >= n || !move(position < 0 ? position + n : position)) {
      return false;
    }
    ++axis_;
    return true;
  }

  bool take_slice(PyObject* entry) {
    const SliceBounds bounds(entry);
    int64_t number = 1;
    for (PyObject* bound : {bounds.start, bounds.stop, bounds.step}) {
      if (bound != Py_None && !read_exact(bound, number)) return false;
    }
    const bool is_still = bounds.step != Py_None && number == 0;
    if (axis_ == from_.view.ndim || is_still) return false;
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(entry, &start, &stop, &step) != 0) throw nb::python_error();
    const Py_ssize_t count = PySlice_AdjustIndices(from_.view.shape[axis_], &start, &stop, step);
    int64_t stride;
    if (__builtin_mul_overflow(from_.view.strides[axis_], step, &stride)) return false;
    if (!append(count, stride) || (count > 0 && !move(start))) return false;
    ++axis_;
    return true;
  }

  const Layout& from_;
  Layout& to_;
  int axis_ = 0;  // of the array: the next one to be cut
};

bool cut_by(const Layout& from, PyObject* const* entries, Py_ssize_t count, Layout& to) {
  Py_ssize_t given = 0, dots = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    dots += entries[i] == Py_Ellipsis ? 1 : 0;
    given += entries[i] != Py_Ellipsis && entries[i] != Py_None ? 1 : 0;
  }
  const auto rest = static_cast<int>(from.view.ndim - given);
  if (rest < 0 || dots > 1) return false;
  Cut result(from, to);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!(entries[i] == Py_Ellipsis ? result.take_all(rest) : result.take(entries[i])))
      return false;
  }
  return dots == 1 || result.take_all(rest);
}

bool cut(const Layout& from, PyObject* index, Layout& to) {
  if (!PyTuple_CheckExact(index)) return cut_by(from, &index, 1, to);
  return cut_by(from, TupleItems(index).data(), PyTuple_GET_SIZE(index), to);
}

// view_reshaped(array, shape)
PyObject* view_reshaped(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return view_of(arguments, count, "reshape", reshape);
}

// view_stretched(array, shape)
PyObject* view_stretched(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return view_of(arguments, count, "broadcast_to", stretch);
}

// view_cut(array, index)
PyObject* view_cut(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return view_of(arguments, count, "getitem", cut);
}

}  // namespace

void bind_views(nb::module_& m) {
  static PyMethodDef functions[] = {fast_method("view_reshaped", view_reshaped),
                                    fast_method("view_stretched", view_stretched),
                                    fast_method("view_cut", view_cut),
                                    {}};
  add_functions(m, functions);
}

}  // namespace needle
