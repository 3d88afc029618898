// Batches of products that are one block of C each: the microkernel is chosen once for all of them.
// 1000 products of 4 x 4 matrices, one Zen 4 core: 128 us with a plan for each, and 21 so.
#pragma once

#include "brgemm.h"
#include "gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
class SmallProducts {
 public:
  explicit SmallProducts(const Product<T>& p)
      : is_turned_(length_of(p.out.row_stride) < length_of(p.out.col_stride)),
        p_(is_turned_ ? p.transposed() : p) {}

  // Are they small, and elements where the microkernel reads and writes them? A single row is
  // computed as quickly without it.
  bool fit() const {
    const bool is_plain = p_.out.is_plain && p_.a.source.is_plain && p_.b.source.is_plain;
    return is_plain && p_.out.col_stride == kSize && p_.m > 1 && p_.m <= kMostRows && p_.n > 1 &&
           p_.n <= block_cols<T>(p_.m) && p_.k > 0 && p_.k <= kMostDepth;
  }

  // Products [begin, end) of a batch: the offsets of their out, a and b.
  void run(const Nest<3>& batch, int64_t begin, int64_t end) const {
    const BlockKernel<T> kernel = block_kernel<T>(p_.m, p_.n);
    const bool is_packed = p_.b.col_stride != kSize;
    T packed[kMostDepth * kMostCols];
    Panels<T> panels;
    PanelSum<T> sum = {&panels,
                       1,
                       p_.k,
                       p_.a.row_stride / kSize,
                       p_.a.col_stride / kSize,
                       is_packed ? p_.n : p_.b.row_stride / kSize};
    Cursor<3> at(batch, begin);
    for (int64_t i = begin; i < end; ++i, at.next()) {
      panels.a = reinterpret_cast<const T*>(p_.a.data + at.offset[is_turned_ ? 2 : 1]);
      const char* const b = p_.b.data + at.offset[is_turned_ ? 1 : 2];
      panels.b = is_packed ? pack(packed, b) : reinterpret_cast<const T*>(b);
      T* const c = reinterpret_cast<T*>(p_.out.data + at.offset[0]);
      kernel(sum, 0, 0, c, p_.out.row_stride / kSize, false);
    }
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kMostDepth = 16, kMostCols = block_cols<T>(2);

  const T* pack(T* to, const char* b) const {
    for (int64_t k = 0; k < p_.k; ++k) {
      for (int64_t j = 0; j < p_.n; ++j) {
        to[k * p_.n + j] =
            *reinterpret_cast<const T*>(b + k * p_.b.row_stride + j * p_.b.col_stride);
      }
    }
    return to;
  }

  const bool is_turned_;  // out' = b' a', as the columns of out are what lies side by side
  const Product<T> p_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
