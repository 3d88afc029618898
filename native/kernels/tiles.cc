// The loops of tiles.h, for the kernels that choose them at run time.
#include "tiles.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T, class As>
Source<T> make_source(DType dtype) {
  Source<T> source = {};
  with_dtype(dtype, [&](auto tag) {
    using From = typename decltype(tag)::type;
    source = {load_tile<T, As, From>, is_same<From, As>};
  });
  return source;
}

template <class T>
StoreFn<T> make_store(DType dtype) {
  StoreFn<T> store = nullptr;
  with_dtype(dtype, [&](auto tag) { store = store_tile<typename decltype(tag)::type, T>; });
  return store;
}

}  // namespace

#define NEEDLE_DEFINE(T, As)                \
  template <>                               \
  Source<T> source_of<T, As>(DType dtype) { \
    return make_source<T, As>(dtype);       \
  }
NEEDLE_SOURCES(NEEDLE_DEFINE)
#undef NEEDLE_DEFINE

#define NEEDLE_DEFINE(T)                \
  template <>                           \
  StoreFn<T> store_of<T>(DType dtype) { \
    return make_store<T>(dtype);        \
  }
NEEDLE_STORES(NEEDLE_DEFINE)
#undef NEEDLE_DEFINE

}  // namespace needle::NEEDLE_ISA
