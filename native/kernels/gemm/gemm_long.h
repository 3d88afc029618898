// Products with few sums, but long ones, are cut along k: (m, k) (k, n) where k is several times m
// and n. Each part has sums of its own, which are then added in order.
//
// A thread needs a part of A and of B, where a tile of C needs all of one of them. In training that
// is the part which it had before, as a weight's gradient and update are cut along the same axis. A
// product alone is no faster, but a training step of Linear(784, 100), ReLU, Linear(100, 10) with
// Adam on 100 rows takes 225 us, with tiles 252 (two cores, AVX-512, Zen 4); with 512 inputs and
// 128 units on 128 rows 231, with tiles 252.
#pragma once

#include "gemm.h"

namespace needle::NEEDLE_ISA {
namespace {

constexpr int64_t kLongSums = 4;     // times as long as a side of C
constexpr int64_t kPartDepth = 256;  // of k: the step above takes 239 us with 128
constexpr int64_t kMostParts = 16;
constexpr int64_t kWorthParts = int64_t{1} << 22, kMostInParts = int64_t{1} << 26;

inline bool has_long_sums(int64_t m, int64_t n, int64_t k) {
  const int64_t work = m * n * k;
  return k >= kLongSums * max_of(m, n) && work >= kWorthParts && work <= kMostInParts;
}

template <class T>
bool has_long_sums(const Product<T>& p) {
  return has_long_sums(p.m, p.n, p.k);
}

template <class T>
class LongSums {
 public:
  explicit LongSums(const Product<T>& product)
      : p_(product),
        size_(p_.m * p_.n),
        parts_(min_of(kMostParts, 2 * ceil_div(p_.k, 2 * kPartDepth))),  // even, for two threads
        depth_(ceil_div(p_.k, parts_)),
        workspace_(parts_ * size_ * kSize) {}

  void run(const Epilogue* epilogue = nullptr) const {
    parallel_for(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Gemm<T>(part(i)).run();
    });
    parallel_for(p_.m, ceil_div(p_.m, parts_),
                 [&](int64_t begin, int64_t end) { finish_rows(begin, end - begin, epilogue); });
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  T* sums(int64_t i) const { return workspace_.template as<T>() + i * size_; }

  Product<T> part(int64_t i) const {
    Product<T> some = p_;
    some.out = {reinterpret_cast<char*>(sums(i)), p_.n * kSize, kSize, nullptr, true};
    some.a.data = p_.a.at(0, i * depth_);
    some.b.data = p_.b.at(i * depth_, 0);
    some.k = min_of(depth_, p_.k - i * depth_);
    return some;
  }

  void finish_rows(int64_t row, int64_t rows, const Epilogue* epilogue) const {
    T* const c = sums(0) + row * p_.n;
    for (int64_t i = 1; i < parts_; ++i) {
      const T* const more = c + i * size_;
      for (int64_t j = 0; j < rows * p_.n; ++j) c[j] += more[j];
    }
    if constexpr (is_same<T, float>) {
      if (epilogue != nullptr) return run_on_block(*epilogue, c, p_.n, row, rows, 0, p_.n);
    }
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(p_.out.at(row + i, 0), p_.out.col_stride, c + i * p_.n, p_.n);
    }
  }

  const Product<T> p_;
  const int64_t size_, parts_, depth_;
  const Workspace workspace_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
