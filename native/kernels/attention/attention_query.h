// Attention of one query, as in a step of generation: each key and value is read once, where it
// lies, so that the time is that of memory.
#pragma once

#include "attention_tiles.h"
#include "kernels/reduce/reduce_ops.h"

namespace needle::NEEDLE_ISA {
namespace {

template <class T>
class OneQuery {
 public:
  OneQuery(const Scores<T>& scores, const AttentionInputs& in, int64_t head)
      : scores_(scores),
        in_(in),
        head_(head),
        memory_((scores.size * (1 + kKeys) + scores.width * (1 + kKeys)) * kSize, kept_by_task) {}

  // y (width), not divided yet; the largest score and the sum of all e^(s - largest).
  struct Result {
    T *y, highest, total;
  };

  Result run() const {
    const int64_t size = scores_.size, width = scores_.width;
    T* const q = memory_.template as<T>();
    T* const y = q + size;
    T *const k_copy = y + width, *const v_copy = k_copy + kKeys * size;
    const Rows<T> k = rows_of<T>(*in_.k, head_), v = rows_of<T>(*in_.v, head_);
    read_query(q);
    __builtin_memset(y, 0, width * kSize);
    Result result = {y, Scores<T>::kNever, 0};
    const int64_t seen = scores_.seen_by({0, 1});
    T s[kKeys];
    for (int64_t start = 0; start < seen; start += kKeys) {
      const Span columns = {start, min_of(kKeys, seen - start)};
      multiply_keys(s, q, k.read_once(columns, size, k_copy), columns.count);
      add_mask(s, columns);
      take(s, columns.count, result);
      multiply(y, width, int64_t{1}, width, s, columns.count, int64_t{1},
               v.read_once(columns, width, v_copy), columns.count, true);
    }
    return result;
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  void read_query(T* q) const {
    const Rows<T> rows = rows_of<T>(*in_.q, head_);
    rows.source.load(q, rows.data, rows.col, scores_.size);
    for (int64_t x = 0; x < scores_.size; ++x) q[x] *= scores_.scale;
  }

  // s[j] = q . key j, four keys at a time: their sums do not wait for each other.
  void multiply_keys(T* s, const T* q, Panel<T> k, int64_t keys) const {
    constexpr int kAtOnce = 4;
    for (int64_t j = 0; j < keys; j += kAtOnce) {
      const T* row[kAtOnce];
      for (int i = 0; i < kAtOnce; ++i) row[i] = k.data + min_of(j + i, keys - 1) * k.step;
      Vec<T> sums[kAtOnce] = {};
      for_each_vec<T>(scores_.size, [&](int64_t x, auto io) {
        const Vec<T> factor = io.load(q + x);
#pragma GCC unroll 4
        for (int i = 0; i < kAtOnce; ++i) {
          sums[i] = multiply_add(factor, io.load(row[i] + x), sums[i]);
        }
      });
      for (int i = 0; i < kAtOnce && j + i < keys; ++i) {
        s[j + i] = reduce_lanes<Sum, T, kLanes<T>>(sums[i]);
      }
    }
  }

  void add_mask(T* s, Span columns) const {
    if (in_.mask == nullptr) return;
    const Rows<T> mask = scores_.mask_of(head_);
    const bool chooses = in_.mask->dtype == DType::b8;
    T line[kKeys];
    mask.source.load(line, mask.data + columns.begin * mask.col, mask.col, columns.count);
    for (int64_t j = 0; j < columns.count; ++j) {
      s[j] = !chooses ? s[j] + line[j] : line[j] != 0 ? s[j] : Scores<T>::kNever;
    }
  }

  // Scores become e^(s - level), which join the total; what was summed before shrinks to it.
  void take(T* s, int64_t keys, Result& result) const {
    for (int64_t j = keys; j % kLanes<T> != 0; ++j) s[j] = Scores<T>::kNever;
    Vec<T> most = splat(result.highest), sum = {};
    for (int64_t j = 0; j < keys; j += kLanes<T>) most = larger_of(load(s + j), most);
    const T highest = reduce_lanes<Max, T, kLanes<T>>(most);
    const Vec<T> level = level_of<T>(splat(highest));
    T shrink[kLanes<T>];
    store(shrink, exp_below_0(splat(result.highest) - level));
    for (int64_t j = 0; j < keys; j += kLanes<T>) {
      const Vec<T> e = exp_below_0(load(s + j) - level);
      store(s + j, e);
      sum += e;
    }
    result.highest = highest;
    result.total = result.total * shrink[0] + reduce_lanes<Sum, T, kLanes<T>>(sum);
    for (int64_t x = 0; shrink[0] != 1 && x < scores_.width; ++x) result.y[x] *= shrink[0];
  }

  const Scores<T>& scores_;
  const AttentionInputs& in_;
  const int64_t head_;
  const Workspace memory_;
};

}  // namespace
}  // namespace needle::NEEDLE_ISA
