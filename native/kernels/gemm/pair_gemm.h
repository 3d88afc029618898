// Matrix products of packed pairs of bfloat16, by a unit that multiplies panels of them: the tiles
// of AMX (amx.cc) or the dot products of AVX-512 (bf16.cc).
//
//     for each task (a part of C)              its rows of A and columns of B are packed by itself
//       for each block of k                    A's rows stay in the second-level cache,
//         for each panel of B's columns        a panel of B in the first,
//           for each panel of A's rows         and 32 x 32 sums in registers
//
// Numbers below 2^-126 are taken as zero, and the terms of a number above 2^127 may overflow. So
// packing notes the range of the operands, and a task whose operands could come near these limits
// is computed by the float32 kernels instead (see is_safe). Products of bfloat16 are as the unit
// makes them.
#pragma once

#include "amx_pack.h"
#include "kernels/entries.h"
#include "product.h"

namespace needle::NEEDLE_ISA {
namespace {

// k per block: a panel of A and one of B fit the first-level cache, of 48 KiB, beside their sums.
template <int kTerms>
constexpr int64_t kBlockDepth = 320;
template <>
constexpr int64_t kBlockDepth<2> = 160;
template <>
constexpr int64_t kBlockDepth<3> = 96;

// A task's part of C: sums and rows of A take 1.3 MB of a second-level cache of 2 MB. Packing costs
// about 1/6 of the products of 512 x 512 sums, more of smaller parts.
constexpr int64_t kTaskSide = 512;
constexpr int64_t kLargeTask = int64_t{1} << 27;  // multiplications, if there are few tasks
constexpr int64_t kFewTasks = 4, kManyTasks = 16;

// Part of C that takes the sums of two panels: rows c_row floats apart.
struct Block {
  float* c;
  int64_t c_row, rows, cols;  // at most kPanel
  bool accumulate;
};

// One product of m x k and k x n whose elements are E. Unit multiplies panels:
//
//     unit.multiply<kTerms>(a, b, steps, block)     block (+)= a b, steps * kStep deep
//
// and lives as long as a thread computes tasks.
template <class E, int kTerms, class Unit>
class PairGemm {
 public:
  // An epilogue is run on finished tasks; without a plain result it alone takes the sums.
  PairGemm(const Product<float>& product, const Epilogue* epilogue)
      : p_(product),
        epilogue_(epilogue),
        a_(p_.a.data, p_.a.row_stride, p_.a.col_stride, false),
        b_(p_.b.data, p_.b.col_stride, p_.b.row_stride, true),
        depth_(even_part(p_.k, kBlockDepth<kTerms>, kStep)) {
    const int64_t work = p_.m * p_.n * p_.k / kLargeTask;
    const int64_t tasks = max_of(kFewTasks, min_of(kManyTasks, work));
    rows_ = even_part(p_.m, kTaskSide, kPanel);
    cols_ = even_part(p_.n, kTaskSide, kPanel);
    while (ceil_div(p_.m, rows_) * ceil_div(p_.n, cols_) < tasks && max_of(rows_, cols_) > kPanel) {
      int64_t& longer = rows_ > cols_ ? rows_ : cols_;
      longer = even_part(longer, longer / 2, kPanel);
    }
  }

  void run() {
    const int64_t across = ceil_div(p_.n, cols_);
    parallel_for(ceil_div(p_.m, rows_) * across, 1, [&](int64_t begin, int64_t end) {
      const Unit unit;
      for (int64_t t = begin; t < end; ++t) run_task(unit, t / across * rows_, t % across * cols_);
    });
  }

 private:
  void run_task(const Unit& unit, int64_t row, int64_t col) {
    const int64_t rows = min_of(rows_, p_.m - row), cols = min_of(cols_, p_.n - col);
    const int64_t sums = p_.out.is_plain ? 0 : rows * cols;
    const int64_t packed = (ceil_div(rows, kPanel) + 1) * panel_size();
    const Workspace workspace(
        packed * static_cast<int64_t>(sizeof(bf16_t)) + sums * static_cast<int64_t>(sizeof(float)),
        kept_by_task);
    bf16_t* const a = workspace.as<bf16_t>();
    Product<float> part = p_.part(row, rows, col, cols);
    if (!p_.out.is_plain) {
      part.out = {reinterpret_cast<char*>(a + packed), cols * 4, 4, store_of<float>(DType::f32),
                  true};
    }
    if (!multiply_pairs(unit, part, row, col, a)) multiply_floats(part);
    finish(part.out, row, rows, col, cols);
  }

  // False when pairs cannot compute it.
  bool multiply_pairs(const Unit& unit, const Product<float>& part, int64_t row, int64_t col,
                      bf16_t* packed) {
    float* const c = reinterpret_cast<float*>(part.out.data);
    const int64_t c_row = part.out.row_stride / static_cast<int64_t>(sizeof(float));
    const int64_t a_panels = ceil_div(part.m, kPanel);
    bf16_t* const b = packed + a_panels * panel_size();
    for (int64_t k = 0; k < p_.k; k += depth_) {
      const int64_t depth = min_of(depth_, p_.k - k), steps = ceil_div(depth, kStep);
      const int64_t next_depth = min_of(depth_, p_.k - k - depth);
      Exponents range;
      for (int64_t i = 0; i < part.m; i += kPanel) {
        const int64_t lines = min_of(kPanel, part.m - i);
        range.add(a_.pack(packed + i * steps * kTerms * kStep, row + i, lines, k, depth));
      }
      for (int64_t j = 0; j < part.n; j += kPanel) {
        const int64_t width = min_of(kPanel, part.n - j);
        if (!is_safe(range, b_.pack(b, col + j, width, k, depth))) return false;
        if (j + width < part.n) {
          b_.prefetch(col + j + width, min_of(kPanel, part.n - j - width), k, depth);
        }
        if (j < part.m) a_.prefetch(row + j, min_of(kPanel, part.m - j), k + depth, next_depth);
        for (int64_t i = 0; i < part.m; i += kPanel) {
          const bf16_t* const a = packed + i * steps * kTerms * kStep;
          unit.template multiply<kTerms>(
              a, b, steps, {c + i * c_row + j, c_row, min_of(kPanel, part.m - i), width, k > 0});
        }
      }
    }
    return true;
  }

  // May panels with these exponents be multiplied? Products below 2^-126 are lost: that is
  // less than half a unit in the last place of the smallest product when this is 2^-99 or more.
  bool is_safe(const Exponents& a, const Exponents& b) const {
    if (is_same<E, bf16_t>) return true;
    constexpr int kSpare = 3;  // factors of two for the six products of a number
    constexpr int kLowest = -126 + 8 * kTerms;
    int length = 0;
    while ((int64_t{1} << length) < p_.k) ++length;
    return a.low + b.low >= kLowest + kSpare && a.low >= kLowest && b.low >= kLowest &&
           a.high < 127 && b.high < 127 && a.high + b.high + 2 + length < 127;
  }

  void finish(const Result<float>& c, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    float* const sums = reinterpret_cast<float*>(c.data);
    const int64_t c_row = c.row_stride / static_cast<int64_t>(sizeof(float));
    if (epilogue_ != nullptr) return run_on_block(*epilogue_, sums, c_row, row, rows, col, cols);
    if (p_.out.is_plain) return;
    for (int64_t i = 0; i < rows; ++i) {
      p_.out.store(p_.out.at(row + i, col), p_.out.col_stride, sums + i * c_row, cols);
    }
  }

  int64_t panel_size() const { return ceil_div(depth_, kStep) * kTerms * kPanelStep; }

  const Product<float> p_;
  const Epilogue* const epilogue_;
  const Packer<E, kTerms> a_, b_;
  const int64_t depth_;  // of blocks
  int64_t rows_, cols_;  // of tasks
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
